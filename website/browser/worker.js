// The Python of the page, in a thread of its own: {id, call, body} is answered by {id, answer} or {id, error}.
// Before, it says what it is {loading}, then that it is {ready}, or why it has {failed}.
import { start } from "./interpreter.js";

const folder = new URL("./", import.meta.url).href;
const EMPTY = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0); // the smallest module

// Pyodide waits for ever for a file that does not arrive whole, so files are read here. The first that is missing is told, and
// never answered: the page ends this thread then.
const load = globalThis.fetch;
const missing = new Promise((_, reject) => {
  globalThis.fetch = async (what, options) => {
    const name = String(what.url ?? what).replace(/^.*\//, "");
    try {
      const reply = await load(what, options);
      if (!reply.ok) throw new Error(`the server says ${reply.status}`);
      return new Response(await reply.arrayBuffer(), { headers: { "Content-Type": reply.headers.get("Content-Type") ?? "" } });
    } catch (error) {
      reject(new Error(`${name}: ${error.message}`));
      return new Promise(() => {});
    }
  };
});

async function loaded() {
  await WebAssembly.compile(EMPTY); // or say now that it is forbidden here
  const contents = await (await fetch(`${folder}contents.json`)).json();
  return start(folder, contents, (loading) => postMessage({ loading }));
}

try {
  const answer = await Promise.race([loaded(), missing]);
  addEventListener("message", ({ data: { id, call, body } }) => {
    postMessage({ id, ...JSON.parse(answer(call, JSON.stringify(body))) });
  });
  postMessage({ ready: true });
} catch (error) {
  postMessage({ failed: String(error?.message ?? error) });
}

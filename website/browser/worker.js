// The Python of the page, in a thread of its own: {id, call, body} is answered by {id, answer} or {id, error}.
// Before, it says what it is {loading}, then that it is {ready}, or why it has {failed}.
import { start } from "./interpreter.js";

const folder = new URL("./", import.meta.url).href;

try {
  const contents = await (await fetch(`${folder}contents.json`)).json();
  const answer = await start(folder, contents, (loading) => postMessage({ loading }));
  addEventListener("message", ({ data: { id, call, body } }) => {
    postMessage({ id, ...JSON.parse(answer(call, JSON.stringify(body))) });
  });
  postMessage({ ready: true });
} catch (error) {
  postMessage({ failed: String(error?.message ?? error) });
}

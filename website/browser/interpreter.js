// A Python with the package in it: what `fencelock lab` has behind its page, without a server.
import { lua } from "./lua.js";
import { loadPyodide } from "./pyodide/pyodide.mjs";

// Load it from a folder of the site; `packages` are the wheels in it, `standins` what takes the place of others.
// Answers a function of a call and its body, both text, that answers JSON.
export async function start(folder, { packages, standins }, tell) {
  tell("Python");
  const python = await loadPyodide({ indexURL: `${folder}pyodide/` });
  tell("Lua");
  const engine = await lua(`${folder}wasmoon/liblua5.1.wasm`);
  python.registerJsModule("fencelock_lua", {
    compile: (source) => engine.compile(source),
    expose: (called) => engine.expose(called),
    call: (...given) => engine.call(...given),
    drop: (reference) => engine.drop(reference),
  });
  tell("fencelock");
  const quiet = { messageCallback: () => {}, checkIntegrity: false };
  await python.loadPackage(packages.map((one) => folder + one), quiet);
  const reply = await fetch(folder + standins);
  python.unpackArchive(await reply.arrayBuffer(), "zip", { extractDir: "/standins" });
  python.runPython("import sys; sys.path.insert(0, '/standins')");
  return python.pyimport("lab_browser").answer;
}

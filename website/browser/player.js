// The player of the documentation site: what was recorded at once, and any other play when the lab has been loaded into
// the browser. It takes the place of the package's own (pages/player.js) in the import map, and has the same exports.
import { signal } from "ui";
import { asked, wanted } from "../pages/player.js";
import { found, unpacked } from "../pages/recorded.js";

const STAGES = ["Python", "Lua", "fencelock"];
const NEEDED = "what you see was recorded. Switches and comparisons work, other changes need the lab: load this page again, or install fencelock[lab] and run `fencelock lab`.";

export const editable = signal(true);
export const status = signal({ brief: "Loading the lab…", words: "", failed: "" });
export const about = { link: "A link opens on this page, once the lab is loaded, and in a lab that runs: ", export: "An export is one file: it needs neither the lab nor a network." };
export const home = "../docs/lab.html";

async function fetched(path) {
  let reply;
  try {
    reply = await fetch(path);
  } catch {
    reply = { ok: false };
  }
  if (!reply.ok) throw new Error(`${path} cannot be loaded: is the network down?`);
  return reply;
}

export const scenarios = async () => (await fetched("recorded/scenarios.json")).json();

const recordings = new Map(); // by names of scenarios
function recording(name) {
  if (!recordings.has(name)) {
    const found = fetched(`recorded/${encodeURIComponent(name)}.bin`).then(async (reply) => unpacked(await reply.arrayBuffer()));
    found.catch(() => recordings.delete(name));
    recordings.set(name, found);
  }
  return recordings.get(name);
}

let waiting = 0; // calls that wait for the lab to be loaded
let stage = "";
function say(changed = {}) {
  const words = waiting && !status.value.failed && stage !== "ready" ? "The lab is still loading: this is played as soon as it is there." : "";
  status.value = { ...status.value, ...changed, words };
}

const calls = new Map();
let last = 0;
const worker = new Promise((resolve, reject) => {
  // The page allows no other script address than this one.
  const trusted = globalThis.trustedTypes?.createPolicy("lab-worker", { createScriptURL: (url) => url });
  const url = new URL("./worker.js", import.meta.url).href, thread = new Worker(trusted ? trusted.createScriptURL(url) : url, { type: "module" });
  thread.addEventListener("error", ({ message }) => reject(new Error(message || "its files cannot be loaded")));
  thread.addEventListener("message", ({ data: { loading, ready, failed, id, ...said } }) => {
    if (loading) say({ brief: `Loading ${loading}, ${STAGES.indexOf(loading) + 1} of ${STAGES.length}` });
    else if (failed) {
      thread.terminate();
      reject(new Error(failed));
    }
    else if (ready) resolve(thread);
    else {
      const { resolve: done, reject: refuse } = calls.get(id);
      calls.delete(id);
      if (said.error === undefined) done(said.answer);
      else refuse(new Error(said.error));
    }
  });
});

worker.then(
  () => {
    stage = "ready";
    say({ brief: "Plays in this browser" });
  },
  ({ message }) => {
    editable.value = false;
    say({ brief: "Recorded plays", failed: `The lab could not be loaded (${message}): ${NEEDED}` });
  },
);

async function call(name, body) {
  waiting++;
  say();
  let thread;
  try {
    thread = await worker;
  } catch {
    throw new Error("This was not recorded, and the lab could not be loaded.");
  } finally {
    waiting--;
    say();
  }
  const id = ++last;
  return new Promise((resolve, reject) => {
    calls.set(id, { resolve, reject });
    thread.postMessage({ id, call: name, body });
  });
}

async function remembered(universe) {
  if (universe.own || Object.keys(universe.edits).length) return undefined;
  try {
    return found(await recording(universe.name), universe);
  } catch {
    return undefined; // the lab can play it as well
  }
}

export const play = async (universe) => (await remembered(universe)) ?? call("play", asked(universe));

export const file = (universe) => call("export", wanted(universe));

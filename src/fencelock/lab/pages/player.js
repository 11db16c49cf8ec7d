// Plays universes. In the live page the server plays them; a page of one file holds what was played before.
//
// A universe is {name, document, choices, edits, variant}: a scenario, how its switches stand, what was changed in it,
// and the variant of it that is compared with it. Edits are {} or {faults: [all of them], scripts: {actor: [its whole script]}};
// a variant may be left out. The trace has the document that was played; that of a history has none.
//
// The import map names this module `player`. Another page may name another one there, with the same exports.
import { signal } from "ui";
import { found, unpacked } from "./recorded.js";

const held = document.getElementById("recorded");

async function call(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let reply, answer;
  try {
    reply = await fetch(path, options);
    answer = reply.headers.get("Content-Type")?.startsWith("text/html") ? await reply.text() : await reply.json();
  } catch {
    throw new Error("The lab does not answer: is `fencelock lab` still running?");
  }
  if (!reply.ok) throw new Error(answer.error);
  return answer;
}

// What is sent to whoever plays.
export const asked = ({ document, choices, edits, variant = {} }) => ({ document, switches: choices, edits, variant });
export const wanted = ({ name, own = false, document, choices, edits }) => ({ name, own, document, switches: choices, edits });

const live = {
  scenarios: () => call("scenarios"),
  play: (universe) => call("play", asked(universe)),
};

async function read() {
  try {
    return await unpacked(Uint8Array.from(atob(held.textContent), (letter) => letter.charCodeAt(0)));
  } catch {
    throw new Error("What this file holds cannot be read: it is damaged, or this browser is older than 2023.");
  }
}

const data = held ? read() : null;

const recorded = {
  async scenarios() {
    const { parts } = await data;
    if (parts) return { first: parts[0].name, version: parts[0].trace.versions.fencelock, scenarios: parts.map(({ name, title }) => ({ name, document: { title } })) };
    const { name, own, document, version, faults, choices, edits } = await data;
    return { first: name, version, faults, start: { choices, edits }, scenarios: [{ name, own, document }] };
  },
  async play(universe) {
    const all = await data, { name } = universe;
    if (all.parts) return all.parts.find((one) => one.name === name).trace;
    const trace = found(all, universe);
    if (!trace) throw new Error(`This file holds what was played before. Another play needs the live lab: fencelock lab ${name}`);
    return trace;
  },
};

const player = held ? recorded : live;
export const scenarios = () => player.scenarios();
export const play = (universe) => player.play(universe);
export const file = (universe) => call("export", wanted(universe));
export const editable = signal(!held); // whether the page offers to change something
export const status = signal({ brief: "", words: "", failed: "" }); // how the player is: in the head; while somebody waits; for good
export const about = { link: "A link plays in a lab that runs; ", export: held ? "This file is an export: it needs neither the lab nor a network." : "An export is one file: it needs neither the lab nor a network." };
export const home = ""; // where the documents are, if they are near

// Plays universes. In the live page the server plays them; a page of one file holds what was played before.
//
// A universe is {name, document, choices, edits, variant}: a scenario, how its switches stand, what was changed in it,
// and the variant of it that is compared with it. Edits are {} or {faults: [all of them], scripts: {actor: [its whole script]}};
// a variant may be left out. The trace has the document that was played; that of a history has none.
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

const asked = ({ document, choices, edits }) => ({ document, switches: choices, edits });

const live = {
  scenarios: () => call("scenarios"),
  play: ({ variant = {}, ...universe }) => call("play", { ...asked(universe), variant }),
  file: ({ name, own = false, ...universe }) => call("export", { ...asked(universe), name, own }),
};

// Whether two values of JSON are equal; the order of names in an object does not count.
function equal(one, other) {
  if (typeof one !== "object" || typeof other !== "object" || !one || !other) return one === other;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => equal(one[name], other[name]));
}

async function unpacked() {
  try {
    const bytes = Uint8Array.from(atob(held.textContent), (letter) => letter.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(plain).text());
  } catch {
    throw new Error("What this file holds cannot be read: it is damaged, or this browser is older than 2023.");
  }
}

const data = held ? unpacked() : null;

const recorded = {
  async scenarios() {
    const { parts } = await data;
    if (parts) return { first: parts[0].name, version: parts[0].trace.versions.fencelock, scenarios: parts.map(({ name, title }) => ({ name, document: { title } })) };
    const { name, own, document, version, faults, choices, edits } = await data;
    return { first: name, version, faults, start: { choices, edits }, scenarios: [{ name, own, document }] };
  },
  async play({ name, document, choices, edits, variant = {} }) {
    const all = await data;
    if (all.parts) return all.parts.find((one) => one.name === name).trace;
    const found = equal(document, all.document) && all.plays.find((one) => equal(one.choices, choices) && equal(one.edits, edits) && equal(one.variant, variant));
    if (!found) throw new Error(`This file holds what was played before. Another play needs the live lab: fencelock lab ${name}`);
    return found.trace;
  },
};

export const isLive = !held;
const player = held ? recorded : live;
export const scenarios = () => player.scenarios();
export const play = (universe) => player.play(universe);
export const file = (universe) => live.file(universe);

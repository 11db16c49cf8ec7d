// What is shown: a universe with its trace, and the moment.
import { play, scenarios } from "player";
import { batch, computed, signal } from "ui";
import { decoded } from "./link.js";

export const all = signal([]);
export const notice = signal(""); // about the link that was opened
export const beside = signal(""); // what a second universe differs in, in words
export const version = signal("");
export const kinds = signal([]); // of faults
export const universe = signal({ name: "", document: null, choices: {}, edits: {} });
export const trace = signal(null);
export const failed = signal("");
export const at = signal(0);
export const playing = signal(false);
export const speed = signal(1);

export const name = computed(() => universe.value.name);
export const choices = computed(() => universe.value.choices);
export const edits = computed(() => universe.value.edits);
export const changed = computed(() => Object.keys(edits.value).length > 0);
export const scenario = computed(() => universe.value.document);
export const played = computed(() => trace.value?.document ?? {});
// A history was not played from a document: it has parts, and nothing in it can be changed.
export const run = computed(() => trace.value?.run ?? null);
export const start = computed(() => trace.value?.from ?? 0);
// What breaks in a trace; of a history, in the part that is shown.
export const brokenIn = ({ verdict }) => verdict.flatMap((one) => one.violations).filter((one) => !one.parts || one.parts.includes(name.value));
export const switches = computed(() => Object.entries(scenario.value?.switches ?? {}));
export const moments = computed(() => {
  const { events = [], steps = [], until = 0 } = trace.value ?? {};
  const times = [...events, ...steps, ...(trace.value ? brokenIn(trace.value) : [])].map((one) => one.at);
  return [...new Set([start.value, ...times.filter((one) => one <= until), until])].sort((one, other) => one - other);
});

let asked = 0, wanted = universe.value;
const before = []; // the edits that can be gone back to

// Play a universe, and show it once it is played. Of two plays under way the later one counts; of one that
// cannot be played the reason is shown, and what was shown before stays: false is answered, and undefined if it was overtaken.
async function show(next) {
  const mine = ++asked;
  wanted = next;
  try {
    const answer = await play(next);
    if (mine !== asked) return undefined;
    const arrives = answer.run && universe.value.name !== next.name;
    batch(() => {
      universe.value = next;
      trace.value = answer;
      failed.value = "";
      go(arrives ? Math.min(...brokenIn(answer).map((one) => one.at), answer.until) : at.value);
    });
    return true;
  } catch (error) {
    if (mine !== asked) return undefined;
    wanted = universe.value;
    failed.value = error.message;
    return false;
  }
}

let beginning = {};

export async function begin() {
  try {
    const answer = await scenarios();
    batch(() => {
      all.value = answer.scenarios;
      version.value = answer.version;
      kinds.value = answer.faults ?? [];
    });
    beginning = answer;
    await follow();
    addEventListener("hashchange", follow);
  } catch (error) {
    failed.value = error.message;
  }
}

// Show what the address names: a scenario, or a universe in a link; else what the page begins with.
async function follow() {
  const { first, start } = beginning, fragment = location.hash.slice(1);
  const named = all.value.find((one) => encodeURIComponent(one.name) === fragment || one.name === fragment);
  if (!fragment || named) {
    await choose(named?.name ?? first, start);
    return;
  }
  let link;
  try {
    link = decoded(fragment, all.value);
  } catch (error) {
    await choose(first, start);
    notice.value = error.message;
    return;
  }
  if (!all.value.includes(link.scenario)) all.value = [...all.value, link.scenario];
  await choose(link.scenario.name, link.universe, fragment);
  if (!trace.value) return;
  go(link.at);
  if (trace.value.digest !== link.digest) notice.value = `This link was made with version ${link.version}, and here is ${version.value}: it plays otherwise here than where it was made.`;
}

export async function choose(name, { choices = {}, edits = {}, beside: also = "" } = {}, fragment = encodeURIComponent(name)) {
  const { document, own } = all.value.find((one) => one.name === name);
  const first = Object.entries(document.switches ?? {}).map(([one, known]) => [one, Object.keys(known)[0]]);
  const chosen = { name, own, document, choices: { ...Object.fromEntries(first), ...choices }, edits };
  before.length = 0;
  playing.value = false;
  at.value = 0;
  notice.value = "";
  beside.value = also;
  history.replaceState(null, "", `#${fragment}`);
  if (await show(chosen) === false) batch(() => {
    universe.value = wanted = chosen;
    trace.value = null;
  });
}

// Go to what went wrong, in a part that shows it.
export async function see({ at: moment, parts = [] }) {
  if (parts.length && !parts.includes(name.value)) await choose(parts[0]);
  go(moment);
}

export const flip = (one, choice) => show({ ...wanted, choices: { ...wanted.choices, [one]: choice } });

// Set switches, from the beginning and without edits.
export function pose(chosen) {
  before.length = 0;
  playing.value = false;
  at.value = 0;
  return show({ ...wanted, choices: chosen, edits: {} });
}

// Lay edits over the scenario, besides those that it has; a sketch cannot be gone back to.
export const sketch = (more) => show({ ...wanted, edits: { ...wanted.edits, ...more } });
export async function edit(more, back = wanted.edits) {
  before.push(back);
  const done = await sketch(more);
  if (done === false) before.splice(before.lastIndexOf(back), 1);
  return done;
}

// What is edited next: also what was asked for and is not played yet.
export const scripts = () => wanted.edits.scripts ?? {};
export const faults = () => wanted.edits.faults ?? played.value.faults ?? [];
export const add = (fault) => edit({ faults: [...faults(), fault] });
export const undo = () => show({ ...wanted, edits: before.pop() ?? {} });
export function reset() {
  before.length = 0;
  return show({ ...wanted, edits: {} });
}

export function go(moment) {
  at.value = Math.min(Math.max(start.value, moment), trace.value?.until ?? 0);
}

// The moment at which something is changed: the playhead, which stays where it is to the millisecond.
export function here() {
  go(Number(at.value.toFixed(3)));
  return at.value;
}

const TINY = 1e-9;
export const next = () => go(moments.value.find((one) => one > at.value + TINY) ?? at.value);
export const previous = () => go(moments.value.findLast((one) => one < at.value - TINY) ?? start.value);

export function toggle() {
  if (!playing.value && at.value >= trace.value?.until) at.value = start.value;
  playing.value = !playing.value;
}

let drawn = 0;
function frame(now) {
  if (!playing.value) return;
  go(at.value + Math.min(now - drawn, 250) / 1000 * speed.value);
  drawn = now;
  if (at.value >= trace.value.until) playing.value = false;
  requestAnimationFrame(frame);
}

playing.subscribe((is) => {
  drawn = performance.now();
  if (is) requestAnimationFrame(frame);
});

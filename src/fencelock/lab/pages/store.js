// What is shown: a scenario, how its switches stand, what was added to it, its trace, and the moment.
import { batch, computed, signal } from "ui";
import { play, scenarios } from "./player.js";

export const all = signal([]);
export const version = signal("");
export const name = signal("");
export const choices = signal({});
export const added = signal([]);
export const trace = signal(null);
export const failed = signal("");
export const at = signal(0);
export const playing = signal(false);
export const speed = signal(1);

export const scenario = computed(() => all.value.find((one) => one.name === name.value)?.document);
export const switches = computed(() => Object.entries(scenario.value?.switches ?? {}));
export const moments = computed(() => {
  const { events = [], steps = [], verdict = [], until = 0 } = trace.value ?? {};
  const times = [...events, ...steps, ...verdict.flatMap((one) => one.violations)].map((one) => one.at);
  return [...new Set([0, ...times.filter((one) => one <= until), until])].sort((one, other) => one - other);
});

let asked = 0;

// Play what is chosen. Of two plays under way, the later one counts.
async function again() {
  const mine = ++asked;
  try {
    const played = await play(scenario.value, choices.value, added.value);
    if (mine !== asked) return;
    batch(() => {
      trace.value = played;
      failed.value = "";
      at.value = Math.min(at.value, played.until);
    });
  } catch (error) {
    if (mine === asked) failed.value = error.message;
  }
}

export async function begin() {
  try {
    const answer = await scenarios();
    const wanted = decodeURIComponent(location.hash.slice(1));
    batch(() => {
      all.value = answer.scenarios;
      version.value = answer.version;
    });
    choose(answer.scenarios.some((one) => one.name === wanted) ? wanted : answer.first);
  } catch (error) {
    failed.value = error.message;
  }
}

export function choose(wanted) {
  batch(() => {
    name.value = wanted;
    choices.value = Object.fromEntries(switches.value.map(([one, known]) => [one, Object.keys(known)[0]]));
    added.value = [];
    at.value = 0;
    playing.value = false;
  });
  history.replaceState(null, "", `#${encodeURIComponent(wanted)}`);
  return again();
}

export function flip(one, choice) {
  choices.value = { ...choices.value, [one]: choice };
  return again();
}

export function add(fault) {
  added.value = [...added.value, fault];
  return again();
}

export function remove(fault) {
  added.value = added.value.filter((one) => one !== fault);
  return again();
}

export function go(moment) {
  at.value = Math.min(Math.max(0, moment), trace.value?.until ?? 0);
}

const TINY = 1e-9;
export const next = () => go(moments.value.find((one) => one > at.value + TINY) ?? at.value);
export const previous = () => go(moments.value.findLast((one) => one < at.value - TINY) ?? 0);

export function toggle() {
  if (!playing.value && at.value >= trace.value?.until) at.value = 0;
  playing.value = !playing.value;
}

let before = 0;
function frame(now) {
  if (!playing.value) return;
  go(at.value + Math.min(now - before, 250) / 1000 * speed.value);
  before = now;
  if (at.value >= trace.value.until) playing.value = false;
  requestAnimationFrame(frame);
}

playing.subscribe((is) => {
  before = performance.now();
  if (is) requestAnimationFrame(frame);
});

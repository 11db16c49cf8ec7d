// A second universe beside the first: the same edits at the same moment, but one thing is otherwise.
import { play } from "player";
import { computed, effect, html, signal } from "ui";
import { worded } from "./fence.js";
import { seconds } from "./moment.js";
import { at, beside, go, trace, universe } from "./store.js";

// What the second may differ in: one choice of a switch, the clients, or the engine. Each has words that name it.
export const options = computed(() => {
  const { document, choices } = universe.value, found = [];
  if (document?.quiz) return found; // it would tell the answer
  for (const [name, known] of Object.entries(document?.switches ?? {})) {
    for (const choice of Object.keys(known)) {
      if (choice !== choices[name]) found.push({ words: `${name}: ${choice}`, of: name, choices: { [name]: choice }, first: `${name}: ${choices[name]}` });
    }
  }
  const { engine, actors } = trace.value?.document ?? {};
  const clients = [...new Set(Object.values(actors ?? {}).map((one) => one.client ?? "fencelock"))].join(", ");
  for (const { words, variant } of trace.value?.variants ?? []) {
    found.push({ words, variant, first: variant.engine ? `engine: ${engine.kind}` : `clients: ${clients}` });
  }
  return found;
});

// {words, first, trace, fork} while two are compared: how each differs from the other, and since when.
export const second = signal(null);
export const refused = signal("");

const KEPT = ["at", "lane", "from", "to", "sent", "arrived", "fate", "what", "words"];

// All that happens on the lanes that both have, each with its moment: events, messages, and what servers and the resource
// come to hold. The mark of a guard does not count, or a resource without one would differ from its first read on.
function happenings(played, lanes) {
  const has = (one) => [one.lane ?? one.from, one.to ?? one.lane].every((name) => lanes.has(name));
  const told = [...played.events, ...played.messages].filter(has).map((one) => [one.at ?? one.sent, JSON.stringify(one, KEPT)]);
  const keepers = played.lanes.filter((lane) => lane.kind !== "client" && lanes.has(lane.name));
  const stood = keepers.flatMap((lane) => played.states[lane.name].map(([since, { mark, ...state }]) => [since, `${lane.name} ${JSON.stringify(state)}`]));
  return [...told, ...stood.filter(([, text], index) => stood[index - 1]?.[1] !== text)];
}

// The first moment at which something happens in one universe alone; undefined if they are equal.
export function forkOf(one, other) {
  const named = new Set(other.lanes.map((lane) => lane.name)), lanes = new Set(one.lanes.map((lane) => lane.name).filter((name) => named.has(name)));
  const counts = new Map();
  for (const [played, by] of [[one, 1], [other, -1]]) {
    for (const [moment, text] of happenings(played, lanes)) {
      const key = `${moment} ${text}`;
      counts.set(key, [(counts.get(key)?.[0] ?? 0) + by, moment]);
    }
  }
  const single = [...counts.values()].filter(([count]) => count).map(([, moment]) => moment);
  return single.length ? Math.min(...single) : undefined;
}

let asked = 0;

effect(() => {
  const first = trace.value, here = universe.value, mine = ++asked;
  if (!beside.value || !first) {
    second.value = null;
    refused.value = "";
    return;
  }
  const [name] = beside.value.split(":");
  const option = options.value.find((one) => one.words === beside.value) ?? options.value.find((one) => one.of === name);
  if (!option) {
    beside.value = "";
    return;
  }
  beside.value = option.words;
  const { words, first: own, choices = {}, variant = {} } = option;
  play({ ...here, choices: { ...here.choices, ...choices }, variant }).then(
    (played) => {
      if (mine !== asked) return;
      second.value = { words, first: own, trace: played, fork: forkOf(first, played) };
      refused.value = "";
    },
    (error) => {
      if (mine !== asked) return;
      second.value = null;
      refused.value = error.message;
    },
  );
});

export function Compare() {
  if (!options.value.length) return null;
  return html`<label class="inline compare"><span class="quiet">compare with</span> <select value=${beside.value} onChange=${(event) => { beside.value = event.currentTarget.value; }}>
    <option value="" selected=${!beside.value}>nothing</option>${options.value.map(({ words }) => html`<option key=${words} value=${words} selected=${words === beside.value}>${words}</option>`)}</select></label>`;
}

function Ruling({ ruling, played }) {
  if (!ruling) return html`<td class="quiet">not asked</td>`;
  const [first] = ruling.violations, broken = first && first.at <= at.value;
  if (!first) return html`<td class=${ruling.outcome === "held" ? "held" : "unasked"}><span class="lamp" aria-hidden="true"></span>${ruling.outcome}</td>`;
  return html`<td class=${broken ? "red" : "held"}><button class="plain" title=${worded(played, first.words)} onClick=${() => go(first.at)}><span class="lamp" aria-hidden="true"></span>${broken ? "broken at" : "held until"} ${seconds(first.at)}</button></td>`;
}

const ENDS = [
  ["written in the end", ({ register }) => register || "nothing"],
  ["writes taken", ({ writes }) => writes],
  ["writes refused", ({ refused: count }) => count],
  ["got the lock", ({ granted }) => granted.join(", ") || "nobody"],
];

// Both, in words: what the judge says, and how it ends.
export function SideBySide() {
  if (refused.value) return html`<p class="card versus" role="status">This cannot be compared: ${refused.value}</p>`;
  if (!second.value) return null;
  const { words, first, trace: other, fork } = second.value, both = [trace.value, other];
  const questions = new Map(both.flatMap((one) => one.verdict).map((one) => [one.checker, one.question]));
  const { events } = other;
  return html`<section class="card versus" aria-label="Side by side"><h2>Side by side</h2>
    <p>${fork === undefined ? "The same happens in both." : html`They part at <button class="plain" onClick=${() => go(fork)}>${seconds(fork, 3)}</button>: until then the same happens in both.`}</p>
    <table><thead><tr><td></td><th scope="col">${first}</th><th scope="col">${words}</th></tr></thead><tbody>
      ${[...questions].map(([checker, question]) => html`<tr key=${checker}><th scope="row">${question}</th>${both.map((one) => html`<${Ruling} ruling=${one.verdict.find((ruling) => ruling.checker === checker)} played=${one} />`)}</tr>`)}
      ${ENDS.map(([what, of]) => html`<tr key=${what} class=${of(both[0].outcome) === of(both[1].outcome) ? "" : "otherwise"}><th scope="row">${what}</th>${both.map((one) => html`<td>${of(one.outcome)}</td>`)}</tr>`)}
    </tbody></table>
    <details><summary>Events with ${words}</summary><ol>${events.map((one) => html`<li><button class="plain" onClick=${() => go(one.at)}><span class="number quiet">${seconds(one.at, 3)}</span> <b>${one.lane}</b> <span>${worded(other, one.words)}</span></button></li>`)}</ol></details>
  </section>`;
}

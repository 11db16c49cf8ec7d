// Redlock at the playhead: the votes of a client, how long they are valid, and a warning if little of a ttl is left.
import { html } from "ui";
import { list } from "./faults.js";
import { seconds, stateOf } from "./moment.js";
import { at, played, trace } from "./store.js";

const DRIFT = 0.01, DRIFT_MIN_S = 0.002, LITTLE = 0.5;

// The whole time for which the votes were valid when they were counted.
function span(lane, until) {
  const [since] = trace.value.states[lane].find(([, state]) => state.valid_until === until) ?? [0];
  return until - since;
}

export function Meter({ lane }) {
  const { votes, needed, valid_until: until = null } = stateOf(trace.value, lane, at.value);
  if (needed === undefined) return null;
  const servers = trace.value.lanes.filter((one) => one.kind === "server"), left = until === null ? 0 : Math.max(0, until - at.value);
  return html`<dd class=${`meter ${votes.length >= needed ? "enough" : ""}`}><span class="pips" aria-hidden="true">${servers.map(({ name }) => html`<span class=${votes.includes(name) ? "vote" : ""} title=${name}></span>`)}</span>
    <span>${votes.length} of ${needed} votes</span>${until !== null && html`<span class="validity"><span class="left" style=${{ width: `${left / span(lane, until) * 100}%` }}></span></span><span>${left > 0 ? `valid for ${seconds(left, 1)}` : "no longer valid"}</span>`}</dd>`;
}

// What is left of a ttl when drift and the slowest answer are taken away, by the figures of the document.
export function worst({ engine, actors = {}, network, faults }) {
  if (engine?.kind !== "redlock") return [];
  const most = network?.delay?.[1] ?? 0.02, slow = Math.max(0, ...list(faults).filter((one) => one.kind === "slow").map((one) => one.by * (one.one_way ? 1 : 2)));
  return Object.entries(actors).flatMap(([actor, { script = [], client }]) => script.flatMap((line) => {
    const ttl = Number(/^\s*acquire\s.*\bttl\s+(\S+)/.exec(line)?.[1]), drift = ttl * DRIFT + DRIFT_MIN_S;
    const answer = 2 * most * (client === "textbook" ? engine.nodes ?? 5 : 1) + slow;
    return ttl ? [{ actor, ttl, drift, answer, left: ttl - drift - answer }] : [];
  }));
}

export function Unsafe() {
  const [one] = worst(played.value).filter(({ left, ttl }) => left < ttl * LITTLE).sort((a, b) => a.left / a.ttl - b.left / b.ttl);
  if (!one) return null;
  return html`<p class="unsafe" role="note"><b>Unsafe parameters.</b> A ttl of ${one.ttl} s, as ${one.actor} has it, less ${seconds(one.drift, 3)} for drift and ${seconds(one.answer)} for the slowest answer, leaves ${one.left > 0 ? seconds(one.left) : "nothing"} in which the lock is valid.</p>`;
}

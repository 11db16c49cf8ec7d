// What the engine promises, what its doctor found, and who asks.
import { html, useEffect, useSignal } from "ui";
import { call } from "./api.js";
import { brief, shown } from "./format.js";
import { about, engine, may, now } from "./store.js";

const TRAITS = [
  ["safety", "Safety", (v) => [v, v === "correctness", v === "correctness" ? "holds even when processes freeze and networks break, with a guard" : "may grant twice: only to save work"]],
  ["scope", "Scope", (v) => [v, true, { process: "one process", machine: "processes of one machine", network: "machines of a network" }[v]]],
  ["fence", "Fences", (v) => [v ? "yes" : "no", v, v ? "every grant has a number that only grows" : "a guard has nothing to compare"]],
  ["fifo", "Order", (v) => [v ? "first come, first served" : "none", v, ""]],
  ["push", "Waiting", (v) => [v ? "waiters are woken" : "waiters poll", v, ""]],
  ["durable", "Durable", (v) => [v ? "yes" : "no", v, v ? "grants survive a restart of the engine" : "grants end with the engine"]],
  ["portable", "Portable", (v) => [v ? "yes" : "no", v, v ? "held locks outlive a node of this service" : "held locks end with this node"]],
  ["shared", "Semaphores, read/write locks", (v) => [v ? "yes" : "no", v, ""]],
  ["remembers", "Once-per-schedule jobs", (v) => [v ? "yes" : "no", v, ""]],
  ["revoke", "Revocation", (v) => [v ? "yes" : "no", v, ""]],
];
const LEVELS = { ok: ["ok", "good"], note: ["note", "quiet"], warning: ["warning", "warn"], problem: ["problem", "bad"] };
const LIMITS = { ttl_max: "Longest ttl", wait_max: "Longest poll", waiting_max: "Waiters of this node", in_flight_max: "Engine calls at a time", body_max: "Bytes of a body", held: "Locks you may hold", waiting: "Locks you may wait for", calls_per_s: "Calls per second" };

function Findings() {
  const found = useSignal(null), failed = useSignal("");
  const ask = async () => {
    try {
      found.value = await call("doctor");
      failed.value = "";
    } catch (error) {
      failed.value = error.message;
    }
  };
  useEffect(() => { if (may("observe", "")) ask(); }, [engine.value.up]);
  if (!may("observe", "")) return html`<p class="none quiet">Only who may observe all names is told, since findings name hosts.</p>`;
  return html`${failed.value && html`<p class="none" role="alert">The engine could not be examined: ${failed.value}</p>`}
    ${found.value && (found.value.findings.length ? html`<ul class="findings">${found.value.findings.map((one) => html`<li>
      <span class=${`tag ${LEVELS[one.level][1]}`}>${LEVELS[one.level][0]}</span>
      <span><strong>${shown(one.topic)}</strong>: ${shown(one.text)}${one.advice && html`<br /><span class="quiet">${shown(one.advice)}</span>`}</span></li>`)}</ul>`
      : html`<p class="none quiet">The doctor of this engine has nothing to say.</p>`)}
    <p class="none"><button onClick=${ask}>Examine again</button> <span class="quiet">at most every 30 seconds; <code>fencelock doctor</code> also tries a lock</span></p>`;
}

export function Engine() {
  now.value;
  const facts = about.value;
  if (!facts) return null;
  const { traits, limits } = facts, since = (now.value - engine.value.since) / 1000;
  return html`<section class="view engine-view" aria-labelledby="title">
    <div class="tools"><h1 id="title">Engine</h1><span class="tag mono">${facts.engine}</span>
      <span class=${`tag ${engine.value.up ? "good" : "bad"}`}>${engine.value.up ? "answers" : `away for ${brief(since)}`}</span>
      <span class="grow"></span><span class="quiet">fencelock ${facts.version}</span></div>
    <div class="columns">
      <section class="card" aria-labelledby="promises"><h2 id="promises">What it promises</h2>
        <table class="traits"><tbody>${TRAITS.filter(([id]) => id in traits).map(([id, label, say]) => {
          const [word, good, more] = say(traits[id]);
          return html`<tr><th scope="row">${label}</th><td><span class=${good ? "good" : "warn"}>${good ? "✓" : "–"} ${word}</span>${more && html` <span class="quiet">${more}</span>`}</td></tr>`;
        })}</tbody></table>
        ${traits.advice && html`<p class="none quiet">${shown(traits.advice)}</p>`}
      </section>
      <div class="stack">
        <section class="card" aria-labelledby="doctor"><h2 id="doctor">What its doctor found</h2><${Findings} /></section>
        <section class="card" aria-labelledby="you"><h2 id="you">You</h2>
          <dl class="facts"><dt>Identity</dt><dd class="mono">${facts.identity}</dd>
            <dt>Rights</dt><dd>${facts.rights.length ? html`<ul>${facts.rights.map((one) => html`<li>${one.verbs.join(", ")}: ${one.prefix ? html`names that begin with <code>${shown(one.prefix)}</code>` : "every name"}</li>`)}</ul>` : "none"}</dd>
            ${Object.entries(limits).map(([key, value]) => html`<dt>${LIMITS[key] ?? key}</dt><dd class="number">${key.endsWith("_max") && ["ttl_max", "wait_max"].includes(key) ? brief(value) : value.toLocaleString("en")}</dd>`)}
          </dl></section>
      </div>
    </div>
  </section>`;
}

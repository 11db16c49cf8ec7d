// One lock: who holds it, who waits in which order, and who held it before.
import { html } from "ui";
import { brief, heldAs, plural, shown, who, words } from "./format.js";
import { isLoaded, locks, may, now, queues, tenuresOf, version } from "./store.js";
import { Empty, LeaseBar } from "./parts.js";
import { askToRevoke } from "./revoke.js";

const WINDOW_MS = 120_000;
const LANES_MAX = 10;
const W = 1000, LANE = 26;
const ENDS = {
  released: "released", expired: "expired", revoked: "revoked", gone: "ended between two looks",
  unseen: "ended while nothing was seen",
};
const WANTS = { lock: "the lock", semaphore: "a slot", read: "to read", write: "to write" };

function Holder({ row }) {
  now.value;
  const facts = Object.entries(row.meta);
  return html`<li class="holder">
    <div class="who"><span class="mono">${who(row.meta)}</span> <span class=${`tag ${row.kind}`}>${heldAs(row)}</span></div>
    <${LeaseBar} row=${row} />
    <dl class="facts">
      <dt>Held for</dt><dd class="number">${brief((now.value - row.since) / 1000)}</dd>
      <dt>Lease</dt><dd class="number">${row.ttl ? `${brief(row.ttl)}, ${row.renewals ? `renewed ${plural(row.renewals, "time")} since this page looks` : "not renewed since this page looks"}` : "no end: a key without expiry"}</dd>
      <dt>Fence</dt><dd class="mono">${row.fence}</dd>
      ${facts.map(([key, value]) => html`<dt>${shown(key)}</dt><dd class="mono">${shown(value)}</dd>`)}
    </dl>
  </li>`;
}

function Queue({ name }) {
  now.value;
  const queue = queues.get(name);
  if (!queue) return html`<p class="none quiet">Nobody waits.</p>`;
  const since = (now.value - queue.at) / 1000, mixed = queue.waiters.some((waiter) => waiter.role !== "lock");
  return html`<ol class="queue">
    ${queue.waiters.map((waiter, at) => html`<li key=${at}>
      <span class="place number" aria-hidden="true">${at + 1}</span>
      <span class="mono">${who(waiter.meta)}</span>
      ${mixed && html`<span class="tag">${WANTS[waiter.role]}</span>`}
      <span class="quiet">${words(waiter.meta)}</span>
      <span class="number">${brief(waiter.since + since)}</span>
    </li>`)}
    ${queue.waiting > queue.waiters.length && html`<li class="quiet">and ${queue.waiting - queue.waiters.length} more</li>`}
  </ol>`;
}

// The last two minutes, a lane for each holder. The table below says the same in words.
function Lanes({ tenures }) {
  const end = now.value, start = end - WINDOW_MS, lanes = new Map();
  const label = (tenure) => tenure.kind === "semaphore" ? `slot ${tenure.slot ?? "?"}` : who(tenure.meta);
  const seen = tenures.filter((one) => (one.to ?? end) > start).reverse();
  for (const tenure of seen.sort((a, b) => (a.slot ?? 0) - (b.slot ?? 0))) {
    const lane = label(tenure);
    if (!lanes.has(lane) && lanes.size < LANES_MAX) lanes.set(lane, []);
    lanes.get(lane)?.push(tenure);
  }
  const height = Math.max(1, lanes.size) * LANE + 22, x = (at) => W * (at - start) / WINDOW_MS;
  return html`<div class="lanes" aria-hidden="true">
    <ul class="labels">${[...lanes.keys()].map((lane) => html`<li style=${{ height: `${LANE}px` }} title=${lane}>${lane}</li>`)}</ul>
    <svg viewBox=${`0 0 ${W} ${height}`} preserveAspectRatio="none" style=${{ height: `${height}px` }}>
      ${[0, 30, 60, 90, 120].map((s) => html`<line class="axis" x1=${x(end - s * 1000)} x2=${x(end - s * 1000)} y1="0" y2=${height - 18} />`)}
      ${[...lanes.values()].map((some, at) => some.map((tenure) => {
        const from = Math.max(0, x(tenure.from)), to = x(tenure.to ?? end), y = at * LANE + 4;
        return html`<rect key=${tenure.key} class=${`tenure f${tenure.fence % 6} ${tenure.how ?? "held"}`} x=${from} y=${y} width=${Math.max(2, to - from)} height=${LANE - 8} />
          ${["expired", "revoked"].includes(tenure.how) && html`<rect class="cut" x=${to - 2} y=${y - 3} width="4" height=${LANE - 2} />`}`;
      }))}
    </svg>
    <ul class="times">${[120, 90, 60, 30, 0].map((s) => html`<li style=${{ left: `${100 - s / 1.2}%` }}>${s ? `−${s} s` : "now"}</li>`)}</ul>
  </div>`;
}

function Tenures({ tenures }) {
  now.value;
  return html`<table class="tenures">
    <thead><tr><th scope="col">Fence</th><th scope="col">As</th><th scope="col">Holder</th><th scope="col">Held for</th><th scope="col">How it ended</th></tr></thead>
    <tbody>${tenures.slice(-15).reverse().map((one) => html`<tr key=${one.key}>
      <td class="mono">${one.fence}</td><td>${heldAs(one)}</td><td class="mono">${who(one.meta)}</td>
      <td class="number">${brief(((one.to ?? now.value) - one.from) / 1000)}</td>
      <td class=${one.how ?? "held"}>${one.how ? `${ENDS[one.how]}, ${brief((now.value - one.to) / 1000)} ago` : "still held"}</td>
    </tr>`)}</tbody>
  </table>`;
}

export function Lock({ name }) {
  version.value;
  const held = [...locks.values()].filter((row) => row.name === name).sort((a, b) => (a.slot ?? 0) - (b.slot ?? 0) || a.fence - b.fence);
  const tenures = tenuresOf(name), queue = queues.get(name);
  if (!isLoaded()) return html`<${Empty} title="Looking…">The engine is asked who holds what.<//>`;
  const limit = held.find((row) => row.limit)?.limit;
  const state = held.length === 0 ? "free" : held[0].kind === "semaphore" ? `${held.length}${limit ? ` of ${limit}` : ""} slots held` : held[0].kind === "rwlock" ? plural(held.length, held[0].role === "read" ? "reader" : "writer") : "held";
  return html`<section class="view lock-view" aria-labelledby="title">
    <div class="tools">
      <a class="back" href="#/locks">← Locks</a>
      <h1 id="title" class="mono">${shown(name)}</h1>
      <span class=${`tag ${held.length ? "held" : "free"}`}>${state}</span>
      <span class="grow"></span>
      ${may("revoke", name) && held.length > 0 && html`<button class="danger" onClick=${() => askToRevoke(name)}>Revoke…</button>`}
    </div>
    <div class="columns">
      <section class="card" aria-labelledby="holders"><h2 id="holders">${held.length > 1 ? "Holders" : "Holder"}</h2>
        ${held.length ? html`<ul class="holders">${held.map((row) => html`<${Holder} key=${row.key} row=${row} />`)}</ul>` : html`<p class="none quiet">Nobody holds it.</p>`}
      </section>
      <section class="card" aria-labelledby="queue"><h2 id="queue">Queue${queue ? `, ${queue.waiting} waiting` : ""}</h2><${Queue} name=${name} /></section>
    </div>
    <section class="card" aria-labelledby="past"><h2 id="past">Tenures</h2>
      ${tenures.length ? html`<${Lanes} tenures=${tenures} /><${Tenures} tenures=${tenures} />` : html`<p class="none quiet">Nobody has held it since this page looks.</p>`}
    </section>
  </section>`;
}

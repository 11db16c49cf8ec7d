// Groups of names by time: where locks are waited for, taken or lost most.
import { html, signal } from "ui";
import { HEATS, HEAT_MS, heat, isLoaded, now } from "./store.js";
import { Empty } from "./parts.js";

const GROUPS_MAX = 40;
const METRICS = {
  waiting: ["Waiting", "the most that waited at once"],
  grants: ["Grants", "locks that were granted"],
  held: ["Held", "locks that were held"],
  losses: ["Losses", "leases that expired, were revoked or lost"],
};
const metric = signal("waiting");
const SUMMED = new Set(["grants", "losses"]);

export function Heat() {
  const end = Math.floor(now.value / HEAT_MS), slots = Array.from({ length: HEATS }, (_, at) => end - HEATS + 1 + at);
  const id = metric.value, rows = [];
  let most = 0;
  for (const [group, cells] of heat) {
    const counts = slots.map((slot) => cells.get(slot)?.[id] ?? 0), peak = Math.max(...counts);
    most = Math.max(most, peak);
    rows.push({ group, counts, peak, sum: counts.reduce((a, b) => a + b, 0) });
  }
  rows.sort((a, b) => b.sum - a.sum || (a.group < b.group ? -1 : 1));
  const total = SUMMED.has(id);
  if (!isLoaded()) return html`<${Empty} title="Looking…">The engine is asked who holds what.<//>`;
  return html`<section class="view heat-view" aria-labelledby="title">
    <div class="tools"><h1 id="title">Heat</h1>
      <div role="group" aria-label="What is shown" class="choice">
        ${Object.entries(METRICS).map(([key, [label]]) => html`<button aria-pressed=${String(key === id)} onClick=${() => { metric.value = key; }}>${label}</button>`)}
      </div>
      <p class="quiet grow">${METRICS[id][1]}, in ten seconds each, over the ten minutes that this page has seen at most</p>
    </div>
    ${rows.length === 0 ? html`<div class="card"><${Empty} title="Nothing yet">Groups show here once a lock is held. Numbers in names count as one: <code>seat:12</code> and <code>seat:7</code> are <code>seat:*</code>.<//></div>`
    : html`<div class="card heat" role="region" tabindex="0" aria-label="Heat map">
      <table><thead><tr><th scope="col">Group</th><th scope="col" class="map"><span class="ends"><span>10 min ago</span><span>now</span></span></th>
        <th scope="col">Peak</th>${total && html`<th scope="col">Total</th>`}</tr></thead>
      <tbody>${rows.slice(0, GROUPS_MAX).map(({ group, counts, peak, sum }) => html`<tr key=${group}>
        <th scope="row" class="mono" title=${group}>${group}</th>
        <td class="map"><span class="cells" aria-hidden="true">${counts.map((count, at) => html`<span key=${slots[at]} class=${`h${count ? Math.max(1, Math.ceil(5 * Math.sqrt(count / most))) : 0} ${id}`} title=${count ? `${count}, ${(HEATS - 1 - at) * HEAT_MS / 1000} s ago` : undefined}></span>`)}</span></td>
        <td class="number">${peak ? peak.toLocaleString("en") : "–"}</td>${total && html`<td class="number">${sum ? sum.toLocaleString("en") : "–"}</td>`}
      </tr>`)}</tbody></table>
      ${rows.length > GROUPS_MAX && html`<p class="quiet none">and ${rows.length - GROUPS_MAX} more groups</p>`}
    </div>`}
  </section>`;
}

// All that is held. Only the rows in sight are in the document, so that 10,000 cost as much as 30.
import { computed, html, signal, useEffect, useRef, useSignal } from "ui";
import { brief, heldAs, leads, plural, who, words } from "./format.js";
import { isLoaded, locks, now, queues, version, waitingCount } from "./store.js";
import { Empty, LeaseBar, LockLink, Spark } from "./parts.js";

const ROW = 36;
const SPARE = 8; // rows above and below those in sight

const filter = signal("");
const kind = signal("all");
const contended = signal(false);
const order = signal({ by: "name", down: false });

const byName = (a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : a.fence - b.fence;
const COLUMNS = [
  { id: "name", label: "Name", by: byName },
  { id: "as", label: "As", by: (a, b) => heldAs(a).localeCompare(heldAs(b)) },
  { id: "holder", label: "Holder", by: (a, b) => who(a.meta).localeCompare(who(b.meta)) },
  { id: "for", label: "Held for", by: (a, b) => b.since - a.since },
  { id: "left", label: "Lease", by: (a, b) => a.until - b.until },
  { id: "queue", label: "Queue", by: (a, b) => waitingCount(a) - waitingCount(b) },
  { id: "spark", label: "Last 2 min" },
  { id: "fence", label: "Fence", by: (a, b) => a.fence - b.fence },
];

const KINDS = {
  all: () => true,
  lock: (row) => row.kind === "mutex" && !leads(row),
  semaphore: (row) => row.kind === "semaphore",
  rwlock: (row) => row.kind === "rwlock",
  leader: leads,
};

const rows = computed(() => {
  version.value;
  const text = filter.value.toLowerCase(), fits = KINDS[kind.value];
  const found = [];
  for (const row of locks.values()) {
    if (!fits(row) || (contended.value && !waitingCount(row))) continue;
    if (text && !`${row.name}\n${who(row.meta)}\n${words(row.meta)}`.toLowerCase().includes(text)) continue;
    found.push(row);
  }
  const { by, down } = order.value, compare = COLUMNS.find((one) => one.id === by).by;
  found.sort((a, b) => (down ? -compare(a, b) : compare(a, b)) || byName(a, b));
  return found;
});

const Head = () => html`<div role="rowgroup" class="head">
  <div role="row" class="row" aria-rowindex="1">
    ${COLUMNS.map(({ id, label, by }) => {
      const { by: chosen, down } = order.value, is = chosen === id;
      const sorted = is ? (down ? "descending" : "ascending") : by ? "none" : undefined;
      return html`<div role="columnheader" class=${`cell ${id}`} aria-sort=${sorted}>
        ${by ? html`<button class="plain" onClick=${() => { order.value = { by: id, down: is && !down }; }}>
          ${label}<span class="arrow" aria-hidden="true">${is ? (down ? " ▾" : " ▴") : ""}</span></button>` : label}
      </div>`;
    })}
  </div>
</div>`;

// Apart from its row, so that the passing of time renders little.
const HeldFor = ({ row }) => html`<span>${brief((now.value - row.since) / 1000)}</span>`;

function Row({ row, at }) {
  const extra = words(row.meta), waiting = waitingCount(row);
  return html`<div role="row" class="row" aria-rowindex=${at + 2} style=${{ transform: `translateY(${at * ROW}px)` }}>
    <div role="cell" class="cell name"><${LockLink} name=${row.name} /></div>
    <div role="cell" class="cell as"><span class=${`tag ${row.kind} ${leads(row) ? "leader" : ""}`}>${heldAs(row)}</span></div>
    <div role="cell" class="cell holder" title=${`${who(row.meta)} ${extra}`}>${who(row.meta)}
      ${extra && html` <span class="quiet">${extra}</span>`}</div>
    <div role="cell" class="cell for number"><${HeldFor} row=${row} /></div>
    <div role="cell" class="cell left"><${LeaseBar} row=${row} /></div>
    <div role="cell" class=${`cell queue number ${waiting ? "some" : "quiet"}`}>${waiting || "–"}</div>
    <div role="cell" class="cell spark"><${Spark} name=${row.name} /></div>
    <div role="cell" class="cell fence mono number">${row.fence}</div>
  </div>`;
}

function Table() {
  const box = useRef(null), top = useSignal(0), height = useSignal(600);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => { height.value = entry.target.clientHeight; });
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const all = rows.value;
  const first = Math.max(0, Math.min(Math.floor(top.value / ROW), all.length - Math.ceil(height.value / ROW)) - SPARE);
  const some = all.slice(first, first + Math.ceil(height.value / ROW) + 2 * SPARE);
  return html`<div class="locks card" role="table" aria-label="Locks" aria-rowcount=${all.length + 1}>
    <${Head} />
    <div class="scroll" role="rowgroup" tabindex="0" aria-label="Rows" ref=${box}
      onScroll=${(event) => { top.value = event.currentTarget.scrollTop; }}>
      ${all.length === 0 && html`<div role="row" class="none"><div role="cell">No lock fits the filter.</div></div>`}
      <div class="space" role="presentation" style=${{ height: `${all.length * ROW}px` }}>
        ${some.map((row, at) => html`<${Row} key=${row.key} row=${row} at=${first + at} />`)}
      </div>
    </div>
  </div>`;
}

export function Locks() {
  version.value;
  const names = new Set(), all = rows.value;
  for (const row of all) names.add(row.name);
  let waiting = 0;
  for (const name of names) waiting += queues.get(name)?.waiting ?? 0;
  if (!isLoaded()) return html`<${Empty} title="Looking…">The engine is asked who holds what.<//>`;
  return html`<section class="view locks-view" aria-labelledby="title">
    <div class="tools">
      <h1 id="title">Locks</h1>
      <label class="grow"><span class="unseen">Filter by name, holder or meta</span>
        <input type="search" placeholder="Filter by name, holder or meta" value=${filter.value}
          onInput=${(event) => { filter.value = event.currentTarget.value; }} /></label>
      <label><span class="unseen">Kind</span>
        <select value=${kind.value} onChange=${(event) => { kind.value = event.currentTarget.value; }}>
          <option value="all">All kinds</option><option value="lock">Locks</option><option value="leader">Leaders</option>
          <option value="semaphore">Semaphores</option><option value="rwlock">Read/write locks</option>
        </select></label>
      <label class="inline"><input type="checkbox" checked=${contended.value}
        onChange=${(event) => { contended.value = event.currentTarget.checked; }} /> with a queue</label>
      <p class="count quiet number" role="status">${plural(all.length, "holder")} of ${plural(names.size, "name")}, ${waiting.toLocaleString("en")} waiting</p>
    </div>
    ${locks.size ? html`<${Table} />` : html`<div class="card"><${Empty} title="Nothing is held">
      A lock shows here as soon as somebody holds it: through this service, or with the engine itself.<//></div>`}
  </section>`;
}

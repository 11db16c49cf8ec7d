// What the page knows: the locks as the events tell, and what has happened since it was opened.
// Everything here has a bound, since the page stays open for days.
import { computed, signal } from "ui";
import { groupOf, kindOf } from "./format.js";

const TENURES_MAX = 40; // of one name
const NAMES_MAX = 5_000; // names whose past is known
const FEED_MAX = 1_000;
const ALIKE_MS = 10_000, ALIKE_SEEN = 50, ALIKE_MAX = 5;
export const SPARK_MS = 4_000;
export const SPARKS = 30;
export const HEAT_MS = 10_000;
export const HEATS = 60;
const GROUPS_MAX = 200;

export const version = signal(0); // grows with every change of what stands below
export const now = signal(performance.now()); // for what changes with time alone
export const second = computed(() => Math.floor(now.value / 1_000)); // for what need not be smooth
export const link = signal({ state: "connecting" }); // connecting, live, away, refused
export const engine = signal({ up: true, since: 0 });
export const about = signal(null);
export const unread = signal(0); // entries of the feed that nobody has looked at

export const locks = new Map();
export const queues = new Map();
export const feed = [];
export const heat = new Map();
const pasts = new Map();
let parts = [];
let loaded = false;
let feedNumber = 0;

export const isLoaded = () => loaded;

export const may = (verb, name) => (about.value?.rights ?? []).some(({ prefix, verbs }) => {
  if (!verbs.includes(verb) || !name.startsWith(prefix)) return false;
  const rest = name.slice(prefix.length);
  return !rest || !prefix || "/:".includes(prefix.at(-1)) || "/:".includes(rest[0]);
});

const keyOf = (lock) => `${lock.fence}|${lock.slot ?? ""}|${kindOf(lock.role)}|${lock.name}`;

function rowOf(lock, at) {
  return {
    key: keyOf(lock), name: lock.name, kind: kindOf(lock.role), role: lock.role, slot: lock.slot, limit: lock.limit,
    fence: lock.fence, ttl: lock.ttl, meta: lock.meta, since: at - lock.age * 1000, until: at + lock.remaining * 1000,
    renewals: 0, group: groupOf(lock.name),
  };
}

export const leftOf = (row) => (row.until - now.value) / 1000;
export const isEndless = (row) => !row.ttl;
// A holder renews three times in a ttl: below half of it a renewal that used to come is missing.
export const isLate = (row) => row.renewals > 0 && row.ttl > 0 && leftOf(row) < row.ttl * 0.5;

export const waitingFor = (name, kind) =>
  queues.get(name)?.waiters.filter((waiter) => kindOf(waiter.role) === kind) ?? [];
export function waitingCount(row) {
  const queue = queues.get(row.name);
  if (!queue) return 0;
  const told = queue.waiters.filter((waiter) => kindOf(waiter.role) === row.kind).length;
  return told + (queue.waiting > queue.waiters.length ? queue.waiting - queue.waiters.length : 0);
}

export function takeEvents(events) {
  const moment = performance.now();
  for (const event of events) take(event, moment - event.ago * 1000);
  version.value++;
}

function take(event, at) {
  switch (event.kind) {
    case "snapshot": return snapshot(event, at);
    case "granted": return granted(event.lock, at);
    case "renewed": return renewed(event.lock, at);
    case "changed": return changed(event.lock, at);
    case "released": case "expired": case "gone": case "revoked": return ended(event, at);
    case "waiting": return queued(event, at);
    case "lost": case "refused": return note(event.kind, at, event);
    case "engine": return engineIs(event, at);
  }
}

function snapshot(event, at) {
  parts.push(...event.locks);
  if (event.more) return;
  const seen = new Set(parts.map(keyOf));
  for (const [key, row] of locks) {
    if (!seen.has(key)) close(row, "unseen", at);
  }
  for (const lock of parts) {
    const row = rowOf(lock, at), before = locks.get(row.key);
    if (before) row.renewals = before.renewals;
    locks.set(row.key, row);
    if (!before) begin(row);
  }
  parts = [];
  queues.clear();
  for (const queue of event.queues ?? []) queues.set(queue.name, { ...queue, at });
  const up = event.up !== false;
  if (engine.value.up !== up) engineIs({ up, away: event.away ?? 0 }, at);
  loaded = up || locks.size > 0;
}

function granted(lock, at) {
  const row = rowOf(lock, at);
  locks.set(row.key, row);
  begin(row);
  spark(row.name, at).grants++;
  warm(row.group, at).grants++;
}

function renewed(lock, at) {
  const row = locks.get(keyOf(lock));
  if (!row) return;
  row.until = at + lock.remaining * 1000;
  row.ttl = lock.ttl;
  row.renewals++;
}

function changed(lock, at) {
  const row = locks.get(keyOf(lock));
  if (row) Object.assign(row, { role: lock.role, until: at + lock.remaining * 1000 });
}

function ended(event, at) {
  const row = locks.get(keyOf(event.lock)) ?? rowOf(event.lock, at);
  // A lease that has run out ended then, not when that was seen.
  close(row, event.kind, event.kind === "expired" ? Math.min(at, Math.max(row.until, row.since)) : at);
  if (event.kind === "expired" || event.kind === "revoked") {
    note(event.kind, at, { ...event, name: row.name, fence: row.fence, meta: row.meta });
  }
}

function close(row, how, at) {
  locks.delete(row.key);
  const tenure = past(row.name).tenures.find((one) => one.key === row.key);
  if (tenure) Object.assign(tenure, { to: at, how });
}

function queued(event, at) {
  if (event.waiting) queues.set(event.name, { name: event.name, waiting: event.waiting, waiters: event.waiters, at });
  else queues.delete(event.name);
  const bucket = spark(event.name, at);
  bucket.waiting = Math.max(bucket.waiting, event.waiting);
}

function engineIs(event, at) {
  engine.value = { up: event.up, since: event.up ? at : at - (event.away ?? 0) * 1000 };
  note(event.up ? "back" : "away", at, event);
}

// When many of one group are lost at once, a few of them stand for all: they must not push out the rest.
function note(kind, at, event) {
  const group = event.name ? groupOf(event.name) : null, moment = Date.now() - (performance.now() - at);
  if (group && kind !== "refused") warm(group, at).losses++;
  const alike = feed.slice(0, ALIKE_SEEN).filter((one) => one.kind === kind && one.group === group && moment - one.at < ALIKE_MS);
  if (group && alike.length >= ALIKE_MAX) {
    alike[0].more++;
    return;
  }
  feed.unshift({ id: ++feedNumber, kind, at: moment, event, group, more: 0 });
  if (feed.length > FEED_MAX) feed.pop();
  unread.value = Math.min(unread.value + 1, FEED_MAX);
}

// The past of a name.

function past(name) {
  let found = pasts.get(name);
  if (!found) {
    found = { tenures: [], sparks: [] };
    pasts.set(name, found);
    if (pasts.size > NAMES_MAX) forgetOne();
  }
  return found;
}

function forgetOne() {
  for (const [name, { tenures }] of pasts) {
    if (!tenures.length || tenures.at(-1).to !== null) {
      pasts.delete(name);
      return;
    }
  }
  pasts.delete(pasts.keys().next().value);
}

export const tenuresOf = (name) => pasts.get(name)?.tenures ?? [];

function begin(row) {
  const { tenures } = past(row.name);
  tenures.push({
    key: row.key, kind: row.kind, role: row.role, slot: row.slot, limit: row.limit, fence: row.fence, meta: row.meta,
    from: row.since, to: null, how: null,
  });
  if (tenures.length > TENURES_MAX) tenures.shift();
}

function spark(name, at) {
  const { sparks } = past(name), slot = Math.floor(at / SPARK_MS);
  let last = sparks.at(-1);
  if (!last || last.slot < slot) {
    last = { slot, waiting: queues.get(name)?.waiting ?? 0, grants: 0 };
    sparks.push(last);
    while (sparks.length > SPARKS + 1) sparks.shift();
  }
  return last;
}

// Counts of the last slots, the present one last. A queue lasts until it is said to have changed.
export function sparksOf(name) {
  const end = Math.floor(now.peek() / SPARK_MS), found = pasts.get(name)?.sparks ?? [], counts = [];
  let next = 0, waiting = 0;
  for (let slot = end - SPARKS + 1; slot <= end; slot++) {
    let grants = 0;
    while (next < found.length && found[next].slot <= slot) {
      if (found[next].slot === slot) grants = found[next].grants;
      waiting = found[next].waiting;
      next++;
    }
    if (slot === end) waiting = queues.get(name)?.waiting ?? 0;
    counts.push({ grants, waiting });
  }
  return counts;
}

// Groups by time.

function warm(group, at) {
  if (!heat.has(group) && heat.size >= GROUPS_MAX) group = "other";
  let row = heat.get(group);
  if (!row) heat.set(group, row = new Map());
  const slot = Math.floor(at / HEAT_MS);
  let cell = row.get(slot);
  if (!cell) {
    row.set(slot, cell = { grants: 0, waiting: 0, losses: 0, held: 0 });
    for (const old of row.keys()) if (old <= slot - HEATS) row.delete(old);
  }
  return cell;
}

function sample() {
  const at = performance.now(), held = new Map(), waiting = new Map();
  for (const row of locks.values()) held.set(row.group, (held.get(row.group) ?? 0) + 1);
  for (const queue of queues.values()) {
    const group = groupOf(queue.name);
    waiting.set(group, (waiting.get(group) ?? 0) + queue.waiting);
  }
  for (const [group, count] of held) warm(group, at).held = count;
  for (const [group, count] of waiting) {
    const cell = warm(group, at);
    cell.waiting = Math.max(cell.waiting, count);
  }
  const oldest = Math.floor(at / HEAT_MS) - HEATS;
  for (const [group, row] of heat) {
    for (const slot of row.keys()) if (slot <= oldest) row.delete(slot);
    if (!row.size) heat.delete(group);
  }
}

const calm = matchMedia("(prefers-reduced-motion: reduce)");
let sampledAt = 0;

export function startClock() {
  setInterval(() => {
    const moment = performance.now();
    if (calm.matches && moment - now.value < 1_000) return;
    now.value = moment;
    if (moment - sampledAt > 2_000 && engine.value.up && link.value.state === "live") {
      sampledAt = moment;
      sample();
    }
  }, 250);
}

// Another identity may see less: nothing of before stays.
export function forgetAll() {
  for (const map of [locks, queues, heat, pasts]) map.clear();
  feed.length = 0;
  unread.value = 0;
  parts = [];
  loaded = false;
  about.value = null;
  engine.value = { up: true, since: 0 };
  version.value++;
}

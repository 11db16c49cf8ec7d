// Faults of the played document: which kinds there are for it, how one is said, and how the list is changed.
import { computed, signal } from "ui";
import { add, edit, faults, kinds, name, played, trace } from "./store.js";

// The fault in the form: its place in the list (-1: a new one), and a draft of it if it has been given another kind there.
export const form = signal(null);
name.subscribe(() => { form.value = null; });

export const named = (kind) => kinds.value.find((one) => one.kind === kind) ?? { kind, sign: "!", words: kind, fields: ["at"], first: {}, of: "lock" };
const names = (...wanted) => (trace.value?.lanes ?? []).filter((one) => wanted.includes(one.kind)).map((one) => one.name);
export const actors = computed(() => names("client"));
export const servers = computed(() => names("server"));
export const everybody = computed(() => names("client", "server", "resource"));
// The kinds that make sense at the engine of the document.
export const offered = computed(() => kinds.value.filter((one) => !one.not_at.includes(played.value.engine?.kind)));

export const list = (one) => (Array.isArray(one) ? one : one === undefined ? [] : [one]);
export const whom = (fault) => fault.whom ?? [fault.from, fault.to].map((one) => list(one).join(", ")).filter(Boolean).join(fault.one_way || fault.kind === "lose reply" ? " → " : " ⇄ ");
const signed = (number) => (number > 0 ? `+${number}` : `${number}`);
const HOW_MUCH = { step: (by) => `${signed(by)} s`, slow: (by) => `+${by} s`, pace: (by) => `${by}×` };
export const lasts = (fault) => named(fault.kind).fields.includes("for") && fault.kind !== "restart";
const told = (fault) => [fault.kind, whom(fault), fault.by === undefined ? "" : HOW_MUCH[fault.kind]?.(fault.by)].filter(Boolean).join(" ");
export const brief = (fault) => `${named(fault.kind).sign} ${told(fault)}`;
export function said(fault) {
  const time = fault.for !== undefined ? `, ${fault.at} s to ${Number((fault.at + fault.for).toFixed(3))} s` : lasts(fault) ? `, from ${fault.at} s on` : `, at ${fault.at} s`;
  return told(fault) + time;
}

export const replaced = (index, fault) => faults().map((one, place) => (place === index ? fault : one));
export const change = (index, fault) => edit({ faults: replaced(index, fault) });
export async function remove(index) {
  const done = await edit({ faults: faults().filter((_, place) => place !== index) });
  if (done) form.value = null;
  return done;
}

// A new fault of a kind at a moment; `lane` is whom it strikes, or where a way begins.
export function fresh(kind, moment, lane) {
  const { of, first } = named(kind), fault = { kind, at: Number(moment.toFixed(3)), ...first };
  if (of === "actor") fault.whom = lane ?? actors.value[0];
  if (of === "server") fault.whom = lane ?? servers.value[0];
  if (of === "way") {
    fault.from = lane ?? actors.value[0];
    fault.to = servers.value.includes(lane) ? actors.value : servers.value;
  }
  return fault;
}

// Whether a fault of a kind can be dropped on a lane.
export const fits = (kind, lane) => ({ actor: lane.kind === "client", server: lane.kind === "server", way: lane.kind !== "resource", lock: true })[named(kind).of];

export async function put(fault) {
  const place = faults().length, done = await add(fault);
  if (done) form.value = { index: place };
  return done;
}

// Words for people: the same as those of the command line.

export function brief(seconds) {
  const s = Math.max(0, seconds);
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 99.5) return `${Math.round(s)} s`;
  if (s < 5970) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// Names are opaque and written by anybody: what turns the direction of writing or cannot be seen is replaced.
export const shown = (text) => String(text).replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu, "\uFFFD");

export function who(meta) {
  const name = meta.host !== undefined || meta.pid !== undefined
    ? `${meta.host ?? "?"}/${meta.pid ?? "?"}`
    : meta.identity ?? "?";
  const text = meta.command ? `${name} (${meta.command})` : name;
  return shown(meta.identity !== undefined && name !== meta.identity ? `${text} as ${meta.identity}` : text);
}

const OWN = new Set(["host", "pid", "thread", "task", "command", "identity", "traceparent"]);

export function words(meta) {
  return shown(Object.entries(meta)
    .filter(([key, value]) => !OWN.has(key) && !(key === "recipe" && value === "election"))
    .map(([key, value]) => `${key}=${value}`).join(" "));
}

export const kindOf = (role) => role === "lock" ? "mutex" : role === "semaphore" ? "semaphore" : "rwlock";
export const leads = (lock) => lock.role === "lock" && lock.meta.recipe === "election";

export function heldAs(lock) {
  if (lock.role === "semaphore") {
    return `slot ${lock.slot ?? "?"}${lock.limit ? ` of ${lock.limit}` : ""}`;
  }
  if (lock.role === "lock") return leads(lock) ? "leader" : "lock";
  return lock.role === "read" ? "reader" : "writer";
}

// The name with what numbers it taken out, so that alike names are one group.
export function groupOf(name) {
  return shown(name)
    .replace(/[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/gi, "*")
    .replace(/(?<![0-9a-z])(?=[a-f]*[0-9])[0-9a-f]{6,}(?![0-9a-z])/gi, "*")
    .replace(/[0-9]+/g, "*");
}

export const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });
export const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

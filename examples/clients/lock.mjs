// A lock of a fencelock service in JavaScript: Node 18 or later, nothing to install.
//
//   FENCELOCK_SERVICE=https://locks.internal FENCELOCK_TOKEN=… node lock.mjs NAME

import { randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

const SERVICE = process.env.FENCELOCK_SERVICE ?? "http://127.0.0.1:7420";
const TTL = 30; // seconds

async function call(verb, body, seconds) {
  const response = await fetch(`${SERVICE}/v1/${verb}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${process.env.FENCELOCK_TOKEN ?? ""}` },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(seconds * 1000),
  });
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.detail), answer);
  return answer;
}

/** Run work(fence, signal) while the lock is held; the signal aborts in time if it is lost. */
export async function locked(name, work) {
  const id = randomBytes(16).toString("base64url"); // a repeated call is the same attempt
  let sent, lease;
  while (lease === undefined) {
    sent = performance.now();
    lease = await call("acquire", { name, id, ttl: TTL, wait: 50 }, 60).catch(async (error) => {
      if (error.retry === false) throw error; // it would fail again
      await pause(500);
    });
  }
  const held = { leases: [{ name, id, fence: lease.fence, ttl: TTL }] };
  const lost = new AbortController();
  const end = (reason) => lost.abort(new Error(`the lock ${name} is lost: ${reason}`));
  // Believed until then, on our own clock, from before the call was sent.
  const expire = (from, seconds) => setTimeout(end, from + seconds * 990 - performance.now(), "no renewal");
  let expiry = expire(sent, lease.waited + TTL);
  const renewal = setInterval(async () => {
    const asked = performance.now();
    const [answer] = await call("renew", held, TTL / 3).then((all) => all.leases, () => [{}]);
    if (answer.held === false) return end(answer.reason ?? answer.loss);
    if (!answer.held) return; // no answer: the next one may come in time
    clearTimeout(expiry);
    expiry = expire(asked, TTL);
  }, lease.renew_in * 1000);
  try {
    return await work(lease.fence, lost.signal);
  } finally {
    clearInterval(renewal);
    clearTimeout(expiry);
    await call("release", held, 10).catch(() => {}); // else it ends with its ttl
  }
}

if (import.meta.url === `file://${process.argv[1]}`) {
  await locked(process.argv[2] ?? "seat:1A", async (fence, signal) => {
    console.log(fence); // hand it to whatever is written to: it refuses a smaller one
    await pause(Number(process.env.WORK_MS ?? 0), undefined, { signal }); // the work, which can be stopped
  });
}

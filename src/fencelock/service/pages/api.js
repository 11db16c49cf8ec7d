// Calls of the service, and its stream of events over fetch: EventSource could not send the token.
// Addresses are relative to the page, so that it works under any path of a proxy.

const KEY = "fencelock-token";
const SILENT_MS = 25_000; // a stream says something every ten seconds
const AGAIN_MS = [250, 500, 1_000, 2_000, 4_000];

let token = sessionStorage.getItem(KEY) ?? "";

export const hasToken = () => token !== "";

export function useToken(given) {
  token = given;
  if (given) sessionStorage.setItem(KEY, given);
  else sessionStorage.removeItem(KEY);
}

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `The service answered ${status}.`);
    this.status = status;
    this.problem = problem;
  }
}

function headers(more = {}) {
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

export async function call(verb, body) {
  const options = { headers: headers(), cache: "no-store", credentials: "omit" };
  if (body !== undefined) {
    Object.assign(options, { method: "POST", body: JSON.stringify(body) });
    options.headers["Content-Type"] = "application/json";
  }
  const response = await fetch(new URL(`v1/${verb}`, document.baseURI), options);
  if (!response.ok) throw await refusal(response);
  return response.json();
}

async function refusal(response) {
  try {
    return new Refused(response.status, await response.json());
  } catch {
    return new Refused(response.status, {});
  }
}

// Reads events until it is told to stop, and comes back after every failure.
export class Stream {
  constructor(onEvents, onState) {
    this.onEvents = onEvents;
    this.onState = onState;
    this.queue = null;
    this.last = "";
    this.failures = 0;
    this.abort = null;
    this.stopped = true;
  }

  start() {
    if (!this.stopped) return;
    this.stopped = false;
    this.run();
  }

  stop() {
    this.stopped = true;
    this.abort?.abort();
  }

  // Have the queue of one lock looked at each time.
  look(name) {
    if (this.queue === name) return;
    this.queue = name;
    this.again = true;
    this.abort?.abort();
  }

  async run() {
    while (!this.stopped) {
      this.again = false;
      try {
        await this.read();
      } catch (error) {
        if (this.stopped) return;
        if (error instanceof Refused && [401, 403, 501].includes(error.status)) {
          this.stopped = true;
          this.onState("refused", error);
          return;
        }
      }
      if (this.stopped) return;
      if (this.again) continue;
      this.onState("away");
      const wait = AGAIN_MS[Math.min(this.failures++, AGAIN_MS.length - 1)];
      await new Promise((done) => setTimeout(done, wait));
    }
  }

  async read() {
    const abort = this.abort = new AbortController();
    const alarm = new Alarm(() => abort.abort());
    try {
      const url = new URL("v1/events", document.baseURI);
      if (this.queue !== null) url.searchParams.set("queue", this.queue);
      const response = await fetch(url, {
        headers: headers(this.last ? { "Last-Event-ID": this.last } : {}),
        cache: "no-store", credentials: "omit", signal: abort.signal,
      });
      if (!response.ok) throw await refusal(response);
      this.onState("live");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new Parser();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        alarm.reset();
        const events = parser.feed(value);
        if (!events.length) continue;
        this.failures = 0;
        this.onEvents(events.map((event) => event.data));
        this.last = events.findLast((event) => event.id)?.id ?? this.last;
      }
    } finally {
      alarm.stop();
      abort.abort();
    }
  }
}

class Alarm {
  constructor(ring) {
    this.ring = ring;
    this.reset();
  }

  reset() {
    this.stop();
    this.timer = setTimeout(this.ring, SILENT_MS);
  }

  stop() {
    clearTimeout(this.timer);
  }
}

// Server-Sent Events in pieces of any size.
export class Parser {
  rest = "";

  feed(text) {
    const blocks = (this.rest + text).split("\n\n");
    this.rest = blocks.pop();
    const events = [];
    for (const block of blocks) {
      const event = { id: "", data: null };
      for (const line of block.split("\n")) {
        if (line.startsWith("data: ")) event.data = JSON.parse(line.slice(6));
        else if (line.startsWith("id: ")) event.id = line.slice(4);
      }
      if (event.data) events.push(event);
    }
    return events;
  }
}

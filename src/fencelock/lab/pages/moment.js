// What a trace says about a moment. Nothing is concluded here: the last state that is not later counts.
export const seconds = (time, digits = 2) => `${time.toFixed(digits)} s`;

export function stateOf(trace, lane, moment) {
  const seen = trace.states[lane] ?? [];
  let found = seen[0]?.[1];
  for (const [since, state] of seen) {
    if (since > moment) break;
    found = state;
  }
  return found ?? {};
}

export const spansAt = (trace, lane, moment) => trace.spans.filter((one) => one.lane === lane && one.from <= moment && (moment < one.to || one.to === trace.until));

// What a server keeps, as stretches of time: for whom, from when, and until when at the most.
export function keepings(trace, lane) {
  const seen = trace.states[lane] ?? [], found = [];
  seen.forEach(([since, { holder, until }], index) => {
    if (!holder) return;
    const to = Math.min(seen[index + 1]?.[0] ?? trace.until, until ?? trace.until, trace.until);
    const last = found.at(-1);
    if (last?.holder === holder && Math.abs(last.to - since) < 1e-6) Object.assign(last, { to, until });
    else if (to > since) found.push({ holder, from: since, to, until });
  });
  return found;
}

const TOLD = { writes: "written", refused: "refused", lost: "lost update" };

// What the resource took, refused, or lost without a guard, each with the event in which its process tells of it.
export function touches(trace, lane) {
  const seen = trace.states[lane] ?? [], found = [];
  const told = Object.fromEntries(Object.entries(TOLD).map(([what, kind]) => [what, trace.events.filter((one) => one.kind === kind)]));
  seen.forEach(([since, state], index) => {
    const before = seen[index - 1]?.[1];
    for (const what of Object.keys(TOLD)) {
      if (!before || !(state[what] > before[what])) continue;
      const event = told[what].find((one) => state.by ? one.at === since && one.lane === state.by : one.at >= since);
      if (event) told[what].splice(told[what].indexOf(event), 1);
      found.push({ at: since, what, state, event: event ?? (state.by && { lane: state.by, words: TOLD[what] }) });
    }
  });
  return found;
}

// The highest fence that the resource has seen, as stretches of time.
export function marks(trace, lane) {
  const found = [];
  for (const [since, { mark }] of trace.states[lane] ?? []) {
    if (found.at(-1)?.mark === mark) continue;
    if (found.length) found.at(-1).to = since;
    found.push({ mark, from: since, to: trace.until });
  }
  return found.filter((one) => one.mark);
}

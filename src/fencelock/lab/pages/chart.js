// All lanes over one axis of time, which is the scrubber as well.
import { effect, html, useEffect, useRef, useSignal } from "ui";
import { Chips, rowsOf, target } from "./chips.js";
import { second } from "./compare.js";
import { fenceOf, TrueFences, worded } from "./fence.js";
import { keepings, marks, seconds, stateOf, touches } from "./moment.js";
import { add, at, brokenIn, go, here, playing, run, start, trace } from "./store.js";

const HEIGHTS = { client: 56, server: 40, resource: 68 }, AXIS = 30, TOP = 6, END = 14;

export function hue(played, process) {
  const index = played.lanes.findIndex((one) => one.name === process);
  return `p${(played.lanes[index]?.hue ?? index) % 8}`;
}

function placed(played) {
  let y = TOP;
  return played.lanes.map((lane) => {
    const here = { ...lane, y, height: HEIGHTS[lane.kind] };
    y += here.height;
    return { ...here, middle: here.y + (lane.kind === "client" ? 16 : lane.kind === "server" ? 13 : 18) };
  });
}

function stepOf(until, width) {
  const least = until * 56 / width;
  return [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200].find((one) => one >= least) ?? 500;
}

// A bar with the longest of its words that fit into what is seen of it; the whole is said in a tooltip.
function Bar({ x, to, seen = to, y, height, look, words = [], title }) {
  const width = Math.max(1.5, to - x), fits = words.find((one) => one.length * 7 + 10 < seen - x);
  return html`<g class=${`bar ${look}`}><title>${title}</title><rect x=${x} y=${y} width=${width} height=${height} rx="3" />${fits && html`<text x=${x + 6} y=${y + height / 2 + 4}>${fits}</text>`}</g>`;
}

function Message({ one, lanes, x }) {
  const from = lanes.get(one.from), to = lanes.get(one.to);
  if (!from || !to) return null;
  const title = `${one.from} to ${one.to}: ${one.what}; ${one.fate}`, x1 = x(one.sent), y1 = from.middle;
  if (one.arrived === null) {
    const y2 = y1 + (to.middle - y1) * 0.4;
    return html`<g class="message missing"><title>${title}</title><line x1=${x1} y1=${y1} x2=${x1 + 3} y2=${y2} /><path d=${`M${x1} ${y2 - 3}l6 6m0 -6l-6 6`} /></g>`;
  }
  return html`<line class="message" x1=${x1} y1=${y1} x2=${x(one.arrived)} y2=${to.middle}><title>${title}</title></line>`;
}

function Process({ lane, played, x }) {
  const mine = played.spans.filter((one) => one.lane === lane.name), color = hue(played, lane.name);
  const bar = (span, look, y, height, words, seen = span.to) => html`<${Bar} key=${`${span.kind}${span.from}`} x=${x(span.from)} to=${x(span.to)} seen=${x(seen)} y=${lane.y + y} height=${height} look=${look} words=${words} title=${`${lane.name} ${span.kind}${span.of ? ` ${span.of}` : ""}${span.fence ? `, fence ${fenceOf(played, span.fence)}` : ""}: ${seconds(span.from)} to ${seconds(span.to)}`} />`;
  const of = (kind) => mine.filter((one) => one.kind === kind);
  return html`
    ${of("waits").map((one) => bar(one, `waits ${color}`, 5, 22, ["waits"]))}
    ${of("holds").map((one) => {
      const fence = one.fence ? fenceOf(played, one.fence) : "";
      return bar(one, `holds ${color}`, 5, 22, [...one.of ? [`holds ${one.of}: ${fence}`, `${one.of}: ${fence}`] : [], `holds ${fence}`, `${fence}`].map((text) => text.trim()).filter(Boolean), of("believes wrongly").find((wrong) => wrong.to === one.to)?.from);
    })}
    ${of("believes wrongly").map((one) => bar(one, "wrong", 5, 22, ["believes wrongly", "believes"]))}
    ${of("frozen").map((one) => bar(one, "frozen", 30, 14, ["❄ frozen", "❄"]))}
    ${of("down").map((one) => bar(one, "down", 30, 14, ["✕ down", "✕"]))}
    ${of("cut").map((one) => html`<line class="cut" x1=${x(one.from)} x2=${x(one.to)} y1=${lane.y + 49} y2=${lane.y + 49}><title>cut off</title></line>`)}
    ${played.events.filter((one) => one.lane === lane.name).map((one) => html`<circle class="event" cx=${x(one.at)} cy=${lane.y + 2} r="2.2"><title>${seconds(one.at, 3)}: ${lane.name} ${worded(played, one.words)}</title></circle>`)}`;
}

function Server({ lane, played, x }) {
  const mine = played.spans.filter((one) => one.lane === lane.name);
  const clocks = played.events.filter((one) => one.lane === lane.name && (one.kind === "clock" || one.kind === "pace"));
  return html`
    ${keepings(played, lane.name).map((one) => {
      const until = one.until === null ? "without an end" : one.until === undefined ? "" : `until ${seconds(one.until, 1)}`;
      return html`<${Bar} x=${x(one.from)} to=${x(one.to)} y=${lane.y + 3} height=${20} look=${`keeps ${hue(played, one.holder)}`} words=${[...until ? [`for ${one.holder}, ${until}`] : [], `for ${one.holder}`, one.holder]} title=${`${lane.name} keeps the lock for ${one.holder} ${until}`} />`;
    })}
    ${mine.filter((one) => one.kind !== "cut").map((one) => html`<${Bar} x=${x(one.from)} to=${x(one.to)} y=${lane.y + 25} height=${13} look=${one.kind} words=${one.kind === "frozen" ? ["❄ frozen", "❄"] : ["✕ down", "✕"]} title=${`${lane.name} is ${one.kind}: ${seconds(one.from)} to ${seconds(one.to)}`} />`)}
    ${mine.filter((one) => one.kind === "cut").map((one) => html`<line class="cut" x1=${x(one.from)} x2=${x(one.to)} y1=${lane.y + 38} y2=${lane.y + 38}><title>cut off</title></line>`)}
    ${clocks.map((one) => html`<g class="clock"><line x1=${x(one.at)} x2=${x(one.at)} y1=${lane.y + 2} y2=${lane.y + 36} /><text x=${x(one.at) + 4} y=${lane.y + 35}>${one.words}</text></g>`)}`;
}

const SIGNS = { writes: "M-3 0l2.2 2.6l4 -5", refused: "M-3 -3l6 6m0 -6l-6 6", lost: "M0 -4v4.6m0 2v1.4" };

function textOf(played, { what, state, event }) {
  if (what === "writes") return `= ${state.value}`;
  if (what === "lost") return "update lost";
  const { fence, highest } = event ?? {};
  return fence && highest ? `refused: ${fenceOf(played, fence)} < ${fenceOf(played, highest)}` : "refused";
}

// Signs in two rows; the words of a sign stand beside it if no other sign is there.
function placedSigns(played, lane, x, width) {
  const rows = [[], []];
  const signs = touches(played, lane.name).map((touch) => {
    const here = x(touch.at), [gap, other] = rows.map((row) => here - (row.at(-1)?.here ?? -Infinity)), row = Number(gap < 18 && other > gap);
    const text = textOf(played, touch), wide = text.length * 7.4 + 20, sign = { ...touch, here, row, text, wide, left: here + wide > width };
    rows[row].push(sign);
    return sign;
  });
  for (const row of rows) {
    let free = -Infinity; // where the words of the one before end
    row.forEach((sign, index) => {
      const before = Math.max(free, (row[index - 1]?.here ?? -Infinity) + 9), after = (row[index + 1]?.here ?? Infinity) - 9;
      sign.fits = sign.left ? sign.here - sign.wide > before : sign.here + sign.wide < after && sign.here - 8 > free;
      if (!sign.fits && sign.what === "refused") Object.assign(sign, { text: "refused", fits: sign.left ? sign.here - 72 > before : sign.here + 72 < after && sign.here - 8 > free });
      if (sign.fits && !sign.left) free = sign.here + sign.wide;
    });
  }
  return signs;
}

function Resource({ lane, played, x, width }) {
  return html`
    ${marks(played, lane.name).map((one) => html`<${Bar} x=${x(one.from)} to=${x(one.to)} y=${lane.y + 48} height=${16} look="mark" words=${[`highest fence ${fenceOf(played, one.mark)}`, `${fenceOf(played, one.mark)}`]} title=${`the highest fence seen is ${fenceOf(played, one.mark)}`} />`)}
    ${placedSigns(played, lane, x, width).map(({ at: moment, what, event, here, row, text, left, fits }) => {
      const y = lane.y + 12 + row * 20;
      return html`<g class=${`touch ${what === "writes" ? "taken" : what} ${event ? hue(played, event.lane) : ""}`}><title>${seconds(moment, 3)}: ${event ? `${event.lane} ${worded(played, event.words)}` : text}</title>
        <circle cx=${here} cy=${y} r="7" /><path transform=${`translate(${here} ${y})`} d=${SIGNS[what]} />
        ${fits && html`<text x=${left ? here - 11 : here + 11} y=${y + 4} text-anchor=${left ? "end" : "start"}>${text}</text>`}</g>`;
    })}`;
}

const LANES = { client: Process, server: Server, resource: Resource };

function Picture({ played, lanes, x, width, height }) {
  const named = new Map(lanes.map((one) => [one.name, one])), begin = played.from ?? 0, step = stepOf(played.until - begin, width), ticks = [];
  for (let tick = Math.ceil(begin / step - 1e-9) * step; tick <= played.until + 1e-9; tick += step) ticks.push(tick);
  return html`
    ${ticks.map((tick) => html`<line class="grid" x1=${x(tick)} x2=${x(tick)} y1=${TOP} y2=${height - AXIS + 4} /><text class="tick" x=${x(tick)} y=${height - 10} text-anchor=${x(tick) < 14 ? "start" : "middle"}>${Number(tick.toFixed(2))}${tick === ticks[0] ? " s" : ""}</text>`)}
    <rect class="trouble" x="0" y=${lanes.at(-1).y + lanes.at(-1).height} width=${width} height=${height - AXIS - lanes.at(-1).y - lanes.at(-1).height} />
    ${lanes.map((lane) => html`<line class="base" x1="0" x2=${width} y1=${lane.y + lane.height - 1} y2=${lane.y + lane.height - 1} />`)}
    <g class=${played.messages.length > width / 4 ? "dense" : ""}>${played.messages.map((one) => html`<${Message} one=${one} lanes=${named} x=${x} />`)}</g>
    ${brokenIn(played).map((one) => html`<g class="broken"><title>${worded(played, one.words)}</title><line x1=${x(one.at)} x2=${x(one.at)} y1="0" y2=${height - AXIS + 4} /><path d=${`M${x(one.at) - 6} 0h12l-6 9z`} /></g>`)}
    ${lanes.map((lane) => html`<${LANES[lane.kind]} key=${lane.name} lane=${lane} played=${played} x=${x} width=${width} />`)}`;
}

function Playhead({ x, width, height }) {
  const here = x(at.value), text = seconds(at.value), wide = text.length * 7 + 10;
  const left = Math.min(Math.max(0, here - wide / 2), width - wide);
  return html`<g class="playhead"><rect class="veil" x=${here} y="0" width=${Math.max(0, width - here)} height=${height - AXIS + 4} />
    <line x1=${here} x2=${here} y1="0" y2=${height - AXIS + 4} /><rect class="now" x=${left} y=${height - 24} width=${wide} height="20" rx="4" /><text x=${left + wide / 2} y=${height - 10} text-anchor="middle">${text}</text></g>`;
}

// Where the two universes part.
function Fork({ x, height }) {
  const { fork } = second.value ?? {};
  return fork === undefined ? null : html`<line class="fork" x1=${x(fork)} x2=${x(fork)} y1="0" y2=${height - AXIS + 4} />`;
}

const bottom = (lanes) => lanes.at(-1).y + lanes.at(-1).height;

function OtherNames() {
  const played = second.value.trace;
  return html`<div class="names twin">${placed(played).map((lane) => html`<div class="lane" style=${{ height: `${lane.height}px` }}><b class=${lane.kind === "client" ? `ink ${hue(played, lane.name)}` : ""}>${lane.name}</b><span class="quiet">${lane.kind === "client" ? lane.client : lane.kind}</span></div>`)}</div>`;
}

// The second universe, below the first and over the same time.
function Twin({ x, width, inner, handlers }) {
  const { trace: played, words, fork } = second.value, lanes = placed(played), height = bottom(lanes) + AXIS;
  return html`<div class="head other"><span class="which">${words}</span>${fork !== undefined && html`<span class="parts"><svg width="10" height="16" aria-hidden="true"><line class="fork" x1="5" x2="5" y1="0" y2="16" /></svg>parts at ${seconds(fork)}</span>`}</div><svg class="second" width=${width} height=${height} aria-hidden="true" ...${handlers}>
    <${Fork} x=${x} height=${height} /><${Picture} played=${played} lanes=${lanes} x=${x} width=${inner} height=${height} /><${Playhead} x=${x} width=${width} height=${height} /></svg>`;
}

const ZOOMS = [1, 5, 20];
const FREEZES = [[2, "2 s"], [5, "5 s"], [8, "8 s"], [0, "ever"]];

function Names({ played, lanes, lasts, chips }) {
  const freeze = (whom) => add({ kind: "pause", whom, at: here(), ...(lasts.value ? { for: lasts.value } : {}) });
  return html`<div class="names">${lanes.map((lane) => {
    const { frozen, up } = stateOf(played, lane.name, at.value), size = { height: `${lane.height}px` };
    if (run.value && lane.kind === "client") return html`<div class="lane" style=${size}><b class=${`ink ${hue(played, lane.name)}`}>${lane.name}</b><span class="quiet">${up === false ? "down" : frozen ? "❄ frozen" : "\u00a0"}</span></div>`;
    if (lane.kind !== "client") return html`<div class="lane" style=${size}><b>${lane.name}</b><span class="quiet">${lane.kind}</span></div>`;
    return html`<div class="lane" style=${size}><button class="process" disabled=${frozen || up === false} title=${`Freeze ${lane.name} at ${seconds(at.value)}`} onClick=${() => freeze(lane.name)}><b class=${`ink ${hue(played, lane.name)}`}>${lane.name}</b> <span class="quiet">${up === false ? "down" : frozen ? "❄ frozen" : "❄ freeze"}</span></button></div>`;
  })}${!run.value && html`<div class="lane" style=${{ height: `${chips.height}px` }}><b>faults</b></div>`}</div>`;
}

export function Chart() {
  const box = useRef(null), width = useSignal(0), lasts = useSignal(8), zoom = useSignal(1), drag = useRef(false), played = trace.value;
  useEffect(() => {
    const watcher = new ResizeObserver(([entry]) => { width.value = Math.floor(entry.contentRect.width); });
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  const total = width.value * zoom.value, inner = total - END, begin = played.from ?? 0, lasting = played.until - begin, x = (time) => 2 + (time - begin) / lasting * (inner - 2);
  const isWide = width.value > 2 * END, lanes = placed(played), chips = run.value ? { height: 0, places: [] } : rowsOf(played, x, inner), below = lanes.at(-1).y + lanes.at(-1).height, height = below + chips.height + AXIS;
  const scroll = () => {
    if (!trace.value) return;
    const { until } = trace.value, here = (at.value - start.value) / (until - start.value) * width.value * zoom.value, left = box.current.scrollLeft;
    if (zoom.value > 1 && !drag.current && (here < left + 30 || here > left + width.value * 0.7)) box.current.scrollLeft = here - width.value * 0.3;
  };
  useEffect(() => effect(scroll), [zoom.value]);
  const follow = (event) => go(Number((begin + (event.clientX - event.currentTarget.getBoundingClientRect().left - 2) / (inner - 2) * lasting).toFixed(zoom.value > 1 ? 3 : 2)));
  const down = (event) => {
    drag.current = true;
    playing.value = false;
    event.currentTarget.setPointerCapture(event.pointerId);
    follow(event);
  };
  const up = () => { drag.current = false; }, handlers = { onPointerDown: down, onPointerMove: (event) => drag.current && follow(event), onPointerUp: up, onPointerCancel: up };
  return html`<section class="card chart" aria-label="Lanes over time">
    <div class="drawing"><div>${second.value && html`<div class="head" />`}<${Names} played=${played} lanes=${lanes} lasts=${lasts} chips=${chips} />${second.value && html`<${OtherNames} />`}</div>
      <div class="time" ref=${box}>${second.value && html`<div class="head"><span class="which">${second.value.first}</span></div>`}<div class="sheet" style=${{ width: `${total}px` }}><${Scrubber} until=${played.until}>
        ${isWide && html`<svg width=${total} height=${height} aria-hidden="true" ref=${(node) => { target.value = node && { node, lanes, moment: (left) => Math.min(played.until, Math.max(begin, begin + (left - 2) / (inner - 2) * lasting)) }; }} ...${handlers}>
          <defs><pattern id="frozen" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="7" height="7" class="ice" /><line x1="0" x2="0" y1="0" y2="7" class="icy" /></pattern>
          <pattern id="wrong" width="9" height="9" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect width="9" height="9" class="amber" /><line x1="0" x2="0" y1="0" y2="9" class="ambery" /></pattern></defs>
          <${Fork} x=${x} height=${height} /><${Picture} played=${played} lanes=${lanes} x=${x} width=${inner} height=${height} /><${Playhead} x=${x} width=${total} height=${height} />
        </svg>`}</${Scrubber}>${isWide && !run.value && html`<${Chips} played=${played} chips=${chips} top=${below} scale=${lasting / (inner - 2)} />`}</div>${second.value && isWide && html`<${Twin} x=${x} width=${total} inner=${inner} handlers=${handlers} />`}</div></div>
    <${Legend} played=${second.value ? both(played, second.value.trace) : played} />
    <p class="hint quiet">Drag over the picture to travel in time. ${!run.value && html`Click a process to freeze it from the playhead on, for <select aria-label="How long a click freezes" onChange=${(event) => { lasts.value = Number(event.currentTarget.value); }}>${FREEZES.map(([value, text]) => html`<option value=${value} selected=${value === lasts.value}>${text}</option>`)}</select>. `}<label class="inline">Zoom <select onChange=${(event) => { zoom.value = Number(event.currentTarget.value); }}>${ZOOMS.map((one) => html`<option value=${one}>${one}×</option>`)}</select></label> ${Object.keys(played.fences).length > 0 && html`<${TrueFences} />`}</p>
  </section>`;
}

function Scrubber({ until, children }) {
  return html`<div class="scrubber" role="slider" tabindex="0" aria-label="Moment" aria-valuemin=${start.value} aria-valuemax=${until} aria-valuenow=${Number(at.value.toFixed(3))} aria-valuetext=${seconds(at.value)}>${children}</div>`;
}

const KINDS = [
  ["waits", "waits"], ["holds", "holds the lock, with its fence"], ["wrong", "believes that it holds, and does not"], ["keeps", "a server keeps the lock for it"],
  ["frozen", "frozen"], ["down", "down"],
];

// What is seen in either of two, for their legend.
function both(one, other) {
  const { writes, refused, broken } = other.outcome;
  const outcome = { writes: one.outcome.writes + writes, refused: one.outcome.refused + refused, broken: [...one.outcome.broken, ...broken] };
  return { ...one, outcome, spans: [...one.spans, ...other.spans], messages: [...one.messages, ...other.messages] };
}

function Legend({ played }) {
  const { spans } = played, has = (kind) => spans.some((one) => one.kind === kind);
  const shown = KINDS.filter(([kind]) => !["frozen", "down", "wrong", "keeps"].includes(kind) || (kind === "keeps" ? played.lanes.some((one) => keepings(played, one.name).length) : has(kind === "wrong" ? "believes wrongly" : kind)));
  const color = hue(played, played.lanes[0].name);
  return html`<ul class="legend" aria-label="Legend"><li class="quiet">Each process has its color:</li>
    ${shown.map(([kind, words]) => html`<li><svg width="26" height="14" aria-hidden="true"><g class=${`bar ${kind} ${color}`}><rect x="1" y="1" width="24" height="12" rx="3" /></g></svg>${words}</li>`)}
    ${has("cut") && html`<li><svg width="26" height="14" aria-hidden="true"><line class="cut" x1="0" x2="26" y1="7" y2="7" /></svg>cut off from some</li>`}
    ${played.messages.length > 0 && html`<li><svg width="18" height="14" aria-hidden="true"><line class="message" x1="5" y1="0" x2="12" y2="14" /></svg>message</li>`}
    ${played.messages.some((one) => one.arrived === null) && html`<li><svg width="18" height="14" aria-hidden="true"><g class="message missing"><line x1="6" y1="0" x2="9" y2="8" /><path d="M6 6l6 6m0 -6l-6 6" /></g></svg>does not arrive</li>`}
    ${played.outcome.writes > 0 && html`<li><svg width="18" height="16" aria-hidden="true"><g class=${`touch taken ${color}`}><circle cx="9" cy="8" r="7" /><path d="M6 8l2.2 2.6l4 -5" /></g></svg>write taken</li>`}
    ${played.outcome.refused > 0 && html`<li><svg width="18" height="16" aria-hidden="true"><g class=${`touch refused ${color}`}><circle cx="9" cy="8" r="7" /><path d="M6 5l6 6m0 -6l-6 6" /></g></svg>refused by its fence</li>`}
    ${played.events.some((one) => one.kind === "lost update") && html`<li><svg width="18" height="16" aria-hidden="true"><g class=${`touch lost ${color}`}><circle cx="9" cy="8" r="7" /><path transform="translate(9 8)" d=${SIGNS.lost} /></g></svg>updates of others lost</li>`}
    ${brokenIn(played).length > 0 && html`<li><svg width="18" height="14" aria-hidden="true"><g class="broken"><line x1="9" x2="9" y1="0" y2="14" /><path d="M3 0h12l-6 9z" /></g></svg>${run.value ? "the judge says no" : "a promise breaks"}</li>`}
    <li><svg width="8" height="14" aria-hidden="true"><circle class="event" cx="4" cy="7" r="2.2" /></svg>event</li>
  </ul>`;
}

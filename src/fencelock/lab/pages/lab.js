// The page of the lab: it draws the trace of a play at a moment, and asks for another when something is changed.
import { editable, home, status } from "player";
import { effect, html, render, useEffect, useRef, useSignal } from "ui";
import { Theme } from "../web/theme.js";
import { Chart, hue } from "./chart.js";
import { Clocks } from "./clocks.js";
import { Compare, SideBySide } from "./compare.js";
import { Fence, worded } from "./fence.js";
import { seconds, spansAt, stateOf } from "./moment.js";
import { Palette } from "./palette.js";
import { hidden, Quiz } from "./quiz.js";
import { Meter, Unsafe } from "./redlock.js";
import { Facts, Parts, RunVerdict } from "./run.js";
import { Share, ShareButton } from "./share.js";
import { all, at, begin, changed, choices, choose, failed, flip, go, name, next, notice, played, playing, previous, reset, run, scenario, speed, switches, toggle, trace, undo, version } from "./store.js";
import { Turn } from "./turn.js";

const SPEEDS = [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20];

function Head() {
  return html`<header class="top">
    <span class="brand"><img src=${document.querySelector("link[rel=icon]").href} alt="" width="22" height="22" /> Fencelock lab</span>${home && html`<a href=${home}>Documents</a>`}
    ${!run.value && all.value.length > 1 && html`<label class="inline">Scenario <select value=${name.value} onChange=${(event) => choose(event.currentTarget.value)}>${all.value.map((one) => html`<option value=${one.name} selected=${one.name === name.value}>${one.document.title ?? one.name}</option>`)}</select></label>`}
    <span class="grow"></span>${status.value.brief && html`<span class="quiet status" role="status">${status.value.brief}</span>`}<span class="quiet version">${version.value}</span>${!run.value && html`<${ShareButton} />`}<${Theme} />
  </header>`;
}

function Title() {
  const { title, about, engine, seed = 1 } = scenario.value;
  return html`<div class="title"><div class="grow"><h1>${title} <span class="quiet">${engine?.kind}${engine?.nodes ? `, ${engine.nodes} servers` : ""} · seed ${seed}</span></h1><p class="quiet">${about}</p></div>
    ${switches.value.filter(([one]) => one !== hidden()).map(([one, known]) => html`<div class="switch" role="group" aria-label=${one}><span class="quiet">${one}</span>${Object.keys(known).map((choice) => html`<button aria-pressed=${choices.value[one] === choice ? "true" : "false"} onClick=${() => flip(one, choice)}>${choice}</button>`)}</div>`)}
    <${Compare} /></div>`;
}

function processNow(shown, lane) {
  const moment = at.value, state = stateOf(shown, lane.name, moment), here = spansAt(shown, lane.name, moment);
  const has = (kind) => here.find((one) => one.kind === kind), fence = has("holds")?.fence;
  const words = [state.up === false && "down", has("believes wrongly") ? "believes wrongly" : has("holds") ? "holds" : has("waits") && "waits"].filter(Boolean).join(", ");
  const line = played.value.actors?.[lane.name]?.script?.[state.line - 1];
  return [html`${words || (state.frozen ? "" : "–")}${fence ? html`, fence <${Fence} trace=${shown} fence=${fence} />` : has("holds") && !has("believes wrongly") ? " the lock" : ""}${state.frozen ? `${words ? ", " : ""}frozen` : ""}`, line ? html`<code>${line}</code>` : state.told ? "told of its loss" : ""];
}

function serverNow(played, lane) {
  const { holder, until, queue = [], clock = 0, up, frozen } = stateOf(played, lane.name, at.value);
  const left = until === null || until === undefined ? Infinity : until - at.value, lasts = holder && left > 0;
  const words = up === false ? "down" : lasts ? `lock of ${holder}${until === undefined ? "" : left === Infinity ? ", no end" : `, ${seconds(left, 1)} left`}` : lane.keeps === false ? "up" : "lock is free";
  const more = [queue.length && `queue: ${queue.join(", ")}`, Math.abs(clock) > 0.005 && `clock ${clock > 0 ? "+" : ""}${Number(clock.toFixed(2))} s`, frozen && "frozen"];
  return [words, more.filter(Boolean).join(" · ")];
}

function resourceNow(played, lane) {
  const { value, mark, refused, lost } = stateOf(played, lane.name, at.value);
  if (lost !== undefined) return [lost ? `updates were lost ${lost} ${lost === 1 ? "time" : "times"}` : "nothing lost yet", ""];
  return [value ? `= ${value}` : "empty", html`${mark ? html`highest fence <${Fence} trace=${played} fence=${mark} />` : ""}${mark && refused ? " · " : ""}${refused ? `${refused} refused` : ""}`];
}

const NOW = { client: processNow, server: serverNow, resource: resourceNow };

function Stage() {
  const played = trace.value;
  return html`<section class="stage" aria-label="Now"><dl>${played.lanes.map((lane) => {
    const [words, more] = NOW[lane.kind](played, lane);
    return html`<div class=${`card ${lane.kind} ${lane.kind === "client" ? hue(played, lane.name) : ""}`}><dt class=${lane.kind === "client" ? "ink" : ""}>${lane.name}</dt><dd>${words}</dd><dd class="quiet">${more || "\u00a0"}</dd>${lane.kind === "client" && html`<${Meter} lane=${lane.name} />`}</div>`;
  })}</dl><${Unsafe} /></section>`;
}

function Controls() {
  return html`<div class="controls" role="group" aria-label="Time">
    <button class="ends" aria-label="To the beginning (Home)" onClick=${() => go(0)}>|‹</button>
    <button title="Arrow left" onClick=${previous}>‹ Event</button>
    <button class="primary" onClick=${toggle}>${playing.value ? "❚❚ Pause" : "▶ Play"}</button>
    <button title="Arrow right" onClick=${next}>Event ›</button>
    <button class="ends" aria-label="To the end (End)" onClick=${() => go(trace.value.until)}>›|</button>
    <label class="inline">Speed <select onChange=${(event) => { speed.value = Number(event.currentTarget.value); }}>${SPEEDS.map((one) => html`<option value=${one} selected=${one === speed.value}>${one}×</option>`)}</select></label>
    <span class="quiet keys">Keys: space, ← →, Home, End</span>
  </div>`;
}

function Story() {
  const { steps } = trace.value, number = steps.filter((one) => one.at <= at.value).length;
  if (changed.value) {
    return html`<section class="card story" aria-label="Your changes"><p class="grow">You have changed the scenario; what happens now is told by the events.</p>
      <button onClick=${undo}>Take back</button><button onClick=${reset}>Start over</button></section>`;
  }
  if (!steps.length) return null;
  return html`<section class="card story" aria-label="What happens"><div class="grow"><h2>${number ? `Step ${number} of ${steps.length}` : `Before step 1 of ${steps.length}`}</h2><p aria-live="polite">${number ? worded(trace.value, steps[number - 1].say) : "Press play, or go to the next step."}</p></div>
    <button disabled=${number < 2} onClick=${() => go(steps[number - 2].at)}>Previous step</button>
    <button class="primary" disabled=${number === steps.length} onClick=${() => go(steps[number].at)}>Next step</button></section>`;
}

function Light({ ruling }) {
  const [first] = ruling.violations, broken = first && first.at <= at.value;
  if (!first) return html`<li class=${ruling.outcome === "held" ? "held" : "unasked"}><span class="lamp" aria-hidden="true"></span>${ruling.question}: ${ruling.outcome}${ruling.why && ` (${ruling.why})`}</li>`;
  return html`<li class=${broken ? "red" : "held"}><button class="plain" onClick=${() => go(first.at)}><span class="lamp" aria-hidden="true"></span>${ruling.question}: ${broken ? "broken" : "held until"} ${broken ? "at " : ""}${seconds(first.at)}</button>${broken && html`<p>${worded(trace.value, first.words)}</p>`}</li>`;
}

function Verdict() {
  const { verdict, outcome } = trace.value;
  return html`<section class="card verdict" aria-label="What the judge says"><h2>The judge</h2><ul class="lights">${verdict.map((one) => html`<${Light} key=${one.checker} ruling=${one} />`)}</ul>
    <p class="end">In the end: ${outcome.register ? html`<b>${outcome.register}</b> is written` : "nothing is written"}, ${outcome.writes} ${outcome.writes === 1 ? "write" : "writes"} taken, ${outcome.refused} refused.</p></section>`;
}

function useFollowed(current) {
  const list = useRef(null);
  useEffect(() => {
    const row = list.current?.children[Math.max(0, current)];
    if (row) list.current.scrollTop = row.offsetTop - list.current.clientHeight / 2;
  }, [current]);
  return list;
}

function Lane({ name }) {
  return html`<b class=${trace.value.lanes.some((lane) => lane.name === name && lane.kind === "client") ? `ink ${hue(trace.value, name)}` : ""}>${name}</b>`;
}

function EventList() {
  const { events } = trace.value, current = events.findLastIndex((one) => one.at <= at.value), list = useFollowed(current);
  return html`<ol ref=${list}>${events.map((one, index) => html`<li><button class="plain" aria-current=${index === current ? "true" : undefined} onClick=${() => go(one.at)}><span class="number quiet">${seconds(one.at, 3)}</span> <${Lane} name=${one.lane} /> <span>${worded(trace.value, one.words)}</span></button></li>`)}</ol>`;
}

function MessageList() {
  const { messages } = trace.value, current = messages.findLastIndex((one) => one.sent <= at.value), list = useFollowed(current);
  return html`<ol class="messages" ref=${list}>${messages.map((one, index) => html`<li><button class="plain" aria-current=${index === current ? "true" : undefined} onClick=${() => go(one.sent)}><span class="number quiet">${seconds(one.sent, 3)}</span> <span><${Lane} name=${one.from} /> to <${Lane} name=${one.to} /></span> <span>${worded(trace.value, one.what)}${one.fate === "arrived" ? "" : html` <span class="quiet">(${one.fate})</span>`}</span></button></li>`)}</ol>`;
}

function Events() {
  const messages = useSignal(false);
  const tab = (which, words) => html`<button aria-pressed=${messages.value === which ? "true" : "false"} onClick=${() => { messages.value = which; }}>${words}</button>`;
  return html`<section class="card events" aria-label="Events"><div class="switch"><h2>${messages.value && trace.value.messages.length ? "Messages" : "Events"}</h2>${trace.value.messages.length > 0 && html`${tab(false, "Events")}${tab(true, "Messages")}`}</div>${messages.value && trace.value.messages.length ? html`<${MessageList} />` : html`<${EventList} />`}</section>`;
}

function App() {
  return html`<${Head} />${failed.value && html`<p class="banner bad" role="alert">${failed.value} <button class="plain" aria-label="Close this message" onClick=${() => { failed.value = ""; }}>✕</button></p>`}
    ${notice.value && html`<p class="notice" role="status">${notice.value} <button class="plain" aria-label="Close this notice" onClick=${() => { notice.value = ""; }}>✕</button></p>`}
    ${status.value.failed && html`<p class="notice" role="alert">${status.value.failed}</p>`}${status.value.words && html`<p class="banner" role="status">${status.value.words}</p>`}
    ${trace.value && scenario.value && html`<main>${run.value ? html`<${Facts} /><${Parts} />` : html`<${Share} /><${Title} />`}<${Stage} /><${Chart} /><${Controls} />${!run.value && html`<${Quiz} /><${Story} /><${SideBySide} />`}${editable.value && html`<${Palette} /><div class="tools"><${Turn} /><${Clocks} /></div>`}<div class="below">${run.value ? html`<${RunVerdict} />` : html`<${Verdict} />`}<${Events} /></div></main>`}`;
}

const KEYS = { ArrowLeft: previous, ArrowRight: next, ArrowDown: previous, ArrowUp: next, Home: () => go(0), End: () => go(trace.value.until), " ": toggle };

addEventListener("keydown", (event) => {
  if (!trace.value || event.ctrlKey || event.altKey || event.metaKey || !(event.key in KEYS)) return;
  const on = event.target.closest?.("button, select, input, textarea, summary, a, .scrubber");
  const typed = on?.matches("select, input, textarea"), pressed = event.key === " " && on?.matches("button, summary, a");
  const scrolls = event.key.startsWith("Arrow") && ["ArrowUp", "ArrowDown"].includes(event.key) && !on?.matches(".scrubber");
  if (typed || pressed || scrolls) return;
  event.preventDefault();
  if (event.key !== " ") playing.value = false;
  KEYS[event.key]();
});

effect(() => { document.title = scenario.value ? `${run.value ? trace.value.title : scenario.value.title} · Fencelock lab` : "Fencelock lab"; });
begin();
const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);

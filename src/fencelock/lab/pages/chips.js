// The lane of faults: each is a chip at its time. A chip is dragged, stretched at its end, or moved by keys.
import { editable } from "player";
import { html, signal, useRef } from "ui";
import { brief, change, form, lasts, list, remove, replaced, said } from "./faults.js";
import { edit, edits, faults, playing, sketch, trace } from "./store.js";

const ROW = 26, LEAST = 24, SNAP_S = 0.05;
// The drawing that something can be dropped on: its node, its lanes, and the moment of a place in it.
export const target = signal(null);

const tidy = (time) => Number(time.toFixed(3));
const snapped = (time) => tidy(Math.round(time / SNAP_S) * SNAP_S);

// Where each chip is: faults that overlap are below each other.
export function rowsOf(played, x, width) {
  const ends = [], places = list(played.document?.faults).map((fault) => {
    const from = x(fault.at), to = lasts(fault) ? x(Math.min(played.until, fault.at + (fault.for ?? Infinity))) : from;
    const wide = Math.max(LEAST, to - from), text = brief(fault).length * 7 + 20, inside = text <= wide;
    const left = Math.min(from, width - Math.max(wide, LEAST)), turned = !inside && left + wide + text > width;
    const begin = turned ? left - text : left, end = inside ? left + wide : turned ? left + wide : left + wide + text;
    let row = ends.findIndex((one) => one + 4 < begin);
    if (row < 0) row = ends.push(0) - 1;
    ends[row] = end;
    return { left, wide, row, inside, turned };
  });
  return { places, height: Math.max(1, ends.length) * ROW + 8 };
}

// What a pull by some pixels makes of a fault.
function pulled(fault, by, stretches, until) {
  if (stretches) return { ...fault, for: Math.max(SNAP_S, snapped((fault.for ?? until - fault.at) + by)) };
  return { ...fault, at: Math.min(Math.max(0, snapped(fault.at + by)), until) };
}

let busy = false;
// Play a fault while it is dragged, one after the other.
async function follow(index, fault) {
  if (busy) return;
  busy = true;
  await sketch({ faults: replaced(index, fault) });
  busy = false;
}

function Chip({ fault, index, place, scale }) {
  const drag = useRef(null), until = trace.value.until, chosen = form.value?.index === index;
  const down = (event) => {
    event.stopPropagation();
    if (!editable.value || event.button) return;
    playing.value = false;
    drag.current = { x: event.clientX, fault, back: edits.value, stretches: event.target.closest(".grip") !== null, now: fault };
    event.currentTarget.setPointerCapture(event.pointerId);
  };
  const move = (event) => {
    const pull = drag.current;
    if (!pull || Math.abs(event.clientX - pull.x) < 3 && pull.now === pull.fault) return;
    pull.now = pulled(pull.fault, (event.clientX - pull.x) * scale, pull.stretches, until);
    follow(index, pull.now);
  };
  const up = async () => {
    const pull = drag.current;
    drag.current = null;
    if (!pull || pull.now === pull.fault) return;
    edit({ faults: replaced(index, pull.now) }, pull.back);
  };
  const keys = (event) => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!editable.value || !way && event.key !== "Delete" && event.key !== "Backspace") return;
    event.preventDefault();
    event.stopPropagation();
    if (!way) remove(index).then(() => (document.querySelector(".chip") ?? document.querySelector(".scrubber")).focus());
    else if (!event.shiftKey || lasts(fault)) change(index, pulled(faults()[index], way * (event.ctrlKey ? 1 : 0.1), event.shiftKey, until));
  };
  return html`<button class=${`chip ${place.inside ? "" : place.turned ? "outside turned" : "outside"}`} style=${{ left: `${place.left}px`, top: `${place.row * ROW + 4}px`, width: `${place.wide}px` }} aria-pressed=${chosen ? "true" : "false"} aria-label=${said(fault)} title=${said(fault)} onClick=${(event) => { form.value = { index, byKey: event.detail === 0 }; }} onKeyDown=${keys} onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onPointerCancel=${up}>
    <span class="words">${brief(fault)}</span>${editable.value && lasts(fault) && html`<span class="grip"></span>`}</button>`;
}

export function Chips({ played, chips, top, scale }) {
  const shown = list(played.document?.faults);
  return html`<div class="chips" role="group" aria-label="Faults" style=${{ top: `${top}px` }}>${shown.map((fault, index) => html`<${Chip} key=${index} fault=${fault} index=${index} place=${chips.places[index]} scale=${scale} />`)}</div>`;
}

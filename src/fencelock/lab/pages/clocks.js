// The clocks of servers, each beside true time. A hand is dragged, or a number is given: a fault `step` at the playhead.
import { html, useSignal } from "ui";
import { put, servers } from "./faults.js";
import { seconds, stateOf } from "./moment.js";
import { typed } from "./palette.js";
import { at, here, playing, trace } from "./store.js";

const TURN_S = 12, SNAP_S = 0.1; // one turn of a hand
const tip = (time, length) => [24 + length * Math.sin(time / TURN_S * 2 * Math.PI), 24 - length * Math.cos(time / TURN_S * 2 * Math.PI)];
const angle = (event, node) => {
  const box = node.getBoundingClientRect();
  return Math.atan2(event.clientX - box.left - box.width / 2, box.top + box.height / 2 - event.clientY) / 2 / Math.PI * TURN_S;
};
const shown = (by) => `${by > 0 ? "+" : ""}${Number(by.toFixed(2))} s`;

function Clock({ server }) {
  const pull = useSignal(null), ahead = stateOf(trace.value, server, at.value).clock ?? 0, by = pull.value?.by ?? 0;
  const step = (amount) => put({ kind: "step", whom: server, at: here(), by: amount });
  const down = (event) => {
    playing.value = false;
    event.currentTarget.setPointerCapture(event.pointerId);
    pull.value = { last: angle(event, event.currentTarget), turned: 0, by: 0 };
  };
  const move = (event) => {
    if (!pull.value) return;
    const here = angle(event, event.currentTarget), { last, turned } = pull.value;
    const more = (here - last + TURN_S * 1.5) % TURN_S - TURN_S / 2, sum = turned + more;
    pull.value = { last: here, turned: sum, by: Number((Math.round(sum / SNAP_S) * SNAP_S).toFixed(1)) };
  };
  const up = () => {
    pull.value = null;
    if (by) step(by);
  };
  const apply = (event) => {
    event.preventDefault();
    step(typed(event.currentTarget.elements.by.value));
  };
  const [tx, ty] = tip(at.value, 17), [sx, sy] = tip(at.value + ahead + by, 15);
  return html`<li><svg class="face" width="48" height="48" aria-hidden="true" onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onPointerCancel=${() => { pull.value = null; }}>
      <circle cx="24" cy="24" r="21" />${Array.from({ length: 12 }, (_, hour) => { const [x1, y1] = tip(hour, 18), [x2, y2] = tip(hour, 21); return html`<line class="mark" x1=${x1} y1=${y1} x2=${x2} y2=${y2} />`; })}
      <line class="true" x1="24" y1="24" x2=${tx} y2=${ty} /><line class="hand" x1="24" y1="24" x2=${sx} y2=${sy} /><circle class="knob" cx=${sx} cy=${sy} r="4" /></svg>
    <form onSubmit=${apply}><b>${server}</b> <span class="quiet">${pull.value ? `steps by ${shown(by)}` : Math.abs(ahead) < 0.005 ? "true time" : shown(ahead)}</span><br />
      <label class="inline"><span class="unseen">Step the clock of ${server} by seconds</span><input type="text" inputmode="decimal" name="by" size="4" value="2" autocomplete="off" /> s</label> <button type="submit">Step</button></form></li>`;
}

export function Clocks() {
  return html`<details class="card tool"><summary>Clocks of the servers</summary><p class="quiet">Turn a hand, or step by a number, at ${seconds(at.value)}. One turn is ${TURN_S} s; the thin hand is true time.</p><ul class="clocks">${servers.value.map((one) => html`<${Clock} key=${one} server=${one} />`)}</ul></details>`;
}

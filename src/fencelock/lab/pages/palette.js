// What can go wrong: a palette whose kinds are dragged onto a lane, and the form that says the same in fields.
import { html, signal, useEffect, useRef } from "ui";
import { target } from "./chips.js";
import { actors, change, everybody, fits, form, fresh, list, named, offered, put, remove, said, servers } from "./faults.js";
import { seconds } from "./moment.js";
import { failed, here, played, playing } from "./store.js";

const carried = signal(null); // a kind on its way, and where it is

function below({ clientX, clientY }) {
  const { node, lanes, moment } = target.value, box = node.getBoundingClientRect(), frame = node.closest(".time").getBoundingClientRect();
  if (clientX < frame.left || clientX > frame.right || clientY < box.top || clientY > box.bottom) return null;
  const y = clientY - box.top;
  return { moment: moment(clientX - box.left), lane: lanes.find((one) => y >= one.y && y < one.y + one.height) };
}

function Kind({ one }) {
  const drag = useRef(null);
  const down = (event) => {
    if (event.button) return;
    drag.current = { x: event.clientX, y: event.clientY, moved: false };
    event.currentTarget.setPointerCapture(event.pointerId);
  };
  const move = (event) => {
    const pull = drag.current;
    if (!pull || !pull.moved && Math.hypot(event.clientX - pull.x, event.clientY - pull.y) < 5) return;
    pull.moved = true;
    playing.value = false;
    const place = below(event);
    carried.value = { one, x: event.clientX, y: event.clientY, place, ok: place && (!place.lane || fits(one.kind, place.lane)) };
  };
  const up = (event) => {
    const here = carried.value;
    carried.value = null;
    if (!drag.current?.moved || event.type === "pointercancel" || !here?.place) return;
    if (here.ok) put(fresh(one.kind, Number(here.place.moment.toFixed(2)), here.place.lane?.name));
    else failed.value = `${one.kind} is a fault of ${{ actor: `a process: drop it on ${actors.value.join(" or ")}`, server: `a server: drop it on ${servers.value.join(" or ")}`, way: "a network way: drop it on a process or a server" }[one.of]}.`;
  };
  const click = (event) => {
    if (drag.current?.moved) drag.current = null;
    else form.value = { index: -1, draft: fresh(one.kind, here()), byKey: event.detail === 0 };
  };
  return html`<button class="kind" title=${one.words} onClick=${click} onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onPointerCancel=${up}><span aria-hidden="true">${one.sign}</span> ${one.kind}</button>`;
}

function Carried() {
  const here = carried.value;
  if (!here) return null;
  const place = here.place ? `${here.place.lane?.name ?? "faults"}, ${seconds(here.place.moment)}` : "onto a lane";
  return html`<div class=${`carried ${here.place && !here.ok ? "not" : ""}`} style=${{ left: `${here.x + 12}px`, top: `${here.y + 12}px` }}>${here.one.sign} ${here.one.kind}: ${here.place && !here.ok ? "not here" : place}</div>`;
}

// Text of a field as JSON has it: a number where it is one, else the text, so that the lab says what is wrong with it.
export const typed = (text) => (text.trim() === "" ? undefined : Number.isNaN(Number(text)) ? text : Number(text));

const Text = ({ name, label, value, unit }) => html`<label class="inline">${label} <input type="text" inputmode="decimal" size="6" name=${name} value=${value ?? ""} autocomplete="off" />${unit}</label>`;

function Hosts({ name, label, value }) {
  return html`<fieldset><legend>${label}</legend>${everybody.value.map((one) => html`<label class="inline"><input type="checkbox" name=${name} value=${one} checked=${list(value).includes(one)} /> ${one}</label>`)}</fieldset>`;
}

const UNITS = { step: ["steps by", "s"], slow: ["later by", "s"], pace: ["runs at", "× true time"] };

function Fields({ fault }) {
  const { of, fields } = named(fault.kind), there = of === "actor" ? actors.value : servers.value;
  return html`${(of === "actor" || of === "server") && html`<label class="inline">whom <select name="whom">${there.map((one) => html`<option value=${one} selected=${one === fault.whom}>${one}</option>`)}</select></label>`}
    ${of === "way" && html`<${Hosts} name="from" label="from" value=${fault.from} /><${Hosts} name="to" label="to" value=${fault.to} />`}
    <${Text} name="at" label="at" value=${fault.at} unit="s" />
    ${fields.includes("for") && html`<${Text} name="for" label="for" value=${fault.for} unit=${fault.kind === "restart" ? "s" : "s (empty: for good)"} />`}
    ${fields.includes("by") && html`<${Text} name="by" label=${UNITS[fault.kind][0]} value=${fault.by} unit=${UNITS[fault.kind][1]} />`}
    ${fields.includes("one_way") && html`<label class="inline"><input type="checkbox" name="one_way" checked=${fault.one_way} /> one way only</label>`}`;
}

// What the form says, as a fault of a document.
function read(node, kind) {
  const data = new FormData(node), { of, fields } = named(kind), fault = { kind };
  if (of === "actor" || of === "server") fault.whom = data.get("whom");
  if (of === "way") Object.assign(fault, { from: data.getAll("from"), to: data.getAll("to") });
  for (const one of ["at", "for", "by"]) {
    const value = fields.includes(one) ? typed(data.get(one)) : undefined;
    if (value !== undefined) fault[one] = value;
  }
  if (fields.includes("one_way") && data.get("one_way")) fault.one_way = true;
  return fault;
}

function Form() {
  const { index, draft, byKey } = form.value, isNew = index < 0, fault = draft ?? list(played.value.faults)[index];
  const node = useRef(null);
  useEffect(() => {
    node.current?.scrollIntoView({ block: "nearest" });
    if (byKey) node.current?.elements.at.focus();
  }, [index, byKey]);
  if (!fault) return null;
  const apply = async (event) => {
    event.preventDefault();
    const wanted = read(event.currentTarget, fault.kind);
    if (isNew) await put(wanted);
    else if (await change(index, wanted)) form.value = { index };
  };
  const close = () => {
    form.value = null;
    document.querySelectorAll(".chip")[index]?.focus();
  };
  const turn = (event) => {
    const kind = event.currentTarget.value, same = named(kind).of === named(fault.kind).of;
    form.value = { index, draft: { ...fresh(kind, fault.at), ...(same ? { whom: fault.whom, from: fault.from, to: fault.to } : {}) } };
  };
  return html`<form class="fault" ref=${node} aria-label=${isNew ? "A new fault" : `Fault: ${said(fault)}`} onSubmit=${apply} onKeyDown=${(event) => event.key === "Escape" && close()}>
    <label class="inline">kind <select name="kind" onChange=${turn}>${offered.value.map((one) => html`<option value=${one.kind} selected=${one.kind === fault.kind}>${one.kind}</option>`)}</select></label>
    <${Fields} key=${`${index} ${JSON.stringify(fault)}`} fault=${fault} />
    <span class="buttons"><button class="primary" type="submit">${isNew ? "Add" : "Apply"}</button>${!isNew && html`<button type="button" onClick=${() => remove(index)}>Delete</button>`}<button type="button" class="plain" onClick=${close}>Close</button></span></form>`;
}

export function Palette() {
  return html`<section class="card palette" aria-label="Faults"><div role="group" aria-label="Let something go wrong"><span><b>Let something go wrong</b> <span class="quiet">at the playhead: click, or drag onto a lane</span></span>${offered.value.map((one) => html`<${Kind} key=${one.kind} one=${one} />`)}</div>
    ${form.value && html`<${Form} />`}<${Carried} /></section>`;
}

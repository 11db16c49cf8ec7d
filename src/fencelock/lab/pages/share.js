// What can be taken along: a link, the page as one file, the trace, and a test.
import { about, editable, file } from "player";
import { html, signal } from "ui";
import { encoded } from "./link.js";
import { at, beside, failed, trace, universe } from "./store.js";

const open = signal(false);
const said = signal("");
const text = signal(""); // what could not be copied, to be copied by hand

const stem = () => universe.value.name.replace(/^.*[\\/]/, "").replace(/\.json$/, "").replace(/[^A-Za-z0-9._-]+/g, "-");

function download(data, type, name) {
  const url = URL.createObjectURL(new Blob([data], { type }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  said.value = `${name} is downloaded.`;
}

async function copy(what, words) {
  text.value = "";
  try {
    await navigator.clipboard.writeText(what);
    said.value = `${words} is copied.`;
  } catch {
    said.value = "The browser lets nothing be copied from here. Copy it by hand:";
    text.value = what;
  }
}

function link() {
  const fragment = encoded(universe.value, trace.value, at.value, beside.value);
  history.replaceState(null, "", `#${fragment}`);
  return copy(location.href, "The link");
}

async function save() {
  said.value = "";
  try {
    download(await file(universe.value), "text/html", `${stem()}.html`);
  } catch (error) {
    failed.value = error.message;
  }
}

// A value as Python writes it, over several lines where it is long.
function python(value, indent = "    ") {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const list = Array.isArray(value), inner = `${indent}    `;
  const parts = list ? value.map((one) => python(one, inner)) : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${python(one, inner)}`);
  const [left, right] = list ? "[]" : "{}", short = `${left}${parts.join(", ")}${right}`;
  if (short.length + indent.length < 90 && !short.includes("\n")) return short;
  return `${left}\n${parts.map((one) => `${inner}${one},\n`).join("")}${indent}${right}`;
}

export function asTest({ name, own, choices, edits }, { document, outcome }) {
  const words = stem().replace(/[^A-Za-z0-9]+/g, "_").toLowerCase();
  const asItIs = !own && !Object.keys(edits).length, set = Object.keys(choices).length ? `, **${python(choices)}` : "";
  const from = asItIs ? `lab.load(${JSON.stringify(name)}${set})` : python(document);
  return `from fencelock import lab\n\n\ndef test_${words}():\n    document = ${from}\n    trace = lab.play(document)\n    assert trace.outcome == ${python(outcome)}\n`;
}

export function ShareButton() {
  const toggle = () => {
    open.value = !open.value;
    said.value = text.value = "";
  };
  return html`<button aria-expanded=${open.value ? "true" : "false"} aria-controls="share" onClick=${toggle}>Share</button>`;
}

export function Share() {
  if (!open.value) return null;
  return html`<section id="share" class="card" aria-label="Share"><div class="ways">
      <button onClick=${link}>Copy link</button>
      ${editable.value && html`<button onClick=${save}>Export</button>`}
      <button onClick=${() => download(JSON.stringify(trace.value), "application/json", `${stem()}-trace.json`)}>Trace as JSON</button>
      <button onClick=${() => copy(asTest(universe.value, trace.value), "A test")}>Copy as pytest</button></div>
    <p class="quiet">${about.link}<code>fencelock lab LINK</code> starts one with it. ${about.export}</p>
    <p role="status">${said.value}</p>
    ${text.value && html`<textarea aria-label="To be copied" readonly rows="6" ref=${(here) => here?.select()}>${text.value}</textarea>`}</section>`;
}

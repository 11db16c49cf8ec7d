// What is told of a history: what was run and when, which part of it is shown, and what the judge says.
import { html } from "ui";
import { worded } from "./fence.js";
import { seconds } from "./moment.js";
import { all, choose, name, run, see, trace } from "./store.js";

const SHOWN = 5; // violations of one checker

const isCode = (fact) => fact === "command" || fact === "engine";

export function Facts() {
  const { facts, figures, conclusion } = run.value, { verdict, title } = trace.value, broken = verdict.filter((one) => one.violations.length);
  return html`<section class="card run" aria-label="The run"><h1>${title}</h1>
    <p class=${`conclusion ${broken.length ? "bad" : ""}`}>${conclusion}</p>
    ${broken.length > 0 && html`<ul class="lights brief">${broken.map((one) => html`<li class="red"><button class="plain" onClick=${() => see(one.violations[0])}><span class="lamp" aria-hidden="true"></span>${one.question}: ${one.outcome} at ${seconds(one.violations[0].at)}</button></li>`)}</ul>`}
    <dl class="facts">${facts.map(([fact, value]) => html`<div><dt class="quiet">${fact}</dt><dd>${isCode(fact) ? html`<code>${value}</code>` : value}</dd></div>`)}</dl>
    <p class="quiet">${figures.join(" · ")}</p></section>`;
}

export function Parts() {
  const parts = all.value, index = parts.findIndex((one) => one.name === name.value), { left_out: missing } = run.value;
  if (parts.length < 2 && !missing.length) return null;
  return html`<section class="stretch" aria-label="Part of the run">
    ${parts.length > 1 && html`<button aria-label="Previous part" disabled=${index < 1} onClick=${() => choose(parts[index - 1].name)}>‹ Part</button>
    <label class="inline">Part ${index + 1} of ${parts.length} <select value=${name.value} onChange=${(event) => choose(event.currentTarget.value)}>${parts.map((one) => html`<option value=${one.name} selected=${one.name === name.value}>${one.document.title}</option>`)}</select></label>
    <button aria-label="Next part" disabled=${index === parts.length - 1} onClick=${() => choose(parts[index + 1].name)}>Part ›</button>`}
    ${missing.length > 0 && html`<span class="quiet">Left out: ${missing.join("; ")}.</span>`}</section>`;
}

const HEADS = { held: "Held", "not judged": "Not judged", undecided: "Undecided" };

function Ruling({ ruling }) {
  const { question, outcome, violations, more = 0 } = ruling, hidden = violations.length - SHOWN + more;
  return html`<li class="red"><span class="lamp" aria-hidden="true"></span><b>${question}: ${outcome}</b>
    <ol>${violations.slice(0, SHOWN).map((one) => html`<li><button class="plain" onClick=${() => see(one)}>${seconds(one.at)}: ${worded(trace.value, one.words)}</button></li>`)}</ol>
    ${hidden > 0 && html`<p>and ${hidden} more</p>`}</li>`;
}

// What is broken in words, each a click away; what held in one quiet line.
export function RunVerdict() {
  const { verdict } = trace.value, broken = verdict.filter((one) => one.violations.length);
  const quiet = Object.entries(HEADS).map(([outcome, head]) => [head, verdict.filter((one) => one.outcome === outcome && !one.violations.length)]).filter(([, ruled]) => ruled.length);
  return html`<section class="card verdict" aria-label="What the judge says"><h2>The judge</h2>
    ${broken.length > 0 && html`<ul class="lights">${broken.map((one) => html`<${Ruling} key=${one.checker} ruling=${one} />`)}</ul>`}
    ${quiet.map(([head, ruled]) => html`<p class="quiet ruled">${head}: ${ruled.map((one) => `${one.question}${one.why && ` (${one.why})`}`).join(" · ")}.</p>`)}</section>`;
}

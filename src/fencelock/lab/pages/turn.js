// Your turn: buttons that add to the scripts at the playhead, and the scripts themselves, to be edited.
import { html, useSignal } from "ui";
import { hue } from "./chart.js";
import { seconds, stateOf } from "./moment.js";
import { add, at, edit, edits, failed, here, played, scripts, trace } from "./store.js";

const TTL_S = 5, FREEZE_S = 8;
const lock = () => Object.values(played.value.actors).flatMap((one) => one.script ?? []).map((line) => /^\s*acquire\s+(\S+)/.exec(line)?.[1]).find(Boolean) ?? "seat";
const scriptOf = (actor) => played.value.actors[actor].script ?? [];
const write = (actor, script) => edit({ scripts: { ...scripts(), [actor]: script } });

// Lines at the playhead: before the first that waits for a later moment, or at the end.
function insert(actor, ...lines) {
  const script = scripts()[actor] ?? scriptOf(actor), now = here(), place = script.findIndex((line) => Number(/^\s*at\s+(\S+)/.exec(line)?.[1]) > now);
  return write(actor, script.toSpliced(place < 0 ? script.length : place, 0, `at ${now}`, ...lines));
}

const acquire = (actor) => insert(actor, `acquire ${lock()} ttl ${TTL_S}`, "read");
const written = (actor) => insert(actor, `write ${actor}${1 + scriptOf(actor).filter((line) => line.trim().startsWith("write")).length}`);

function Buttons({ actor }) {
  const { frozen, up } = stateOf(trace.value, actor, at.value), holds = played.value.actors[actor].client !== "none";
  const early = holds && !scriptOf(actor).some((line) => /^\s*acquire\s/.test(line)), why = early ? "Acquire first" : undefined;
  return html`<div class="turns" role="group" aria-label=${`${actor} at the playhead`}><b class=${`ink ${hue(trace.value, actor)}`}>${actor}</b>
    ${holds && html`<button onClick=${() => acquire(actor)}>Acquire</button>`}<button disabled=${early} title=${why} onClick=${() => written(actor)}>Write</button>${holds && html`<button disabled=${early} title=${why} onClick=${() => insert(actor, "release")}>Release</button>`}
    <button disabled=${frozen || up === false} onClick=${() => add({ kind: "pause", whom: actor, at: here(), for: FREEZE_S })}>Freeze</button></div>`;
}

const WHERE = /^actors\.([^.]+)\.script line (\d+): /;

function Script({ actor }) {
  const script = scriptOf(actor), text = script.join("\n"), typed = useSignal(null);
  const [, whose, number] = WHERE.exec(failed.value) ?? [], isWrong = whose === actor;
  const apply = async (event) => {
    event.preventDefault();
    if (await write(actor, (typed.value ?? text).split("\n").filter((line) => line.trim()))) typed.value = null;
  };
  return html`<form class="script" onSubmit=${apply}><label>Script of ${actor}<textarea rows=${Math.max(4, script.length + 1)} spellcheck="false" aria-invalid=${isWrong ? "true" : "false"} value=${typed.value ?? text} onInput=${(event) => { typed.value = event.currentTarget.value; }}></textarea></label>
    ${isWrong && html`<p class="wrong">Line ${number}: ${failed.value.replace(WHERE, "")}</p>`}
    <button type="submit" disabled=${typed.value === null || typed.value === text}>Apply</button>${typed.value !== null && typed.value !== text && html`<button type="button" class="plain" onClick=${() => { typed.value = null; }}>As it was</button>`}</form>`;
}

export function Turn() {
  const actors = Object.keys(played.value.actors ?? {}), isEmpty = actors.every((one) => !played.value.actors[one].script?.length) || Object.keys(edits.value.scripts ?? {}).length > 0;
  return html`<details class="card tool" open=${isEmpty}><summary>Your turn: what each process does</summary>
    <p class="quiet">A button adds to the script at the playhead, which is at ${seconds(at.value)}. Acquiring is followed by reading; a lease lasts ${TTL_S} s, a freeze ${FREEZE_S} s.</p>
    ${actors.map((one) => html`<${Buttons} key=${one} actor=${one} />`)}
    <div class="scripts">${actors.map((one) => html`<${Script} key=${one} actor=${one} />`)}</div></details>`;
}

// What somebody on call wants to know of: losses, revocations, refusals, outages.
import { html, signal, useEffect } from "ui";
import { brief, clock, plural, shown, who } from "./format.js";
import { feed, isLoaded, unread, version } from "./store.js";
import { Empty, LockLink } from "./parts.js";

const KINDS = {
  expired: ["expired", "bad"], lost: ["lost", "bad"], revoked: ["revoked", "warn"], refused: ["refused", "warn"],
  away: ["engine away", "bad"], back: ["engine back", "good"],
};
const GROUPS = { losses: ["Losses", ["expired", "lost"]], revocations: ["Revocations", ["revoked"]], refusals: ["Refusals", ["refused"]], outages: ["Outages", ["away", "back"]] };
const SHOWN_MAX = 300;
const hidden = signal(new Set());
const PROBLEMS = {
  forbidden: "was refused: it has no right to this name", quota: "was refused: its quota is used up",
  "id-spent": "was refused: a delayed copy of a call whose lock was given back",
  "unsupported-safety": "was refused: the engine does not promise the safety it demands", unauthorized: "was refused: no valid token",
  "not-held": "wanted to release what was no longer its own: its lease had ended, and what it did since was not protected:",
};

function Words({ kind, event }) {
  const name = event.name && html`<${LockLink} name=${event.name} />`;
  switch (kind) {
    case "expired": return html`${name} ran out in the hands of <span class="mono">${who(event.meta)}</span>, fence <span class="mono">${event.fence}</span>`;
    case "lost": return html`The holder of ${name} (${shown(event.by)}) asked to renew it and was told: ${shown(event.loss)}. ${shown(event.reason)}`;
    case "revoked": return html`${name} was taken from <span class="mono">${who(event.meta)}</span>, fence <span class="mono">${event.fence}</span>, by ${shown(event.by)}: “${shown(event.reason)}”`;
    case "refused": return html`${shown(event.by)} ${PROBLEMS[event.problem] ?? `was refused: ${event.problem}`} ${name}`;
    case "away": return html`The engine does not answer. Nothing is granted, renewed or released until it does.`;
    case "back": return html`The engine answers again, after ${brief(event.away ?? 0)}.`;
  }
}

export function Feed() {
  version.value;
  useEffect(() => { unread.value = 0; });
  if (!isLoaded() && !feed.length) return html`<${Empty} title="Looking…">The engine is asked who holds what.<//>`;
  const left = new Set(Object.entries(GROUPS).filter(([id]) => hidden.value.has(id)).flatMap(([, [, kinds]]) => kinds));
  const some = feed.filter(({ kind }) => !left.has(kind));
  return html`<section class="view feed-view" aria-labelledby="title">
    <div class="tools"><h1 id="title">Feed</h1>
      <div role="group" aria-label="What is shown" class="choice">${Object.entries(GROUPS).map(([id, [label]]) => html`<button aria-pressed=${String(!hidden.value.has(id))} onClick=${() => {
        const next = new Set(hidden.value);
        if (!next.delete(id)) next.add(id);
        hidden.value = next;
      }}>${label}</button>`)}</div>
      <p class="quiet grow">since this page was opened: ${plural(some.length, "entry").replace("entrys", "entries")}</p>
    </div>
    <div class="card">${some.length === 0 ? html`<${Empty} title="Nothing to report">Leases that run out or are revoked, refused calls and outages of the engine show here.<//>`
      : html`<ol class="feed">${some.slice(0, SHOWN_MAX).map(({ id, kind, at, event, group, more }) => html`<li key=${id}>
        <time class="number quiet" datetime=${new Date(at).toISOString()}>${clock(at)}</time>
        <span class=${`tag ${KINDS[kind][1]}`}>${KINDS[kind][0]}</span><span class="text"><${Words} kind=${kind} event=${event} />${more > 0 && html` <strong class="number">and ${more.toLocaleString("en")} more</strong> of <span class="mono">${group}</span>`}</span>
      </li>`)}${some.length > SHOWN_MAX && html`<li class="quiet">and ${some.length - SHOWN_MAX} older</li>`}</ol>`}</div>
  </section>`;
}

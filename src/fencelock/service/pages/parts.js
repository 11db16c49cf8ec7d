// Pieces that several views show.
import { html } from "ui";
import { brief, shown } from "./format.js";
import { engine, isEndless, isLate, leftOf, link, second, sparksOf } from "./store.js";

export const lockHref = (name) => `#/lock/${encodeURIComponent(name)}`;
export const LockLink = ({ name }) => html`<a class="name mono" href=${lockHref(name)} title=${shown(name)}>${shown(name)}</a>`;

export function levelOf(row) {
  const part = leftOf(row) / row.ttl;
  return isEndless(row) || part >= 0.5 ? "good" : part >= 0.2 ? "warn" : "bad";
}

// What is left of a lease. It drains, and jumps when it is renewed.
export function LeaseBar({ row }) {
  const left = leftOf(row), part = isEndless(row) ? 1 : Math.min(1, Math.max(0, left / row.ttl));
  const stale = !engine.value.up || link.value.state !== "live";
  const words = isEndless(row) ? "no end" : left <= 0 ? "run out" : brief(left);
  return html`<span class=${`lease ${levelOf(row)} ${stale ? "stale" : ""}`}>
    <span class="bar" aria-hidden="true"><span class="fill" style=${{ transform: `scaleX(${part.toFixed(3)})` }}></span></span>
    <span class="left number">${words}${!stale && isLate(row) && html` <span class="late" title="A renewal that used to come is missing">late</span>`}</span>
  </span>`;
}

const W = 90, H = 20;

// Bars are those who waited, dots are grants.
export function Spark({ name }) {
  second.value;
  const counts = sparksOf(name), most = Math.max(2, ...counts.map((one) => one.waiting)), step = W / counts.length;
  return html`<svg class="spark" width=${W} height=${H} viewBox=${`0 0 ${W} ${H}`} aria-hidden="true">
    <line x1="0" x2=${W} y1=${H - 0.5} y2=${H - 0.5} class="axis" />
    ${counts.map(({ waiting, grants }, at) => {
      const height = waiting && Math.max(2, (H - 5) * waiting / most);
      return html`${waiting > 0 && html`<rect x=${at * step} y=${H - height} width=${step - 0.6} height=${height} />`}
        ${grants > 0 && html`<circle cx=${at * step + step / 2} cy="2.5" r=${Math.min(2.2, 1.2 + grants / 4)} />`}`;
    })}
  </svg>`;
}

export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2><p>${children}</p></div>`;

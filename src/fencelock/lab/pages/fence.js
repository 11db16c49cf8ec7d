// Fences are shown as small numbers in their order, 33, 34 and so on; the true numbers are one click away.
import { html, signal } from "ui";

export const isTrue = signal(false);
const turn = () => { isTrue.value = !isTrue.value; };

export const fenceOf = (trace, fence) => (isTrue.value ? fence : trace.fences[fence] ?? fence);

// Words about fences, which are small where the lab has said them, and true where the judge has.
export function worded(trace, words) {
  const plain = words.replace(/ \(fence 0\)/g, "");
  if (!isTrue.value) return plain.replace(/\d{8,}/g, (number) => fenceOf(trace, number));
  const known = new Map(Object.entries(trace.fences).map(([fence, small]) => [`${small}`, fence]));
  return plain.replace(/\b(fence|below) (\d+)\b/g, (said, word, number) => `${word} ${known.get(number) ?? number}`);
}

export function Fence({ trace, fence }) {
  return html`<button class="fence" aria-label=${`fence ${fenceOf(trace, fence)}, ${isTrue.value ? "show as a small number" : "show the true number"}`} title=${isTrue.value ? "Show as a small number" : `The true number is ${fence}`} onClick=${turn}>${fenceOf(trace, fence)}</button>`;
}

export function TrueFences() {
  return html`<label class="inline"><input type="checkbox" checked=${isTrue.value} onChange=${turn} /> true fences</label>`;
}

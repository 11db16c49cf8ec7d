// Light or dark: as the system has it, or as was chosen here.
import { effect, html, signal } from "ui";

const THEMES = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" };
const theme = signal(localStorage.getItem("fencelock-theme") ?? "auto");
effect(() => {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem("fencelock-theme", theme.value);
});

export function Theme() {
  const all = Object.keys(THEMES), next = all[(all.indexOf(theme.value) + 1) % all.length];
  return html`<button class="plain" aria-label=${`Colors: ${theme.value}. Change to ${next}`} onClick=${() => { theme.value = next; }}>${THEMES[theme.value] ?? THEMES.auto}</button>`;
}

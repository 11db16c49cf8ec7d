// Light or dark: as the system has it, or as was chosen here.
import { effect, html, signal } from "ui";

const THEMES = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" };
const NAME = "fencelock-theme";

// Some browsers keep nothing for a page, and say so by an error.
function kept() {
  try {
    return localStorage.getItem(NAME);
  } catch {
    return null;
  }
}

const theme = signal(kept() ?? "auto");
effect(() => {
  document.documentElement.dataset.theme = theme.value;
  try {
    localStorage.setItem(NAME, theme.value);
  } catch {
    // it lasts as long as the page
  }
});

export function Theme() {
  const all = Object.keys(THEMES), next = all[(all.indexOf(theme.value) + 1) % all.length];
  return html`<button class="plain" aria-label=${`Colors: ${theme.value}. Change to ${next}`} onClick=${() => { theme.value = next; }}>${THEMES[theme.value] ?? THEMES.auto}</button>`;
}

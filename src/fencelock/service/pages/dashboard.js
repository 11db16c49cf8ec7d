// The page itself: who looks, which view, and whether what it shows is live.
import { html, render, signal, useEffect, useSignal } from "ui";
import { Theme } from "../web/theme.js";
import { Stream, call, hasToken, useToken } from "./api.js";
import { brief, shown } from "./format.js";
import { about, engine, forgetAll, link, locks, now, startClock, takeEvents, unread, version } from "./store.js";
import { Engine } from "./engine.js";
import { Feed } from "./feed.js";
import { Heat } from "./heat.js";
import { Lock } from "./lock.js";
import { Locks } from "./locks.js";
import { Revoke } from "./revoke.js";

const VIEWS = [["locks", "Locks", Locks], ["heat", "Heat", Heat], ["feed", "Feed", Feed], ["engine", "Engine", Engine]];
const needsToken = document.documentElement.dataset.identities === "yes";

const route = signal(readRoute());
const login = signal(needsToken && !hasToken() ? { asked: true } : null);
const stream = new Stream(takeEvents, (state, error) => {
  if (state !== link.value.state) link.value = { state, error, since: performance.now() };
  if (error?.status === 401) login.value = { failed: "This token is not known (any more)." };
});

function readRoute() {
  const [, view = "locks", ...rest] = location.hash.split("/");
  try {
    if (view === "lock") return { view, name: decodeURIComponent(rest.join("/")) };
  } catch {
    return { view: "locks" };
  }
  return { view: VIEWS.some(([id]) => id === view) ? view : "locks" };
}

async function begin() {
  try {
    about.value = await call("about");
  } catch (error) {
    if (error.status === 401) {
      useToken("");
      login.value = { failed: "This service does not know that token." };
      return;
    }
    if (link.value.state !== "away") link.value = { state: "away", since: performance.now() };
    setTimeout(begin, 1_000);
    return;
  }
  login.value = null;
  stream.start();
}

function leave() {
  stream.stop();
  stream.last = "";
  useToken("");
  forgetAll();
  link.value = { state: "connecting" };
  login.value = { asked: true };
}

const focused = (element) => element?.focus();

function Login() {
  const typed = useSignal("");
  const enter = (event) => {
    event.preventDefault();
    useToken(typed.value.trim());
    begin();
  };
  return html`<main class="login"><form class="card" onSubmit=${enter}>
    <h1>Fencelock</h1>
    <p>This service wants to know who looks. The token stays in this tab and goes nowhere but to the service.</p>
    <label>Token<input type="password" autocomplete="off" required ref=${focused} value=${typed.value} onInput=${(event) => { typed.value = event.currentTarget.value; }} /></label>
    ${login.value.failed && html`<p role="alert" class="error">${login.value.failed}</p>`}
    <div class="actions"><button class="primary" type="submit">Look</button></div>
    <p class="quiet"><code>fencelock token NAME</code> makes one; it needs the verb <code>observe</code>.</p>
  </form></main>`;
}

function Status() {
  const { state } = link.value;
  const [word, level] = state === "live" ? (engine.value.up ? ["live", "good"] : ["engine away", "bad"]) : state === "refused" ? ["not allowed", "bad"] : state === "away" ? ["no connection", "bad"] : ["connecting", "quiet"];
  return html`<span class=${`pill ${level}`} role="status"><span class="dot" aria-hidden="true"></span>${word}</span>`;
}

function Banner() {
  now.value;
  const { state, since } = link.value;
  if (state === "away") return html`<p class="banner bad" role="alert">The service does not answer${locks.size ? html`; this is what was seen ${brief((now.value - since) / 1000)} ago` : ""}. Locks are held all the same: the engine keeps them.</p>`;
  if (state === "live" && !engine.value.up) return html`<p class="banner bad" role="alert">The engine has been away for ${brief((now.value - engine.value.since) / 1000)}: nothing is granted, renewed or released. What is shown is what was seen last.</p>`;
  return null;
}

function NotAllowed() {
  const { error } = link.value;
  const why = error.status === 403
    ? html`The identity <code>${shown(about.value?.identity ?? "?")}</code> may observe no lock. Whoever runs this service can add the verb <code>observe</code> for a prefix.`
    : html`The engine <code>${shown(about.value?.engine ?? "?")}</code> cannot list its locks. <code>fencelock show NAME</code> shows one of them.`;
  return html`<div class="card"><div class="empty"><h1>${error.status === 403 ? "Not allowed" : "Nothing can be listed"}</h1><p>${why}</p></div></div>`;
}

function Page() {
  const { view, name } = route.value;
  useEffect(() => {
    stream.look(view === "lock" ? name : null);
    const title = view === "lock" ? shown(name) : VIEWS.find(([id]) => id === view)[1];
    document.title = `${title} · Fencelock`;
  }, [view, name]);
  version.value;
  const refused = link.value.state === "refused" && link.value.error?.status !== 401;
  const View = VIEWS.find(([id]) => id === view)?.[2];
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to content</a>
    <header class="top">
      <span class="brand"><img src="web/icon.svg" alt="" width="22" height="22" /> Fencelock</span>
      <nav aria-label="Views">${VIEWS.map(([id, label]) => html`<a href=${`#/${id}`} aria-current=${id === view || (id === "locks" && view === "lock") ? "page" : undefined}>${label}${id === "feed" && unread.value > 0 && html` <span class="badge number">${unread.value > 99 ? "99+" : unread.value}<span class="unseen"> new</span></span>`}</a>`)}</nav>
      <span class="grow"></span>
      <${Status} />
      ${about.value && html`<span class="quiet identity">${about.value.identity}</span>`}
      ${needsToken && html`<button class="plain" onClick=${leave}>Forget token</button>`}
      <${Theme} />
    </header>
    <${Banner} />
    <main id="main" tabindex="-1">${refused && view !== "engine" ? html`<${NotAllowed} />` : view === "lock" ? html`<${Lock} key=${name} name=${name} />` : html`<${View} />`}</main>
    <${Revoke} />`;
}

const App = () => login.value ? html`<${Login} />` : html`<${Page} />`;

addEventListener("hashchange", () => {
  route.value = readRoute();
  document.getElementById("main")?.focus({ preventScroll: true });
});
startClock();
if (!login.value) begin();
const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);

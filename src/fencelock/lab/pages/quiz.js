// Find the bug: one choice of a switch is played without saying which. The document names the switch and the answers.
import { html, useSignal } from "ui";
import { changed, choices, go, played, pose, scenario, trace } from "./store.js";
import { seconds } from "./moment.js";

// The switch that is hidden, if the document is a riddle.
export const hidden = () => scenario.value.quiz?.switch;

const GUARDS = { true: "the check of the guards", false: "none", writes: "on writes only", above: "one that takes a fence once" };
const recipe = (actor) => [actor.client ?? "fencelock", ...Object.entries(actor.recipe ?? {}).map(([what, how]) => `${what}: ${how}`)].join(", ");

function Told({ answer }) {
  const broken = trace.value.verdict.filter((one) => one.violations.length), { actors, resource } = played.value;
  return html`<div class="told"><p><b>${answer.say}</b></p><p>${answer.because}</p>
    ${changed.value ? html`<p class="quiet">This is about the play as it was at first; you have changed it.</p>` : html`<p>The judge: ${broken.length ? broken.map((one, index) => html`${index ? " and " : ""}<button class="plain" onClick=${() => go(one.violations[0].at)}>${one.question}: broken at ${seconds(one.violations[0].at)}</button>`) : "no promise is broken"}.</p>`}
    <p class="quiet">${Object.entries(actors).map(([name, one]) => `${name} is ${recipe(one)}`).join("; ")}; the guard is ${GUARDS[resource?.guard ?? true]}.</p></div>`;
}

function Riddle({ quiz, posed, actual }) {
  const picked = useSignal(""), guessed = useSignal(""), isTold = useSignal(false), { answers } = quiz, isRight = guessed.value === actual;
  const number = posed.indexOf(actual), pick = (index) => pose({ ...choices.value, [quiz.switch]: posed[index % posed.length] });
  return html`<section class="card quiz" aria-label="Find the bug"><h2>Riddle ${number + 1} of ${posed.length}: which one is it?</h2>
    <p class="quiet">Look at the messages and at the judge, freeze and cut as you like, and guess.</p>
    <form onSubmit=${(event) => { event.preventDefault(); guessed.value = picked.value; isTold.value = isTold.value || picked.value === actual; }}>
      <fieldset disabled=${isTold.value}><legend class="unseen">Your guess</legend>${Object.entries(answers).map(([one, { say }]) => html`<label><input type="radio" name="guess" value=${one} checked=${picked.value === one} onChange=${() => { picked.value = one; }} /> <span>${say}</span></label>`)}</fieldset>
      <div class="buttons"><button class="primary" type="submit" disabled=${!picked.value || isTold.value}>Guess</button><button type="button" disabled=${isTold.value} onClick=${() => { isTold.value = true; }}>Tell me</button><button type="button" onClick=${() => pick(number + 1)}>Next riddle</button>
        <label class="inline">Number <select onChange=${(event) => pick(Number(event.currentTarget.value))}>${posed.map((_, index) => html`<option value=${index} selected=${index === number}>${index + 1}</option>`)}</select></label></div></form>
    <div aria-live="polite">${guessed.value && !isTold.value && html`<p class="not">It is not that one. Look again.</p>`}${isTold.value && html`<p class="result">${isRight ? "✓ Right." : guessed.value ? "Not what you guessed:" : "It was this:"}</p><${Told} answer=${answers[actual]} />`}</div></section>`;
}

export function Quiz() {
  const { quiz, switches = {} } = scenario.value;
  if (!switches[quiz?.switch]) return null;
  const actual = choices.value[quiz.switch];
  return html`<${Riddle} key=${actual} quiz=${quiz} posed=${Object.keys(switches[quiz.switch])} actual=${actual} />`;
}

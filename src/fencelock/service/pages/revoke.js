// Taking a lock from its holder: says who loses it and what that does not stop, and wants the name typed.
import { html, signal, useEffect, useRef, useSignal } from "ui";
import { call } from "./api.js";
import { heldAs, shown, who, words } from "./format.js";
import { locks, version } from "./store.js";

const asked = signal(null);
const focused = (element) => element?.focus();

export const askToRevoke = (name) => { asked.value = name; };

function Dialog({ name }) {
  const box = useRef(null), typed = useSignal(""), reason = useSignal(""), state = useSignal({ step: "ask" });
  useEffect(() => {
    box.current.showModal();
    box.current.querySelector("input").focus();
  }, []);
  version.value;
  const held = [...locks.values()].filter((row) => row.name === name);
  const ready = typed.value === name && reason.value.trim() && state.value.step === "ask";
  const close = () => { asked.value = null; };
  const revoke = async (event) => {
    event.preventDefault();
    if (!ready) return;
    state.value = { step: "sent" };
    try {
      const { revoked, holder } = await call("revoke", { name, reason: reason.value.trim() });
      state.value = { step: "done", revoked, holder };
    } catch (error) {
      state.value = { step: "ask", error: error.problem?.detail ?? "No answer: it may have been revoked. Look again before you repeat it." };
    }
  };
  const { step, error, revoked, holder } = state.value;
  return html`<dialog ref=${box} aria-labelledby="revoke-title" onClose=${close} class="revoke">
    <h2 id="revoke-title">Revoke <span class="mono">${shown(name)}</span></h2>
    ${step === "done" ? html`<p role="status">${revoked ? html`Revoked${holder ? html`: <span class="mono">${who(holder.meta)}</span> lost fence <span class="mono">${holder.fence}</span>` : ""}. The next holder has a higher fence.` : "Nobody held it any more: nothing was revoked."}</p>
      <div class="actions"><button class="primary" ref=${focused} onClick=${() => box.current.close()}>Close</button></div>`
    : html`<form onSubmit=${revoke}>
      ${held.length ? html`<p>Who loses it:</p><ul class="losers">${held.map((row) => html`<li key=${row.key}><span class="mono">${who(row.meta)}</span> <span class="tag">${heldAs(row)}</span> fence <span class="mono">${row.fence}</span> <span class="quiet">${words(row.meta)}</span></li>`)}</ul>` : html`<p>Nobody holds it at the moment.</p>`}
      <p class="warning"><strong>This does not stop the holder.</strong> It reads the reason at its next renewal; what it has under way goes on until then. Only a guard at the resource, which refuses its old fence, stops that.</p>
      <label>Reason, which the holder and the audit are told<input type="text" required maxlength="500" value=${reason.value} onInput=${(event) => { reason.value = event.currentTarget.value; }} /></label>
      <label>Type the name to confirm<input type="text" class="mono" required autocomplete="off" spellcheck="false" value=${typed.value} onInput=${(event) => { typed.value = event.currentTarget.value; }} /></label>
      ${error && html`<p role="alert" class="error">${shown(error)}</p>`}
      <div class="actions"><button type="button" onClick=${() => box.current.close()}>Cancel</button><button type="submit" class="danger" disabled=${!ready}>${step === "sent" ? "Revoking…" : "Revoke"}</button></div>
    </form>`}
  </dialog>`;
}

export const Revoke = () => asked.value !== null && html`<${Dialog} key=${asked.value} name=${asked.value} />`;

// Plays universes. This player asks the server that serves the page.
async function call(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let reply, answer;
  try {
    reply = await fetch(path, options);
    answer = await reply.json();
  } catch {
    throw new Error("The lab does not answer: is `fencelock lab` still running?");
  }
  if (!reply.ok) throw new Error(answer.error);
  return answer;
}

// A universe is {name, document, choices, edits}: a scenario, how its switches stand, and what was changed in it.
// Edits are {} or {faults: [all of them], scripts: {actor: [its whole script]}}. The trace has the document that was played.
export const scenarios = () => call("scenarios");
export const play = ({ document, choices, edits }) => call("play", { document, switches: choices, edits });
export const isLive = true;

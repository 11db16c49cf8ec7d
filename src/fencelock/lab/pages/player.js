// Documents and their traces: what is asked of the server, which plays them.
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

export const scenarios = () => call("scenarios");
export const play = (document, switches, faults) => call("play", { document, switches, faults });

// Plays that were recorded: the data of a page of one file, or a file of the documentation site.

// Whether two values of JSON are equal; the order of names in an object does not count.
function equal(one, other) {
  if (typeof one !== "object" || typeof other !== "object" || !one || !other) return one === other;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => equal(one[name], other[name]));
}

// JSON out of compressed bytes.
export async function unpacked(bytes) {
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(plain).text());
}

// The trace of a universe, if it is among the plays of a recording.
export function found({ document, plays }, universe) {
  const { choices, edits, variant = {} } = universe;
  if (!equal(universe.document, document)) return undefined;
  return plays.find((one) => equal(one.choices, choices) && equal(one.edits, edits) && equal(one.variant, variant))?.trace;
}

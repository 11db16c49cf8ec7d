// A universe as the end of an address, and back. A link has the digest of the trace: whoever opens it sees whether it plays alike.
const VERSION = 1;
const BROKEN = "This link is broken: a part of it is missing, or was changed. Ask for it again; here is the scenario that the lab begins with.";

const isObject = (one) => typeof one === "object" && one !== null && !Array.isArray(one);

// A scenario of the package is named; a document of one's own goes with the link.
export function encoded({ name, own, document, choices, edits }, { digest, versions }, at, beside) {
  const file = name.replace(/^.*[\\/]/, ""); // its folders are nobody's business
  const link = { v: VERSION, name: file, ...(own ? { document } : {}), choices, edits, beside, at: Number(at.toFixed(3)), digest, version: versions.fencelock };
  const bytes = new TextEncoder().encode(JSON.stringify(link));
  const letters = Array.from(bytes, (one) => String.fromCharCode(one)).join("");
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function read(fragment) {
  try {
    const letters = atob(fragment.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new Error(BROKEN);
  }
}

// What a link says: its scenario, one of those that are known or a new one, and its universe.
export function decoded(fragment, known) {
  const link = read(fragment);
  if (!isObject(link)) throw new Error(BROKEN);
  if (link.v !== VERSION) throw new Error(`This link is of version ${link.v} of links, and this is version ${VERSION}: open it with the version of fencelock that made it.`);
  const { name, document, choices, edits, beside, at, digest, version } = link;
  const right = typeof name === "string" && [choices, edits].every(isObject) && Number.isFinite(at) && [beside, digest, version].every((one) => typeof one === "string");
  if (!right || (document !== undefined && !isObject(document))) throw new Error(BROKEN);
  const universe = { choices, edits, beside }, rest = { universe, at, digest, version };
  if (document === undefined) {
    const scenario = known.find((one) => one.name === name);
    if (!scenario) throw new Error(`This link is about the scenario ${name}, which is not here.`);
    return { scenario, ...rest };
  }
  const same = known.find((one) => JSON.stringify(one.document) === JSON.stringify(document));
  let free = name;
  while (known.some((one) => one.name === free)) free += "'";
  return { scenario: same ?? { name: free, own: true, document }, ...rest };
}

/**
 * Throws a TypeError for a member that is none of these names; it names the one that was perhaps
 * meant. What is misspelt would be ignored otherwise: an expiry, for example, or a passport's
 * scopes.
 */
export function onlyKnown(what: string, given: object, names: readonly string[]): void {
  for (const name of Object.keys(given)) {
    if (names.includes(name)) continue;
    const near = names.map((known) => ({ known, edits: distance(plain(name), plain(known)) })).sort((a, b) => a.edits - b.edits)[0];
    const meant = near && near.edits < FAR ? near.known : "";
    throw new TypeError(`${what} has no argument ${name}; ${meant ? `did you mean ${meant}?` : `it has ${names.join(", ") || "none"}`}`);
  }
}

const plain = (name: string) => name.replace(/[_-]/g, "").toLowerCase();

const FAR = 3;

// How many edits lie between two names, for as many as a slip takes; none where one begins as the
// other.
function distance(a: string, b: string): number {
  if (Math.min(a.length, b.length) >= 3 && (a.startsWith(b) || b.startsWith(a))) return 0;
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return Math.min(row[b.length]!, FAR);
}

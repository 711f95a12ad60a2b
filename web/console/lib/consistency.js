// @ts-check
// Whether one tree is the beginning of another: the proof of RFC 9162 §2.1.4.2, for any hash of two
// nodes.

/**
 * Whether a proof leads from the root of the first from leaves to that of the first to; join makes
 * the hash of a node from those of its two.
 * @param {{from: number, to: number, fromRoot: string, toRoot: string, proof: string[]}} growth
 * @param {(left: string, right: string) => Promise<string>} join
 */
export async function grows({ from, to, fromRoot, toRoot, proof }, join) {
  if (from > to) return false;
  if (from === to) return fromRoot === toRoot && proof.length === 0;
  if (from === 0) return proof.length === 0; // everything begins with nothing
  // The walk begins at the largest perfect subtree that ends where the older tree ends, which is
  // that tree where it is perfect itself.
  let [fn, sn] = [BigInt(from) - 1n, BigInt(to) - 1n];
  while (fn & 1n) [fn, sn] = [fn >> 1n, sn >> 1n];
  const rest = proof.slice();
  let older = fn > 0n ? rest.shift() : fromRoot;
  if (older === undefined) return false;
  let newer = older;
  for (const hash of rest) {
    if (sn === 0n) return false;
    if (fn & 1n || fn === sn) {
      older = await join(hash, older);
      newer = await join(hash, newer);
      while (!(fn & 1n) && fn !== 0n) [fn, sn] = [fn >> 1n, sn >> 1n];
    } else newer = await join(newer, hash);
    [fn, sn] = [fn >> 1n, sn >> 1n];
  }
  return sn === 0n && older === fromRoot && newer === toRoot;
}

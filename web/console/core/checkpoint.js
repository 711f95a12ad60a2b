// @ts-check
// Checkpoints that a company has signed.
import { FormError } from '../lib/form.js';
import { LOG, must, noteKey, readCheckpoint, signedBy } from '../lib/note.js';

/**
 * Reads a signed checkpoint of a log, which a key of the company must have signed: {size, root,
 * text, lines, signed, signer}. The line of the signer is the first of lines.
 * @param {string} signed
 * @param {string} origin
 * @param {CompanyKey} key
 */
export async function openCheckpoint(signed, origin, key) {
  const { lines, ...checkpoint } = readCheckpoint(signed);
  must(checkpoint.origin === origin, `it is of another log, ${checkpoint.origin}`);
  for (const signer of (key.ring ?? [key]).toReversed()) {
    const named = await noteKey(origin, LOG, signer.raw);
    for (const own of lines)
      if (await signedBy(own, checkpoint.text, named))
        return { ...checkpoint, lines: [own, ...lines.filter((line) => line !== own)], signed, signer };
  }
  throw new FormError('no key of the company has signed it');
}

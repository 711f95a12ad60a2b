// @ts-check
// What a file may weigh and how deep it may nest, found before it is parsed: package evidence is
// its specification.
import { FormError } from '../form.js';

const HEAVIEST = 9_000_000;
const DEEPEST = 160;
/** @type {Map<number, number>} */
const WEIGHTS = new Map([
  [0x7b, 2], // {
  [0x5b, 2], // [
  [0x3a, 4], // :
  [0x2c, 4], // ,
  [0x22, 2], // "
]);
const [QUOTE, BACKSLASH] = [0x22, 0x5c];

/**
 * Throws where a JSON text is too heavy or too deep. Of a text that is not valid it may say either.
 * @param {string} text
 */
export function bounded(text) {
  let weight = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const c = text.charCodeAt(at);
    weight += WEIGHTS.get(c) ?? 0;
    const bracket = c | 0x20; // [ and { differ in this bit alone, and so do ] and }
    if (bracket === 0x7b) depth++;
    else if (bracket === 0x7d) depth--;
    else if (c === QUOTE) {
      for (at++; at < text.length && text.charCodeAt(at) !== QUOTE && weight <= HEAVIEST; at++) {
        if (text.charCodeAt(at) !== BACKSLASH) continue;
        weight += 4;
        at++;
      }
    }
    if (weight > HEAVIEST) throw new FormError(`it weighs more than ${HEAVIEST}`);
    if (depth < 0 || depth > DEEPEST) throw new FormError(`it nests deeper than ${DEEPEST}`);
  }
}

// @ts-check
// Whether the pages of a search are all that there is: each says which indexes of the log it has
// decided, and those of all pages must be the whole log, as far as no time bounds them, and the log
// no shorter than it is known to be. What is left out between is not seen by this.
import { having, integer } from '../lib/form.js';
import { mustFit } from './asked.js';

/** What a page says of itself, apart from its records. */
export const PAGE_SAYS = { size: integer, read: having({ from: integer, to: integer }) };

/** @param {number} n */
const records = (n) => `${n} ${n === 1 ? 'record' : 'records'}`;

/**
 * Throws where a log is shorter than it is proven to be.
 * @param {number} size
 * @param {number} proven
 */
export const mustReach = (size, proven) =>
  mustFit(
    size >= proven,
    `the log is said to have ${records(size)}, and a checkpoint that the company signed, or what was checked here, ` +
      `has ${proven}`,
  );

/**
 * Throws where a page, {size, read, next}, does not go on from the one before it (null for the
 * first), or is the last and ends before the log does. order, since and until are of the search,
 * and proven is how many records the log had before it was asked for.
 * @param {{size: number, read: {from: number, to: number}, next: string}} page
 * @param {{size: number, read: {from: number, to: number}} | null} before
 * @param {{order?: string, since?: string, until?: string, proven: number}} search
 */
export function mustGoOn({ size, read: { from, to }, next }, before, { order, since, until, proven }) {
  const newest = order !== 'oldest';
  const [start, end] = newest ? [to, from] : [from, to];
  const [first, last] = newest ? [until ? start : size, since ? end : 0] : [since ? start : 0, until ? end : size];
  const due = before ? before.read[newest ? 'from' : 'to'] : first;
  mustReach(size, before ? 0 : proven);
  mustFit(
    from <= to && to <= size && (!before || before.size === size),
    `it has read the records from ${from} to ${to} of ${size}`,
  );
  mustFit(start === due, `it goes on at record ${start}, and record ${due} was due: records were left out`);
  mustFit(next || end === last, `it ends at record ${end}, and the log goes on to ${last}: records were left out`);
}

/**
 * Throws where records of a page do not come in their order, each once, from the part of the log
 * that it has read.
 * @param {{index: number}[]} found
 * @param {{read: {from: number, to: number}}} page
 * @param {{order?: string}} search
 */
export function mustBeInOrder(found, { read: { from, to } }, { order }) {
  const newest = order !== 'oldest';
  found.forEach(({ index }, i) => {
    mustFit(from <= index && index < to, `record ${index} is not of those that it has read`);
    mustFit(
      i === 0 || (newest ? index < found[i - 1].index : index > found[i - 1].index),
      `record ${index} comes after record ${found[i - 1]?.index}`,
    );
  });
}

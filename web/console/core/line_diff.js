// @ts-check
// How a text became another one, line by line.

const CELLS = 250_000; // of the table that a comparison may fill

/**
 * The lines of two texts: [' ', line] of both, ['-', line] of the one before alone, ['+', line] of
 * the one after alone. What differs in more lines than can be compared is all of the one before
 * and then all of the other.
 * @param {string} before
 * @param {string} after
 * @returns {DiffLine[]}
 */
export function lineDiff(before, after) {
  const [a, b] = [linesOf(before), linesOf(after)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  return [
    ...marked(' ', a.slice(0, head)),
    ...changed(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...marked(' ', a.slice(a.length - tail)),
  ];
}

/** @param {string} text */
export const linesOf = (text) => (text ? text.replace(/\n$/, '').split('\n') : []);

/**
 * @param {DiffLine[0]} sign
 * @param {string[]} lines
 * @returns {DiffLine[]}
 */
export const marked = (sign, lines) => lines.map((line) => [sign, line]);

/**
 * By the longest common subsequence of the lines.
 * @param {string[]} a
 * @param {string[]} b
 * @returns {DiffLine[]}
 */
function changed(a, b) {
  if (a.length * b.length > CELLS) return [...marked('-', a), ...marked('+', b)];
  const width = b.length + 1;
  const common = new Uint32Array((a.length + 1) * width); // of the lines from i and j on
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1] + 1
        : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
  /** @type {DiffLine[]} */
  const out = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push([' ', a[i++]]);
      j++;
    } else if (j === b.length || (i < a.length && common[(i + 1) * width + j] >= common[i * width + j + 1]))
      out.push(['-', a[i++]]);
    else out.push(['+', b[j++]]);
  }
  return out;
}

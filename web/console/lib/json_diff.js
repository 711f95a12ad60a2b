// @ts-check
// What is different in two JSON values that json.js has read.
import { canonical } from './jcs.js';

const NOTHING = { type: 'nothing' };

/** @param {any} value */
const membersOf = ({ node }) => new Map((node.members ?? []).map((/** @type {JSONMember} */ m) => [m.key, m.value]));

/**
 * @param {any} a
 * @param {any} b
 */
function same(a, b) {
  if (a.type !== b.type) return false;
  try {
    return canonical(a) === canonical(b);
  } catch { // what has no canonical form equals nothing
    return false;
  }
}

/** @param {any} value */
const sourceOf = ({ node, source }) => (node.type === 'nothing' ? undefined : source.slice(node.start, node.end));

/**
 * The members in which two values, {node, source} or null, differ: [{pointer, before, after}],
 * texts as they are spelled, or undefined where there is none. Objects are compared member by
 * member, everything else as one; nothing counts as an object without members.
 * @param {JSONText | null} before
 * @param {JSONText | null} after
 * @param {string} [pointer]
 * @returns {{pointer: string, before: string | undefined, after: string | undefined}[]}
 */
export function differences(before, after, pointer = '') {
  const [a, b] = [before ?? { node: NOTHING }, after ?? { node: NOTHING }];
  if (same(a.node, b.node)) return [];
  const whole = [{ pointer, before: sourceOf(a), after: sourceOf(b) }];
  const [old, now] = [membersOf(a), membersOf(b)];
  const parts = [a, b].every(({ node }) => node.type === 'object' || (node.type === 'nothing' && !pointer));
  if (!parts || (!old.size && !now.size)) return whole;
  return [...new Set([...old.keys(), ...now.keys()])].flatMap((key) => {
    /**
     * @param {any} of
     * @param {Map<any, any>} members
     */
    const part = (of, members) => (members.has(key) ? { node: members.get(key), source: of.source } : null);
    return differences(part(a, old), part(b, now), `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`);
  });
}

// @ts-check
// What is different in two JSON values that json.js has read.
import { canonical } from './jcs.js';

/** @typedef {{node: JSONNode | {type: 'nothing'}, source: string}} Compared */
/** @type {Compared} */
const NOTHING = { node: { type: 'nothing' }, source: '' };

/** @param {Compared} value */
const membersOf = ({ node }) =>
  new Map(node.type === 'object' ? node.members.map(({ key, value }) => [key, value]) : []);

/**
 * @param {Compared['node']} a
 * @param {Compared['node']} b
 */
function same(a, b) {
  if (a.type === 'nothing' || b.type === 'nothing') return a.type === b.type;
  if (a.type !== b.type) return false;
  try {
    return canonical(a) === canonical(b);
  } catch { // what has no canonical form equals nothing
    return false;
  }
}

/** @param {Compared} value */
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
  const [a, b] = [before ?? NOTHING, after ?? NOTHING];
  if (same(a.node, b.node)) return [];
  const whole = [{ pointer, before: sourceOf(a), after: sourceOf(b) }];
  const [old, now] = [membersOf(a), membersOf(b)];
  const parts = [a, b].every(({ node }) => node.type === 'object' || (node.type === 'nothing' && !pointer));
  if (!parts || (!old.size && !now.size)) return whole;
  return [...new Set([...old.keys(), ...now.keys()])].flatMap((key) => {
    /**
     * @param {Compared} of
     * @param {Map<string, JSONNode>} members
     */
    const part = ({ source }, members) => {
      const node = members.get(key);
      return node ? { node, source } : null;
    };
    return differences(part(a, old), part(b, now), `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`);
  });
}

// @ts-check
// The decision in a record of actions: by which policies the service allowed what was asked, denied
// it, or demanded an approval. Package decision is the specification.
import { exactly, FormError, integer, json, list, oneOf, onlyTrue, string, stringThat } from './form.js';

const DEEPEST = 64;

const given = stringThat((s) => s !== '', 'a text');
const strings = list(string);
const anyJSON = list(json);
/** @type {Form<string[]>} */
const some = (node, source, name) => {
  const all = strings(node, source, name);
  if (!all.length) throw new FormError(`${name} is empty`);
  return all;
};

/** @type {Form<unknown[]>} */
const someJSON = (node, source, name) => {
  const all = anyJSON(node, source, name);
  if (!all.length) throw new FormError(`${name} is empty`);
  return all;
};

const members = exactly(
  {
    verdict: oneOf('allow', 'deny', 'ask'),
    policies: string,
    revision: integer,
    by: strings,
    context: exactly({ door: string, time: string }, {
      delegation: some, details: someJSON, folder: given, groups: some, person: given, scopes: some, signed: onlyTrue,
    }),
  },
  { errors: some, code: given, passport: given, approval: given },
);

/**
 * How deep a value nests.
 * @param {JSONNode} node
 * @returns {number}
 */
function nesting(node) {
  const inside = node.type === 'object' ? node.members.map(({ value }) => value) : node.type === 'array' ? node.items
    : null;
  return inside ? 1 + inside.reduce((most, one) => Math.max(most, nesting(one)), 0) : 0;
}

/**
 * @param {JSONNode} node
 * @param {string} source
 * @param {string} name
 */
export function decisionForm(node, source, name) {
  const decision = members(node, source, name);
  if (nesting(node) > DEEPEST) throw new FormError(`${name} is nested too deep`);
  return decision;
}

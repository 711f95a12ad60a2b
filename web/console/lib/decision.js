// @ts-check
// The decision in a record of actions: by which policies the service allowed what was asked, denied
// it, or demanded an approval. Package decision is the specification.
import { exactly, integer, json, list, oneOf, onlyTrue, refuse, string, stringThat } from './form.js';

const given = stringThat((s) => s !== '', 'a text');
const strings = list(string);
const anyJSON = list(json);
/** @type {Form<string[]>} */
const some = (node, source, name) => {
  const all = strings(node, source, name);
  return all.length ? all : refuse(name, 'a list of some');
};

/** @type {Form<unknown[]>} */
const someJSON = (node, source, name) => {
  const all = anyJSON(node, source, name);
  return all.length ? all : refuse(name, 'a list of some');
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
  if (node.type !== 'object' && node.type !== 'array') return 0;
  const inside = node.type === 'array' ? node.items : node.members.map(({ value }) => value);
  return 1 + inside.reduce((most, one) => Math.max(most, nesting(one)), 0);
}

/**
 * @param {JSONNode} node
 * @param {string} source
 * @param {string} name
 */
export function decisionForm(node, source, name) {
  if (nesting(node) > 64) refuse(name, 'of 64 levels');
  return members(node, source, name);
}

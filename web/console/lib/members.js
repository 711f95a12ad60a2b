// @ts-check
// Conditions on members of a payload, as GET /v1/records takes them in payload: one to four parts
// with spaces between them, each a path, an equals sign and a scalar: tool=Bash, a.0."b c"=1.
import { canonical } from './jcs.js';
import { JSONError, parse } from './json.js';

const MOST = { bytes: 1024, parts: 4, names: 16 };

/** Why a text is no condition. */
export class MembersError extends Error {}

/**
 * @param {string} why
 * @returns {never}
 */
const refuse = (why) => {
  throw new MembersError(why);
};

/**
 * A scalar in canonical form, of a text that is one; throws a JSONError.
 * @param {string} text
 */
const scalar = (text) => canonical(parse(text, 0));

/**
 * A JSON string at the start of a text, or the text before the first character that ends a word.
 * @param {string} text
 * @param {RegExp} plain
 */
function cut(text, plain) {
  const quoted = text.startsWith('"');
  const [word] = (quoted ? /^"(?:[^"\\]|\\.)*"/s : plain).exec(text) ?? refuse('a string has no closing quote');
  let value = word;
  if (quoted) {
    try {
      const node = parse(word, 0);
      value = node.type === 'string' ? node.value : refuse('it is no string');
    } catch {
      refuse(`${word} is not a JSON string`);
    }
  } else if (/[\u0000-\u001f]/.test(word)) refuse('control characters must be written in JSON strings');
  return { quoted, value, rest: text.slice(word.length) };
}

/**
 * The parts of a condition, each with the names of its path and its value in canonical form.
 * @param {string} text
 * @returns {MemberPart[]}
 */
export function membersOf(text) {
  if (new TextEncoder().encode(text).length > MOST.bytes) refuse(`it must have at most ${MOST.bytes} bytes`);
  /** @type {MemberPart[]} */
  const parts = [];
  for (let rest = text.replace(/^ +| +$/g, ''); rest; rest = rest.replace(/^ +/, '')) {
    if (parts.length === MOST.parts) refuse(`it has more than ${MOST.parts} parts`);
    /** @type {string[]} */
    const path = [];
    for (let more = true; more; rest = rest.slice(1)) {
      if (path.length === MOST.names) refuse(`a path has more than ${MOST.names} names`);
      const name = cut(rest, /^[^.= "]*/);
      if (!name.value && !name.quoted) refuse('a name is missing: write it as in tool=Bash or input.command=ls');
      path.push(name.value);
      ({ rest } = name);
      more = rest.startsWith('.');
      if (!more && !rest.startsWith('=')) refuse('an equals sign and a value are missing, as in tool=Bash');
    }
    const word = cut(rest, /^[^ "]*/);
    ({ rest } = word);
    if (rest && !rest.startsWith(' ')) refuse('a value with a quote or a space must be a JSON string, as in x="a b"');
    parts.push({ path, value: word.quoted ? canonicalText(word.value) : bare(word.value) });
  }
  return parts.length ? parts : refuse('write it as in tool=Bash');
}

/** @param {string} value */
const canonicalText = (value) => canonical({ type: 'string', value, start: 0, end: 0 });

/** @param {string} word */
function bare(word) {
  if (!word) refuse('a value is missing; the empty text is ""');
  if (/^[{[]/.test(word)) refuse('a value must be a string, a number, true, false or null');
  try {
    return scalar(word);
  } catch (err) {
    const isNumber = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/.test(word);
    if (isNumber && err instanceof JSONError) refuse(err.reason);
    return canonicalText(word);
  }
}

/**
 * @param {JSONNode} node
 * @param {string} name
 * @returns {JSONNode | undefined}
 */
function step(node, name) {
  if (node.type === 'object') return node.members.find(({ key }) => key === name)?.value;
  return node.type === 'array' && /^(0|[1-9][0-9]{0,8})$/.test(name) ? node.items[Number(name)] : undefined;
}

/**
 * Whether a JSON value has all members of a condition.
 * @param {JSONNode} node
 * @param {MemberPart[]} parts
 */
export const hasMembers = (node, parts) =>
  parts.every(({ path, value }) => {
    /** @type {JSONNode | undefined} */
    let at = node;
    for (const name of path) at = at && step(at, name);
    return at !== undefined && at.type !== 'object' && at.type !== 'array' && canonical(at) === value;
  });

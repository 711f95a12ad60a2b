// @ts-check
// The one reader of what comes from outside: answers, stream messages, evidence files, tokens. A
// form is a function (node, source, name) that checks a node of json.js and gives strings, numbers
// and booleans, in objects made here of the members that were asked for. Nothing else may reach a
// template: Preact takes an object that looks like one of its own nodes for an element of the page.
import { isHash, unbase64url } from './bytes.js';
import { parse } from './json.js';

/** A value that has not the form it must have; the message names the place. */
export class FormError extends Error {}

function refuse(name, what) {
  throw new FormError(`${name} is not ${what}`);
}

/** Reads a JSON text whose one value has a form; name is what messages call it. */
export const read = (form, source, name) => form(parse(source), source, name);

export const string = (node, source, name) => (node.type === 'string' ? node.value : refuse(name, 'a string'));

/** A string of which something holds. */
export const stringThat = (holds, what) => (node, source, name) => {
  const s = string(node, source, name);
  return holds(s) ? s : refuse(name, what);
};

/** An integer from 0 to 2^53 - 1, spelled in digits alone: neither 1.0 nor 1e0. */
export function integer(node, source, name) {
  const value = node.type === 'number' && /^(0|[1-9][0-9]*)$/.test(node.lexeme) ? Number(node.lexeme) : NaN;
  return Number.isSafeInteger(value) ? value : refuse(name, 'an integer');
}

export const boolean = (node, source, name) =>
  node.type === 'true' || node.type === 'false' ? node.type === 'true' : refuse(name, 'true or false');

export const hash = stringThat(isHash, 'a SHA-256 in 64 lower-case hex digits');

/** UTC with milliseconds, as 2006-01-02T15:04:05.000Z, and a time that exists. */
export const timestamp = stringThat((s) => {
  if (!/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$/.test(s)) return false;
  const date = new Date(s);
  return !Number.isNaN(date.getTime()) && date.toISOString() === s; // 30 February would move on to March
}, 'a timestamp like 2006-01-02T15:04:05.000Z');

const bytes = (length) => (s) => {
  try {
    return unbase64url(s).length === length;
  } catch {
    return false;
  }
};

export const signature = stringThat(bytes(64), '64 bytes in base64url');
export const rawKey = stringThat(bytes(32), '32 bytes in base64url');

/** One of some strings or numbers. */
export const oneOf =
  (...values) =>
  (node, source, name) => {
    const value = node.type === 'number' ? integer(node, source, name) : string(node, source, name);
    return values.includes(value) ? value : refuse(name, values.join(' or '));
  };

export const nullable = (form) => (node, source, name) => (node.type === 'null' ? null : form(node, source, name));

export const list =
  (form, most = Infinity) =>
  (node, source, name) => {
    if (node.type !== 'array' || node.items.length > most)
      refuse(name, most === Infinity ? 'a list' : `a list of at most ${most}`);
    return node.items.map((item, i) => form(item, source, `${name}[${i}]`));
  };

/**
 * Any JSON value, kept as {node, source}: it is shown by JSONView, which takes pieces of the source
 * alone.
 */
export const json = (node, source) => ({ node, source });

/** As json, but of some types of json.js only. */
export const jsonOf =
  (...types) =>
  (node, source, name) =>
    types.includes(node.type) ? { node, source } : refuse(name, `of type ${types.join(' or ')}`);

const members =
  (strict) =>
  (required, optional = {}) =>
  (node, source, name) => {
    if (node.type !== 'object') refuse(name, 'an object');
    const out = {};
    const given = new Map(node.members.map((m) => [m.key, m.value]));
    for (const [forms, needed] of [
      [required, true],
      [optional, false],
    ]) {
      for (const key of Object.keys(forms)) {
        if (given.has(key)) out[key] = forms[key](given.get(key), source, `${name}.${key}`);
        else if (needed) throw new FormError(`${name} has no ${key}`);
        given.delete(key);
      }
    }
    if (strict)
      for (const key of given.keys())
        throw new FormError(`${name} has a member that does not belong to it: ${JSON.stringify(key)}`);
    return out;
  };

/**
 * An object of exactly these members: for all that is signed, where an unknown member would stand
 * there unchecked.
 */
export const exactly = members(true);

/** An object of at least these members. Others are left out of what is returned. */
export const having = members(false);

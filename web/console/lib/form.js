// @ts-check
// The one reader of what comes from outside: answers, stream messages, evidence files, tokens. A
// form is a function (node, source, name) that checks a node of json.js and gives strings, numbers
// and booleans, in objects made here of the members that were asked for. Nothing else may reach a
// template: Preact takes an object that looks like one of its own nodes for an element of the page.
import { isHash, unbase64url } from './bytes.js';
import { parse } from './json.js';

/** A value that has not the form it must have; the message names the place. */
export class FormError extends Error {}

/**
 * @param {string} name
 * @param {string} what
 * @returns {never}
 */
export function refuse(name, what) {
  throw new FormError(`${name} is not ${what}`);
}

/**
 * Reads a JSON text whose one value has a form; name is what messages call it.
 * @template T
 * @param {Form<T>} form
 * @param {string} source
 * @param {string} name
 * @returns {T}
 */
export const read = (form, source, name) => form(parse(source), source, name);

/** @type {Form<string>} */
export const string = (node, source, name) => (node.type === 'string' ? node.value : refuse(name, 'a string'));

/**
 * A string of which something holds.
 * @param {(s: string) => boolean} holds
 * @param {string} what
 * @returns {Form<string>}
 */
export const stringThat = (holds, what) => (node, source, name) => {
  const s = string(node, source, name);
  return holds(s) ? s : refuse(name, what);
};

/**
 * An integer from 0 to 2^53 - 1, spelled in digits alone: neither 1.0 nor 1e0.
 * @param {JSONNode} node
 * @param {string} source
 * @param {string} name
 * @returns {number}
 */
export function integer(node, source, name) {
  const value = node.type === 'number' && /^(0|[1-9][0-9]*)$/.test(node.lexeme) ? Number(node.lexeme) : NaN;
  return Number.isSafeInteger(value) ? value : refuse(name, 'an integer');
}

/** @type {Form<boolean>} */
export const boolean = (node, source, name) =>
  node.type === 'true' || node.type === 'false' ? node.type === 'true' : refuse(name, 'true or false');

/** @type {Form<true>} */
export const onlyTrue = (node, source, name) => node.type === 'true' || refuse(name, 'true');

/** @type {Form<false>} */
export const onlyFalse = (node, source, name) => (node.type === 'false' ? false : refuse(name, 'false'));

export const hash = stringThat(isHash, 'a SHA-256 in 64 lower-case hex digits');

/** UTC with milliseconds, as 2006-01-02T15:04:05.000Z, and a time that exists. */
export const timestamp = stringThat((s) => {
  if (!/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$/.test(s)) return false;
  const date = new Date(s);
  return !Number.isNaN(date.getTime()) && date.toISOString() === s; // 30 February would move on to March
}, 'a timestamp like 2006-01-02T15:04:05.000Z');

/** @type {(length: number) => (s: string) => boolean} */
const bytes = (length) => (s) => {
  try {
    return unbase64url(s).length === length;
  } catch {
    return false;
  }
};

export const signature = stringThat(bytes(64), '64 bytes in base64url');
export const rawKey = stringThat(bytes(32), '32 bytes in base64url');

/**
 * One of some strings or numbers.
 * @template {string | number} const V
 * @param {...V} values
 * @returns {Form<V>}
 */
export const oneOf =
  (...values) =>
  (node, source, name) => {
    const value = node.type === 'number' ? integer(node, source, name) : string(node, source, name);
    const found = values.find((one) => one === value);
    return found === undefined ? refuse(name, values.join(' or ')) : found;
  };

/**
 * @template T
 * @param {Form<T>} form
 * @returns {Form<T | null>}
 */
export const nullable = (form) => (node, source, name) => (node.type === 'null' ? null : form(node, source, name));

/**
 * @template T
 * @param {Form<T>} form
 * @param {number} [most]
 * @returns {Form<T[]>}
 */
export const list =
  (form, most = Infinity) =>
  (node, source, name) => {
    if (node.type !== 'array' || node.items.length > most)
      return refuse(name, most === Infinity ? 'a list' : `a list of at most ${most}`);
    return node.items.map((item, i) => form(item, source, `${name}[${i}]`));
  };

/**
 * A list of as many values as there are forms, each in its own: a pair is tuple(integer, integer).
 * @type {<F extends Form<any>[]>(...forms: F) => Form<{[I in keyof F]: ReturnType<F[I]>}>}
 */
export const tuple =
  (...forms) =>
  (node, source, name) => {
    if (node.type !== 'array' || node.items.length !== forms.length)
      return refuse(name, `a list of exactly ${forms.length}`);
    const { items } = node;
    return /** @type {any} */ (forms.map((form, i) => form(items[i], source, `${name}[${i}]`)));
  };

/**
 * Any JSON value, as {node, source}: JSONView shows it, and shows only pieces of the source.
 * @type {Form<JSONText>}
 */
export const json = (node, source) => ({ node, source });

/**
 * As json, but of some types of json.js only.
 * @template {JSONNode['type']} const K
 * @param {...K} types
 * @returns {Form<{node: Extract<JSONNode, {type: K}>, source: string}>}
 */
export const jsonOf =
  (...types) =>
  (node, source, name) =>
    types.some((type) => type === node.type)
      ? { node: /** @type {Extract<JSONNode, {type: K}>} */ (node), source }
      : refuse(name, `of type ${types.join(' or ')}`);

/**
 * @param {JSONNode} node
 * @param {string} source
 * @param {string} name
 * @param {Forms} required
 * @param {Forms} optional
 * @param {boolean} strict whether other members are refused
 * @returns {any}
 */
function members(node, source, name, required, optional, strict) {
  if (node.type !== 'object') refuse(name, 'an object');
  /** @type {Record<string, unknown>} */
  const out = {};
  const given = new Map(node.members.map((m) => [m.key, m.value]));
  for (const [forms, needed] of /** @type {[Forms, boolean][]} */ ([[required, true], [optional, false]])) {
    for (const [key, form] of Object.entries(forms)) {
      const value = given.get(key);
      if (value) out[key] = form(value, source, `${name}.${key}`);
      else if (needed) throw new FormError(`${name} has no ${key}`);
      given.delete(key);
    }
  }
  if (strict)
    for (const key of given.keys())
      throw new FormError(`${name} has a member that does not belong to it: ${JSON.stringify(key)}`);
  return out;
}

/**
 * An object of exactly these members: for all that is signed, where an unknown member would stand
 * there unchecked.
 * @template {Forms} R
 * @template {Forms} [O={}]
 * @param {R} required
 * @param {O} [optional]
 * @returns {Form<Expand<Read<R> & Partial<Read<O>>>>}
 */
export const exactly = (required, optional) => (node, source, name) =>
  members(node, source, name, required, optional ?? {}, true);

/**
 * An object of at least these members. Others are left out of what is returned.
 * @template {Forms} R
 * @template {Forms} [O={}]
 * @param {R} required
 * @param {O} [optional]
 * @returns {Form<Expand<Read<R> & Partial<Read<O>>>>}
 */
export const having = (required, optional) => (node, source, name) =>
  members(node, source, name, required, optional ?? {}, false);

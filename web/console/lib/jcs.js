// @ts-check
// JSON Canonicalization Scheme, RFC 8785, over the nodes of json.js.
import { concat, utf8 } from './bytes.js';
import { JSONError, parse } from './json.js';

const LONG = 1 << 16; // of a string
const AT_ONCE = 1 << 10; // parts that are encoded together

/**
 * The canonical form of a JSON text; throws a JSONError for what that form cannot carry without
 * loss: syntax errors, duplicate keys, lone surrogates, and numbers that are not the double they
 * would become.
 * @param {string} source
 * @param {number} [maxDepth]
 */
export const canonicalize = (source, maxDepth) => canonical(parse(source, maxDepth));

/**
 * The canonical form of a node of json.js.
 * @param {JSONNode} node
 */
export function canonical(node) {
  /** @type {string[]} */
  const out = [];
  write(node, out, '');
  return out.join('');
}

/**
 * The UTF-8 bytes of the canonical form of a node, between two texts.
 * @param {string} before
 * @param {JSONNode} node
 * @param {string} after
 */
export function canonicalBytes(before, node, after) {
  /** @type {Bytes[]} */
  const chunks = [];
  let some = [before];
  const flush = () => {
    chunks.push(utf8(some.join('')));
    some = [];
  };
  write(node, {
    push(...parts) {
      some.push(...parts);
      if (some.length > AT_ONCE || parts.some(({ length }) => length > AT_ONCE)) flush();
    },
  }, '');
  some.push(after);
  flush();
  return concat(...chunks);
}

/**
 * Throws for what the canonical form cannot carry without loss, as canonicalize does.
 * @param {JSONNode} node
 */
export function lossless(node) {
  write(node, { push() {} }, '');
}

/**
 * @param {JSONNode} node
 * @param {{push(...parts: string[]): unknown}} out
 * @param {string} pointer
 */
function write(node, out, pointer) {
  switch (node.type) {
    case 'object': {
      // RFC 8785 §3.2.3 sorts by UTF-16 code units, which is how JavaScript compares strings.
      const members = node.members.toSorted((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
      out.push('{');
      members.forEach((m, i) => {
        if (i) out.push(',');
        out.push(JSON.stringify(m.key), ':');
        write(m.value, out, pointer + '/' + m.key.replace(/~/g, '~0').replace(/\//g, '~1'));
      });
      out.push('}');
      return;
    }
    case 'array':
      out.push('[');
      node.items.forEach((item, i) => {
        if (i) out.push(',');
        write(item, out, `${pointer}/${i}`);
      });
      out.push(']');
      return;
    case 'string':
      // RFC 8785 §3.2.2.2 is ECMAScript's own rule.
      if (node.value.length > LONG) writeLong(node.value, out);
      else out.push(JSON.stringify(node.value));
      return;
    case 'number':
      out.push(number(node.lexeme, pointer));
      return;
    default:
      out.push(node.type);
  }
}

/**
 * A long string in parts, of which none is a large copy and none ends within a character.
 * @param {string} value
 * @param {{push(...parts: string[]): unknown}} out
 */
function writeLong(value, out) {
  out.push('"');
  for (let at = 0, end; at < value.length; at = end) {
    end = Math.min(value.length, at + LONG);
    if (end < value.length && /[\ud800-\udbff]/.test(value[end - 1])) end--;
    out.push(JSON.stringify(value.slice(at, end)).slice(1, -1));
  }
  out.push('"');
}

/**
 * The ECMAScript spelling of a number whose decimal value that spelling keeps.
 * @param {string} lexeme
 * @param {string} pointer
 */
function number(lexeme, pointer) {
  const value = Number(lexeme);
  if (!Number.isFinite(value)) throw new JSONError(pointer, 'number is too large for a double');
  const spelled = String(value); // -0 becomes 0, RFC 8785 §3.2.2.3
  if (spelled !== lexeme && decimal(spelled) !== decimal(lexeme)) {
    throw new JSONError(pointer, 'number has another value in its canonical form, that of a double');
  }
  return spelled;
}

/**
 * A spelling of the exact decimal value that equal values share: sign, digits without outer zeros,
 * exponent.
 * @param {string} lexeme
 */
function decimal(lexeme) {
  const parts = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/.exec(lexeme);
  const [, sign, whole, fraction = '', exponent = '0'] = parts ?? ['', '', lexeme];
  const all = whole + fraction;
  const digits = all.replace(/^0+/, '').replace(/0+$/, '');
  if (digits === '') return '0';
  const trailing = all.length - all.replace(/0+$/, '').length;
  return `${sign}${digits}e${BigInt(exponent) - BigInt(fraction.length) + BigInt(trailing)}`;
}

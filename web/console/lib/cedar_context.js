// @ts-check
// The arguments of a call as policies see them: service/decide of the server says how, and is the
// same. Values are {long: '1'}, {decimal: '1.5'}, {string}, {bool}, {set: […]} and {record: Map}.

import { parse } from './json.js';

const MOST = 64 << 10; // bytes of arguments, and of all pointers
const DEEPEST = 64;
const ELEMENTS = 200; // of an array
const DROPPED = 500; // pointers
const NUMBER = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?$/;

/** The arguments as a whole cannot be carried. */
class Whole extends Error {}

/** @param {string} text */
const size = (text) => new TextEncoder().encode(text).length;

/**
 * @typedef {{long: string} | {decimal: string} | {string: string} | {bool: boolean}
 *   | {set: CedarValue[]} | {record: Map<string, CedarValue>}} CedarValue
 */

/**
 * The record that policies see as context.arguments, and the JSON Pointers of what it leaves out.
 * @param {string} source
 * @returns {{value: {record: Map<string, CedarValue>}, dropped: string[]}}
 */
export function cedarArguments(source) {
  const none = () => ({ record: new Map() });
  try {
    if (source === '') return { value: none(), dropped: [] };
    if (size(source) > MOST) throw new Whole();
    const node = parse(source, DEEPEST);
    if (node.type === 'null') return { value: none(), dropped: [] };
    if (node.type !== 'object') throw new Whole();
    const mapper = new Mapper();
    return { value: mapper.object(node, ''), dropped: mapper.dropped };
  } catch {
    return { value: none(), dropped: [''] };
  }
}

class Mapper {
  constructor() {
    /** @type {string[]} */
    this.dropped = [];
    this.size = 0;
  }

  /** @param {string} at */
  drop(at) {
    this.size += size(at);
    if (this.dropped.length === DROPPED || this.size > MOST) throw new Whole();
    this.dropped.push(at);
  }

  /**
   * Undefined where there is nothing to put into the record.
   * @param {JSONNode} node
   * @param {string} at
   * @returns {CedarValue | undefined}
   */
  value(node, at) {
    switch (node.type) {
      case 'string': return { string: node.value };
      case 'true': return { bool: true };
      case 'false': return { bool: false };
      case 'object': return this.object(node, at);
      case 'array': return this.array(node, at);
      case 'number': {
        const carried = number(node.lexeme);
        if (!carried) this.drop(at);
        return carried;
      }
    }
    return undefined;
  }

  /**
   * @param {Extract<JSONNode, {type: 'object'}>} node
   * @param {string} at
   */
  object(node, at) {
    /** @type {Map<string, CedarValue>} */
    const record = new Map();
    for (const { key, value } of node.members) {
      const place = `${at}/${key.replace(/~/g, '~0').replace(/\//g, '~1')}`;
      if (key.startsWith('__')) {
        this.drop(place);
        continue;
      }
      const carried = this.value(value, place);
      if (carried) record.set(key, carried);
    }
    return { record };
  }

  /**
   * @param {Extract<JSONNode, {type: 'array'}>} node
   * @param {string} at
   */
  array(node, at) {
    const set = [];
    const before = this.dropped.length;
    const sizeBefore = this.size;
    for (const [i, item] of node.items.slice(0, ELEMENTS).entries()) {
      const carried = this.value(item, `${at}/${i}`);
      if (item.type === 'null') this.drop(`${at}/${i}`);
      if (carried) set.push(carried);
    }
    if (node.items.length <= ELEMENTS) return { set };
    this.dropped.length = before;
    this.size = sizeBefore;
    this.drop(at);
    return undefined;
  }
}

/**
 * A number exactly, or undefined.
 * @param {string} lexeme
 * @returns {{long: string} | {decimal: string} | undefined}
 */
function number(lexeme) {
  const [, sign, whole, fraction = '', exponentSign = '', exponentText = ''] =
    /** @type {RegExpExecArray} */ (NUMBER.exec(lexeme));
  const digits = (whole + fraction).replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return { long: '0' };
  const exponentDigits = exponentText.replace(/^0+/, '');
  if (exponentDigits.length > 6) return undefined;
  let exponent = (exponentSign === '-' ? -1 : 1) * Number(exponentDigits)
    + digits.length - significant.length - fraction.length;
  const isLong = exponent >= 0;
  if (!isLong) exponent += 4;
  if (exponent < 0 || significant.length + exponent > 19) return undefined;
  const n = BigInt(sign + significant + '0'.repeat(exponent));
  if (BigInt.asIntN(64, n) !== n) return undefined;
  if (isLong) return { long: String(n) };
  const text = String(n).replace('-', '').padStart(5, '0');
  return { decimal: `${sign}${text.slice(0, -4)}.${text.slice(-4).replace(/0+$/, '')}` };
}

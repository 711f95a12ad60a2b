// @ts-check
// Authorization details (RFC 9396) of passports and tokens: with which arguments tools may be
// called. The reference says what they mean, and crypto/cred/details/cases.json what each reader
// decides.
import { parse } from './json.js';
import { table } from './table.js';

const MAX_SIZE = 8 << 10;
const MAX_DEPTH = 160;
const MAX_POWER = 1_000_000;
const TOOL = /^(\*|[!-)+-~]{1,128})$/;
const POINTER = /^(\/([^~/]|~[01])*)*$/;
const SCHEME = /^[A-Za-z][A-Za-z0-9+.-]*:\/\//;
const ODD = /[\\\u0000-\u001f\u007f-\u009f]|%(2e|2f|5c|25|7f|[01][0-9a-f])/i;
const SCALARS = ['string', 'number', 'true', 'false', 'null'];

/** @typedef {{negative: boolean, digits: string, exponent: number}} Numeral */

/**
 * The exact value of a number, ±0.digits × 10^exponent; digits is '' for zero. Null where the power
 * of ten is beyond bounds.
 * @param {string} lexeme
 * @returns {Numeral | null}
 */
function numeral(lexeme) {
  const [mantissa, power = '0'] = lexeme.toLowerCase().split('e');
  const [whole, fraction = ''] = mantissa.replace('-', '').split('.');
  const digits = (whole + fraction).replace(/^0+/, '');
  if (!digits) return { negative: false, digits, exponent: 0 };
  const exponent = Number(power);
  if (Math.abs(exponent) > MAX_POWER) return null;
  return {
    negative: mantissa.startsWith('-'),
    digits: digits.replace(/0+$/, ''),
    exponent: exponent + digits.length - fraction.length,
  };
}

/** @param {Numeral} n */
const sign = (n) => (n.digits ? (n.negative ? -1 : 1) : 0);

/**
 * Negative, zero or positive, as a is less than b, equal or more; NaN where they are not numbers.
 * @param {JSONNode} a
 * @param {JSONNode} b
 */
function compare(a, b) {
  const x = a.type === 'number' ? numeral(a.lexeme) : null;
  const y = b.type === 'number' ? numeral(b.lexeme) : null;
  if (!x || !y) return NaN;
  if (sign(x) !== sign(y) || !sign(x)) return sign(x) - sign(y);
  if (x.exponent !== y.exponent) return sign(x) * (x.exponent - y.exponent);
  return sign(x) * (x.digits < y.digits ? -1 : Number(x.digits > y.digits));
}

/**
 * @param {JSONNode} a
 * @param {JSONNode} b
 */
const equal = (a, b) =>
  a.type === 'string' && b.type === 'string' ? a.value === b.value
    : a.type === 'number' || b.type === 'number' ? compare(a, b) === 0
      : a.type === b.type && SCALARS.includes(a.type);

/**
 * Whether a path is read in one way alone.
 * @param {string} path
 */
function isClean(path) {
  const rest = path.replace(SCHEME, '');
  const segments = rest.split('/');
  return !ODD.test(rest) && segments.every((segment, i) =>
    segment === '' ? i === 0 || i === segments.length - 1 : !/^[. ]+$/.test(segment));
}

/** @param {JSONNode} node */
const isPrefix = (node) =>
  node.type === 'string' && node.value !== '' && isClean(node.value) &&
  (!SCHEME.test(node.value) || node.value.replace(SCHEME, '').includes('/'));

/** @param {unknown} holds */
function must(holds) {
  if (!holds) throw new Error('authorization details that are not understood');
}

/**
 * @param {JSONNode} node
 * @returns {JSONNode[]}
 */
const listOf = (node) => {
  must(node.type === 'array' && node.items.length);
  return node.type === 'array' ? node.items : [];
};

/**
 * @param {JSONNode} node
 * @returns {{key: string, value: JSONNode}[]}
 */
const membersOf = (node) => {
  must(node.type === 'object' && node.members.length);
  return node.type === 'object' ? node.members : [];
};

/** @param {JSONNode} node */
const isScalar = (node) => SCALARS.includes(node.type) && (node.type !== 'number' || numeral(node.lexeme));

/** @type {Record<string, (node: JSONNode) => unknown>} */
const OPERATORS = table({
  equals: isScalar,
  in: (node) => listOf(node).every(isScalar),
  prefix: isPrefix,
  max: (node) => node.type === 'number',
  min: (node) => node.type === 'number',
  absent: (node) => node.type === 'true',
});

/**
 * @param {JSONNode} node
 * @returns {DetailTest[]}
 */
function testsOf(node) {
  const tests = membersOf(node).map(({ key: operator, value }) => {
    must(OPERATORS[operator]?.(value));
    return { operator, values: operator === 'in' ? listOf(value) : [value] };
  });
  must(tests.length === 1 || !tests.some(({ operator }) => operator === 'absent'));
  return tests;
}

/**
 * @param {JSONNode} node
 * @returns {DetailEntry}
 */
function entryOf(node) {
  const members = new Map(membersOf(node).map(({ key, value }) => [key, value]));
  must([...members.keys()].every((key) => ['type', 'tools', 'arguments'].includes(key)));
  const type = members.get('type');
  must(type?.type === 'string' && type.value === 'tool_call' && members.has('tools'));
  const tools = listOf(/** @type {JSONNode} */ (members.get('tools'))).map((tool) => {
    must(tool.type === 'string' && TOOL.test(tool.value));
    return tool.type === 'string' ? tool.value : '';
  });
  const given = members.get('arguments');
  return { tools, tests: given ? membersOf(given).map(({ key, value }) => {
    must(POINTER.test(key));
    return [key, testsOf(value)];
  }) : null };
}

/**
 * Reads the details in a node of a parsed text. Throws an Error where they are not understood: a
 * right with a limit that is not understood must not count as one without.
 * @param {JSONNode} node
 * @param {string} source
 * @returns {DetailEntry[]}
 */
export function readDetails(node, source) {
  must(new TextEncoder().encode(source.slice(node.start, node.end)).length <= MAX_SIZE);
  must(numbersOf(node).every((lexeme) => {
    const [spelled, kept] = [numeral(lexeme), numeral(String(Number(lexeme)))];
    return Number.isFinite(Number(lexeme)) && spelled && kept && JSON.stringify(spelled) === JSON.stringify(kept);
  }));
  return listOf(node).map(entryOf);
}

/**
 * @param {JSONNode} node
 * @returns {string[]}
 */
const numbersOf = (node) =>
  node.type === 'number' ? [node.lexeme]
    : node.type === 'array' ? node.items.flatMap(numbersOf)
      : node.type === 'object' ? node.members.flatMap(({ value }) => numbersOf(value)) : [];

/**
 * The node at a JSON Pointer, or undefined.
 * @param {JSONNode} node
 * @param {string} pointer
 */
function find(node, pointer) {
  /** @type {JSONNode | undefined} */
  let at = node;
  for (const token of pointer.split('/').slice(1)) {
    const name = token.replaceAll('~1', '/').replaceAll('~0', '~');
    at = at?.type === 'object' ? at.members.find(({ key }) => key === name)?.value
      : at?.type === 'array' && /^(0|[1-9][0-9]*)$/.test(name) ? at.items[Number(name)] : undefined;
  }
  return at;
}

/**
 * @param {DetailTest} test
 * @param {JSONNode | undefined} node
 */
function holds({ operator, values }, node) {
  const [want] = values;
  switch (node && operator) {
    case undefined: return operator === 'absent';
    case 'equals':
    case 'in': return values.some((value) => equal(value, /** @type {JSONNode} */ (node)));
    case 'prefix':
      return node?.type === 'string' && want.type === 'string' && node.value.startsWith(want.value) &&
        isClean(node.value);
    case 'max': return compare(/** @type {JSONNode} */ (node), want) <= 0;
    case 'min': return compare(/** @type {JSONNode} */ (node), want) >= 0;
  }
  return false;
}

/**
 * Whether an entry covers a call of a tool. args are its arguments, a JSON text; undefined where
 * they are not known, and then only entries without arguments cover it.
 * @param {DetailEntry[]} entries
 * @param {string} tool
 * @param {string} [args]
 */
export function covers(entries, tool, args) {
  const named = tool === '' ? [] : entries.filter(({ tools }) => tools.includes(tool) || tools.includes('*'));
  if (named.some(({ tests }) => !tests)) return true;
  if (args === undefined || !named.length) return false;
  let node;
  try {
    node = parse(args, MAX_DEPTH);
  } catch {
    return false;
  }
  return named.some(({ tests }) =>
    tests?.every(([pointer, list]) => list.every((test) => holds(test, find(node, pointer)))));
}

// @ts-check
// What a file of attestd is, by how it begins, and who checks it: package filekind is the reference
// of it. A file of another kind than a page reads may be as genuine as any: it gets no verdict.
import { bounded } from './evidence/bounds.js';
import { text as utf8Text } from './bytes.js';
import { lossless } from './jcs.js';
import { member, parse, textIn } from './json.js';
import { table } from './table.js';

/** @type {Record<FileKind, [string, string]>} */
const KINDS = table({
  evidence: ['evidence of a record',
    'attestd check, check.py, check.mjs, verifier.html and the page Proof of the console check it'],
  session: ['the file of a session', 'attestd check, check.py, check.mjs and verifier.html check it'],
  report: ['a report', 'attestd check, attestd report and the page Report of the console check it'],
  archive: ['an archive', 'attestd check checks it, by itself'],
  lines: ['a file of exported lines', 'attestd check --lines checks it'],
  proof: ['a proof', 'check.py and check.mjs check it, with a file of the company\'s keys after it'],
  record: ['a record', 'functions of check.py and check.mjs check it, with the company\'s keys; ' +
    'GET /v1/evidence/{index} is a file about it that attestd check reads'],
  status: ['the status of a passport', 'functions of check.py and check.mjs check it, with the company\'s keys'],
  passport: ['an answer with a passport', 'functions of check.py and check.mjs check it, with the company\'s keys; ' +
    'the page Passports of the console checks the token in it'],
  token: ['a token', 'functions of check.py and check.mjs check a passport, with the company\'s keys, and the page ' +
    'Passports of the console'],
  keys: ['a file of a company\'s keys', 'check.py and check.mjs take it after a proof'],
  checkpoint: ['a checkpoint', 'the page Checkpoints of the console checks it; ' +
    'with GET /v1/log/{logId}/consistency, attestd check --newer compares it with an older file'],
  consistency: ['the proof that a log goes on', 'attestd check --newer takes it, with an older file'],
  'tlog-proof': ['a tlog-proof', 'tools of c2sp.org check it; ' +
    'GET /v1/evidence/{index} has it in a file that attestd check reads'],
  saved: ['evidence that an earlier console saved', 'the page Proof of the console checks it'],
});
const BEGIN = 8 << 20; // bytes of a file that count
const LONGEST_HEADER = 1024; // bytes before lines

/** @type {[FileKind, RegExp][]} */
const BY_FORM = [
  ['tlog-proof', /^c2sp\.org\/tlog-proof@v1\n/],
  ['consistency', /^old (0|[1-9][0-9]*)\n/],
  ['checkpoint', /^[^{\n]+\n(0|[1-9][0-9]*)\n[A-Za-z0-9+/]{43}=\n/],
];
const TOKEN = /^[ \t\r\n]*[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+[ \t\r\n]*$/;
/** @type {Map<string, FileKind>} */
const BY_FORMAT = new Map([
  ['attestd-evidence/v1', 'evidence'],
  ['attestd-session/v1', 'session'],
  ['attestd-report/v1', 'report'],
]);
/** @type {Map<string, FileKind>} */
const BY_TYPE = new Map([ // of lines
  ['archive', 'archive'],
  ['record', 'lines'],
  ['checkpoint', 'lines'],
  ['opening', 'lines'],
  ['keys', 'lines'],
]);
/** @type {[FileKind, string[]][]} */
const BY_MEMBERS = [
  ['proof', ['record', 'proof', 'root']],
  ['record', ['index', 'timestamp', 'payload', 'hash', 'signature']],
  ['status', ['jti', 'status', 'checkedAt', 'signature']],
  ['passport', ['passport', 'caPublicKey']],
  ['keys', ['keys', 'origin']],
  ['keys', ['keys', 'fingerprint']],
];

/**
 * What a file is; '' where it is of no kind.
 * @param {Bytes} bytes
 * @returns {FileKind | ''}
 */
export function kindOf(bytes) {
  const begin = bytes.subarray(0, BEGIN);
  const isWhole = bytes.length < BEGIN;
  const bytewise = new TextDecoder('latin1').decode(begin);
  for (const [kind, form] of BY_FORM) if (form.test(bytewise)) return kind;
  if (isWhole && TOKEN.test(bytewise)) return 'token';
  const end = begin.indexOf(0x0a);
  if (end < 0 && !isWhole) return '';
  const line = end < 0 ? begin : begin.subarray(0, end);
  const at = line.indexOf(0x7b);
  const kind = at >= 0 && at <= LONGEST_HEADER ? kindOfObject(line.subarray(at)) : '';
  if (kind && (at === 0 || kind === 'lines')) return kind;
  return isWhole && end >= 0 ? kindOfObject(begin) : '';
}

/**
 * @param {Bytes} bytes
 * @returns {FileKind | ''}
 */
function kindOfObject(bytes) {
  let node;
  try {
    const text = utf8Text(bytes);
    bounded(text);
    node = parse(text);
    lossless(node);
  } catch {
    return '';
  }
  const carried = member(member(node, 'unmapped'), 'attestd');
  if (member(node, 'class_uid') && kindOfFormat(carried) === 'lines') return 'lines';
  if (member(node, 'format')) return kindOfFormat(node);
  if (textIn(node, 'type') === 'attestd-evidence') return 'saved';
  return BY_MEMBERS.find(([, names]) => names.every((name) => member(node, name)))?.[0] ?? '';
}

/**
 * @param {JSONNode | undefined} node
 * @returns {FileKind | ''}
 */
function kindOfFormat(node) {
  const format = textIn(node, 'format');
  if (format === 'attestd-lines/v1') return BY_TYPE.get(textIn(node, 'type')) ?? '';
  return BY_FORMAT.get(format) ?? '';
}

/**
 * What a file of a kind is, and who checks it, in words.
 * @param {FileKind} kind
 */
export const kindIs = (kind) => KINDS[kind].join(': ');

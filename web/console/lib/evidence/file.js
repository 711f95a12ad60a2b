// @ts-check
// The form of an evidence file (attestd-evidence/v1), and nothing of what it says: package evidence
// is its specification.
import { text as utf8Text } from '../bytes.js';
import {
  FormError,
  exactly,
  hash,
  integer,
  json,
  jsonOf,
  list,
  oneOf,
  onlyTrue,
  rawKey,
  signature,
  string,
  stringThat,
  timestamp,
} from '../form.js';
import { lossless } from '../jcs.js';
import { member, parse } from '../json.js';
import { proofStep } from '../merkle.js';
import { bounded } from './bounds.js';

const LARGEST = 64 << 20; // bytes
const MOST = 10_000; // keys, entries

/**
 * @param {RegExp} pattern
 * @param {string} what
 */
const like = (pattern, what) => stringThat((s) => pattern.test(s), what);
const kid = like(/^[0-9a-f]{16}$/, 'a kid');
const logName = oneOf('actions', 'control');

const wholeRecord = exactly({ index: integer, timestamp, payload: json, hash, signature }, { delegation: json });
const prunedRecord = exactly(
  { index: integer, timestamp, payload: jsonOf('null'), pruned: onlyTrue, hash, signature },
  { delegation: json },
);

/**
 * Payload and delegation are read when the record is checked.
 * @type {Form<EvidenceRecord>}
 */
export const record = (node, source, name) => ({
  node,
  source,
  ...(member(node, 'pruned') ? prunedRecord : wholeRecord)(node, source, name),
});
const entries = list(exactly({ record, tlogProof: string }), MOST);
export const agentKey = exactly({ records: entries });
export const policies = exactly({ records: entries });
export const passports = exactly({ records: entries });

// What evidence files and reports have in common.
export const companyId = like(/^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$/, '1 to 128 of A-Z, a-z, 0-9, ., _ and -');
export const log = {
  log: logName,
  logId: like(/^[0-9a-f]{32}$/, '32 lower-case hex digits'),
  origin: string,
  keys: list(
    exactly(
      { kid, fromIndex: integer },
      { rotation: exactly({ statement: string, oldSignature: signature, newSignature: signature }) },
    ),
    MOST,
  ),
};
export const keys = list(
  exactly({
    kid,
    fingerprint: string,
    jwk: exactly({ kty: string, crv: string, x: rawKey, kid: string, alg: string, use: string }),
  }),
  MOST,
);
export const witnesses = list(string, 16);
export const notProven = list(string, MOST);

const form = exactly({
  format: oneOf('attestd-evidence/v1'),
  companyId,
  log: logName,
  record,
  hexProof: exactly({ proof: list(proofStep, 60), root: hash, size: integer }),
  tlogProof: string,
  logs: list(exactly(log), 2),
  keys,
  witnesses,
  notProven,
}, {
  delegation: json,
  agentKey,
  passport: exactly({ jti: like(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'a UUID'), records: entries }),
  /** @type {Form<EvidenceStatus>} */
  status: (node, source, name) => ({
    node,
    ...exactly(
      { jti: string, companyId: string, status: string, checkedAt: timestamp, caPublicKey: string, signature },
      { revokedAt: timestamp, reason: string },
    )(node, source, name),
  }),
  authority: exactly({ records: entries }),
  policies,
  passports,
});

/**
 * Reads the bytes of an evidence file. Throws an Error that says what is wrong with its form.
 * @param {Bytes} bytes
 */
export function readFile(bytes) {
  if (bytes.length > LARGEST) throw new FormError('the file is longer than 64 MiB');
  const text = utf8Text(bytes);
  bounded(text);
  const node = parse(text);
  lossless(node);
  const file = form(node, text, 'file');
  if (!file.keys.length) throw new FormError('file.keys is empty');
  const { node: payload } = file.record.payload;
  if (file.agentKey && !(payload.type === 'object' && member(payload, 'statement')))
    throw new FormError('file.agentKey is there, and the record has no statement');
  return file;
}

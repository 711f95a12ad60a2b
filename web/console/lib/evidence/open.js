// @ts-check
// An evidence file as a page shows it, whichever of the two forms it has: that of the service
// (attestd-evidence/v1), or the small one that earlier consoles saved. What is shown of either was
// read in its form, and checked as far as its steps (check.js) have passed.
import { hex, text as utf8Text } from '../bytes.js';
import { FormError } from '../form.js';
import { member, parse } from '../json.js';
import { controlRecordForm, preimageBytes, recordForm } from '../record.js';
import { sha256 } from '../sha256.js';
import { check } from './check.js';
import * as saved from './saved.js';

/** @param {{message?: string, reason?: string}} err */
const unreadable = ({ message, reason = message }) => new FormError(`not an evidence file: ${reason}`);

/**
 * Reads the bytes of a file and checks it against itself: {small, companyId, log, ok, code, failed,
 * reason, record, leaf, proof, root, size, key, recordKey, passed, notProven, found}. key is the
 * one that has signed last, with all that the file proves to be the company's in its ring;
 * recordKey is for checkRecord. In a file that fails, record and key may be null. leaf is the hash
 * that was computed of the record. size and found (of check) are of the service's files alone.
 * Throws an Error where it is no such file.
 * @param {Bytes} bytes
 */
export async function open(bytes) {
  let small;
  try {
    const text = utf8Text(bytes);
    const type = member(parse(text), 'type');
    if (type?.type === 'string' && type.value === saved.TYPE) small = await saved.read(text);
  } catch (err) {
    throw unreadable(err);
  }
  return small ? ofSaved(small, small.key) : ofService(await check(bytes, {}));
}

/**
 * @param {SavedEvidence} read
 * @param {CompanyKey} key
 */
async function ofSaved(read, key) {
  const { ok, reason, leaf, recordOK, pathOK } = await saved.check(read, key);
  return {
    small: read,
    companyId: key.companyId,
    log: 'actions',
    ok,
    code: '',
    reason,
    record: read.record,
    leaf,
    proof: read.proof,
    root: read.root,
    size: null,
    key,
    recordKey: key,
    passed: [...(recordOK ? ['record'] : []), ...(pathOK ? ['hexProof'] : [])],
    failed: !recordOK ? 'record' : !pathOK ? 'hexProof' : '',
    notProven: saved.NOT_PROVEN,
    found: null,
  };
}

/**
 * The same small file with all keys of its company, where the caller knows them and the file's is
 * one of them.
 * @param {{small: SavedEvidence}} opened
 * @param {CompanyKey} key
 */
export const withKeys = ({ small }, key) => ofSaved(small, key);

/** @param {import('./check.js').EvidenceCheck} found */
async function ofService(found) {
  const { file, verdict, code, reason, passed, failed } = found;
  if (code === 'MALFORMED') throw unreadable(found);
  /**
   * @template {EvidenceKey} K
   * @param {K[]} ring
   */
  const of = (ring) => ({ companyId: file.companyId, ...ring[ring.length - 1], ring });
  const ring = found.logs?.get(file.log)?.ring;
  // Keys that ended before the log began have signed none of its records.
  const recordKey = ring
    && of([...found.all.slice(0, -ring.length).map((one) => ({ ...one, fromIndex: Infinity })), ...ring]);
  const record = found.subject ?? recordOf(file);
  return {
    small: null,
    companyId: file.companyId,
    log: file.log,
    ok: verdict !== 'fails',
    code,
    failed,
    reason,
    record,
    leaf: record && (found.subject ? record.hash : await leafOf(record)),
    proof: file.hexProof.proof,
    root: file.hexProof.root,
    size: file.hexProof.size,
    key: found.all ? of(found.all) : null,
    recordKey,
    passed,
    notProven: file.notProven,
    found,
  };
}

/**
 * The hash of what a record says, and of one that cannot be hashed the hash that it names.
 * @param {LogRecord} record
 */
async function leafOf(record) {
  try {
    return hex(await sha256(preimageBytes(record)));
  } catch {
    return record.hash;
  }
}

/**
 * What a record says that failed its check; null where it has not the form of one.
 * @param {{log: LogName, record: JSONText}} file
 */
function recordOf({ log, record: { node, source } }) {
  try {
    return (log === 'control' ? controlRecordForm : recordForm)(node, source, 'record');
  } catch {
    return null;
  }
}

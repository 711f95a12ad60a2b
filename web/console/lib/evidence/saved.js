// @ts-check
// The small evidence files that earlier consoles saved: a record, its way to a root and the
// company's public key. That root is unsigned.
import {
  FormError,
  exactly,
  hash,
  integer,
  list,
  oneOf,
  rawKey,
  read as readForm,
  signature,
  string,
  timestamp,
} from '../form.js';
import { keyAt, prepareKey, prepareRing } from '../keyring.js';
import { climb, fitsSomeSize, proofForm } from '../merkle.js';
import { checkRecord, recordForm } from '../record.js';

export const TYPE = 'attestd-evidence';

const publicKey = { kid: string, fingerprint: string, pem: string, x: rawKey };
const form = exactly(
  {
    type: oneOf(TYPE),
    v: oneOf(1),
    savedAt: string,
    record: recordForm,
    proof: proofForm,
    root: hash,
    publicKey: exactly({ companyId: string, spiffeId: string, ...publicKey }),
  },
  {
    // All keys of the company, where it has had several: the proof that publicKey is one of them.
    keys: exactly({
      origin: string,
      list: list(
        exactly(
          { ...publicKey, fromIndex: integer },
          {
            endedAt: timestamp,
            compromisedAt: timestamp,
            rotation: exactly({ statement: string, oldSignature: signature, newSignature: signature }),
          },
        ),
      ),
    }),
  },
);

/** What such a file does not prove, in addition to what no evidence does. */
export const NOT_PROVEN = [
  'Where the record is in the log: the maker of the file chose the chain root, and how many records its tree has.',
  'That it is in the log that others see: the file has no checkpoint and no witness.',
  'That nothing was left out: the file shows one record, not what came before it, after it or beside it.',
  'That what the payload says is true: only that the service was given it, and when by the service’s clock.',
];

/**
 * Reads such a file: {record, proof, root, key}. Throws an Error that says why it is none.
 * @param {string} text
 */
export async function read(text) {
  const { record, proof, root, publicKey: named, keys } = readForm(form, text, 'evidence');
  let key = await prepareKey(named);
  if (keys) {
    const { companyId, spiffeId } = named;
    key = await prepareRing({ companyId, spiffeId, origin: keys.origin, keys: keys.list });
    if (keyAt(key, record.index).fingerprint !== named.fingerprint)
      throw new FormError('the key that it names is not the one that signs this record');
  }
  return { record, proof, root, key };
}

/**
 * Checks what was read with a key, its own or one that it is proven to belong to: {ok, reason,
 * leaf, recordOK, pathOK}. The path begins at the hash that was computed here, for it must be the
 * way of what is shown, and its steps must be some that this record can have.
 * @param {Pick<SavedEvidence, 'record' | 'proof' | 'root'>} saved
 * @param {RecordKey} key
 */
export async function check({ record, proof, root }, key) {
  const { computed, ok: recordOK, reason } = await checkRecord(record, key);
  const leaf = computed || record.hash;
  const placed = fitsSomeSize(record.index, proof.map(({ position }) => position));
  const pathOK = placed && computed !== '' && (await climb(leaf, proof)).root === root;
  const wrong = placed
    ? 'the path does not lead to the chain root'
    : `the steps do not match record ${record.index} in a tree of any size`;
  return { leaf, recordOK, pathOK, ok: recordOK && pathOK, reason: reason || (pathOK ? '' : wrong) };
}

// Evidence: one record, its way to the root and the company's public key in one JSON file, checkable without a server.
import { FormError, exactly, hash, integer, list, oneOf, rawKey, read as readForm, signature, string, timestamp } from './form.js';
import { keyAt, prepareKey, prepareRing } from './keyring.js';
import { climb, proofForm } from './merkle.js';
import { checkRecord, recordForm } from './record.js';

const TYPE = 'attestd-evidence';

const publicKey = { kid: string, fingerprint: string, pem: string, x: rawKey };
const form = exactly({
  type: oneOf(TYPE), v: oneOf(1), savedAt: string,
  record: recordForm, proof: proofForm, root: hash,
  publicKey: exactly({ companyId: string, spiffeId: string, ...publicKey }),
}, {
  // All keys of the company, where it has had several: the proof that publicKey is one of them.
  keys: exactly({
    origin: string,
    list: list(exactly({ ...publicKey, fromIndex: integer }, {
      endedAt: timestamp, compromisedAt: timestamp, rotation: exactly({ statement: string, oldSignature: signature, newSignature: signature }),
    })),
  }),
});

const pick = (from, ...names) => Object.fromEntries(names.filter((name) => from[name] !== undefined).map((name) => [name, from[name]]));
const PUBLIC = ['kid', 'fingerprint', 'pem', 'x'];

/**
 * The text of an evidence file. The record goes in as the text that came from the server: rebuilding it would
 * respell its numbers.
 */
export function build({ record, proof, root, key, savedAt }) {
  const rest = { proof, root, publicKey: pick(keyAt(key, record.index), 'companyId', 'spiffeId', ...PUBLIC) };
  if (key.ring?.length > 1) {
    rest.keys = { origin: key.origin, list: key.ring.map((one) => pick(one, ...PUBLIC, 'fromIndex', 'endedAt', 'compromisedAt', 'rotation')) };
  }
  return `{"type":${JSON.stringify(TYPE)},"v":1,"savedAt":${JSON.stringify(savedAt)},\n"record":${record.text},\n${JSON.stringify(rest, null, 1).slice(1)}\n`;
}

/** Reads an evidence file: {record, proof, root, key}. Throws an Error that says why it is none. */
export async function read(text) {
  let file;
  try {
    file = readForm(form, text, 'evidence');
  } catch (err) {
    throw new FormError(`not an evidence file: ${err.message}`);
  }
  const { record, proof, root, publicKey: named, keys } = file;
  let key = await prepareKey(named);
  if (keys) {
    const { companyId, spiffeId } = named;
    key = await prepareRing({ companyId, spiffeId, origin: keys.origin, keys: keys.list });
    if (keyAt(key, record.index).fingerprint !== named.fingerprint) throw new FormError('the key that it names is not the one that signs this record');
  }
  return { record, proof, root, key };
}

/**
 * Checks evidence against the key that it names: {record, path, rootOK, ok, reason}. Nothing is asked of any server. The path
 * begins at the hash that was computed here, for it must be the way of what is shown. Whose key it is no file can say.
 */
export async function check({ record, proof, root, key }) {
  const checked = await checkRecord(record, key);
  const path = await climb(checked.computed || record.hash, proof);
  const rootOK = checked.computed !== '' && path.root === root;
  return { record: checked, path, rootOK, ok: checked.ok && rootOK, reason: checked.reason || (rootOK ? '' : 'the path does not lead to the root') };
}

// Evidence: one record, its way to the root and the company's public key in one JSON file, checkable without a server.
import { base64url, equalBytes, hex, rawKeyFromPEM, spki, unbase64url } from './bytes.js';
import { publicKey } from './ed25519.js';
import { FormError, exactly, hash, oneOf, rawKey, read as readForm, string } from './form.js';
import { climb, proofForm } from './merkle.js';
import { checkRecord, recordForm } from './record.js';
import { sha256 } from './sha256.js';

const TYPE = 'attestd-evidence';

const form = exactly({
  type: oneOf(TYPE), v: oneOf(1), savedAt: string,
  record: recordForm, proof: proofForm, root: hash,
  publicKey: exactly({ companyId: string, spiffeId: string, kid: string, fingerprint: string, pem: string, x: rawKey }),
});

/**
 * The text of an evidence file. The record goes in as the text that came from the server: rebuilding it would
 * respell its numbers.
 */
export function build({ record, proof, root, key, savedAt }) {
  const rest = {
    proof,
    root,
    publicKey: { companyId: key.companyId, spiffeId: key.spiffeId, kid: key.kid, fingerprint: key.fingerprint, pem: key.pem, x: key.x },
  };
  return `{"type":${JSON.stringify(TYPE)},"v":1,"savedAt":${JSON.stringify(savedAt)},\n"record":${record.text},\n${JSON.stringify(rest, null, 1).slice(1)}\n`;
}

/** The kid (16 hex digits) and fingerprint of a raw key: both come from SHA-256 of its SPKI DER. */
export async function identify(raw) {
  const digest = await sha256(spki(raw));
  return { kid: hex(digest).slice(0, 16), fingerprint: 'SHA256:' + base64url(digest) };
}

/** A published key, {companyId, spiffeId, kid, fingerprint, pem, x}, made ready for checks; what it says of itself must be so. */
export async function prepareKey(published) {
  const raw = rawKeyFromPEM(published.pem);
  const { kid, fingerprint } = await identify(raw);
  if (!equalBytes(unbase64url(published.x), raw) || published.kid !== kid || published.fingerprint !== fingerprint) {
    throw new FormError('the public key, its ID and its fingerprint are not of one key');
  }
  if (!published.spiffeId.endsWith(`/company/${published.companyId}`)) throw new FormError('the public key names two companies');
  return { ...published, raw, prepared: await publicKey(raw) };
}

/** Reads an evidence file: {record, proof, root, key}. Throws an Error that says why it is none. */
export async function read(text) {
  let file;
  try {
    file = readForm(form, text, 'evidence');
  } catch (err) {
    throw new FormError(`not an evidence file: ${err.message}`);
  }
  return { record: file.record, proof: file.proof, root: file.root, key: await prepareKey(file.publicKey) };
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

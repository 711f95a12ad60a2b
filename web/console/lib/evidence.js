// Evidence: one record, its way to the root and the company's public key in one JSON file, checkable without a server.
import { base64url, equalBytes, hex, rawKeyFromPEM, spki, unbase64url } from './bytes.js';
import { publicKey } from './ed25519.js';
import { member, parse, plain, stringOf } from './json.js';
import { checkProofShape, climb } from './merkle.js';
import { checkRecord, readRecord } from './record.js';
import { sha256 } from './sha256.js';

const TYPE = 'attestd-evidence';

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

/** Reads an evidence file; throws an Error that says why it is none. */
export function read(text) {
  const file = parse(text);
  if (stringOf(member(file, 'type')) !== TYPE) throw new Error(`not an evidence file: its type is not "${TYPE}"`);
  for (const name of ['record', 'proof', 'root', 'publicKey']) {
    if (!member(file, name)) throw new Error(`the evidence has no ${name}`);
  }
  const { proof, root, publicKey: key } = plain(file);
  const raw = rawKeyFromPEM(String(key.pem));
  if (key.x !== undefined && !equalBytes(unbase64url(key.x), raw)) throw new Error('the evidence names two different keys');
  return { record: readRecord(member(file, 'record'), text), proof: checkProofShape(proof), root, key, raw };
}

/** Checks evidence that was read: {record, path, root, identity, ok, reason}. Nothing is asked of any server. */
export async function check(evidence) {
  const key = await publicKey(evidence.raw);
  const [record, path, identity] = await Promise.all([
    checkRecord(evidence.record, key),
    climb(evidence.record.hash, evidence.proof),
    identify(evidence.raw),
  ]);
  const rootOK = path.root === evidence.root;
  const sameCompany = !evidence.key.companyId || evidence.key.companyId === evidence.record.companyId;
  let reason = '';
  if (!record.ok) reason = record.reason;
  else if (!rootOK) reason = 'the path does not lead to the root';
  else if (!sameCompany) reason = 'record and key belong to different companies';
  return { record, path, rootOK, identity, ok: record.ok && rootOK && sameCompany, reason };
}

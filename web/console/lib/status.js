// @ts-check
// The service's signed statement about one passport, checked here.
import { unbase64url, utf8 } from './bytes.js';
import { verify } from './ed25519.js';
import { exactly, oneOf, signature, string, timestamp } from './form.js';
import { canonical } from './jcs.js';
import { parse } from './json.js';
import { statementKey } from './keyring.js';
import { sha256 } from './sha256.js';

const MAX_AGE = 300; // seconds; an older statement may be from before a revocation
const AHEAD = 60; // seconds that the service's clock may be ahead of this one

const form = exactly(
  {
    jti: string,
    companyId: string,
    status: oneOf('valid', 'revoked', 'unknown'),
    checkedAt: timestamp,
    caPublicKey: string,
    signature,
  },
  { revokedAt: timestamp, reason: string },
);

/**
 * Checks the text of an answer of GET /v1/ocsp/:jti with a company's key, {companyId, prepared}:
 * {status, checkedAt, revokedAt, reason}. Throws an Error where it says nothing about this passport
 * now. now is in seconds.
 * @param {string} text
 * @param {CompanyKey} key
 * @param {{jti: string, now: number, maxAge?: number}} about
 */
export async function checkStatus(text, key, { jti, now, maxAge = MAX_AGE }) {
  const node = parse(text);
  const status = form(node, text, 'status');
  if ((status.status === 'revoked') !== (status.revokedAt !== undefined))
    throw new Error('its status and revokedAt do not go together');
  const unsigned = ['caPublicKey', 'signature'];
  const members = node.type === 'object' ? node.members.filter(({ key }) => !unsigned.includes(key)) : [];
  const signed = { ...node, members };
  const digest = await sha256(utf8(canonical(signed)));
  const { prepared } = statementKey(key, status.caPublicKey, status.checkedAt);
  if (!(await verify(prepared, unbase64url(status.signature), digest))) throw new Error('this key did not sign it');
  if (status.jti !== jti) throw new Error('it is about another passport');
  if (status.companyId !== key.companyId) throw new Error('it is of another company');
  const age = now - Date.parse(status.checkedAt) / 1000;
  if (age > maxAge) throw new Error(`it is older than ${maxAge} s, of ${status.checkedAt}`);
  if (age < -AHEAD) throw new Error(`it is from the future, of ${status.checkedAt}`);
  return status;
}

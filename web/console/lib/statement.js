// @ts-check
// What an agent signs with a key of its own: statements of its actions, and endorsements of its
// next key. Package statement of the service is the specification, package jose that of the keys.
import { base64url, hex, isHash, text as utf8Text, unbase64url, utf8 } from './bytes.js';
import { isOdd, publicKey, verify } from './ed25519.js';
import { boolean, exactly, hash, integer, list, oneOf, rawKey, stringThat } from './form.js';
import { canonical, canonicalBytes } from './jcs.js';
import { parse } from './json.js';
import { must } from './note.js';
import { sha256 } from './sha256.js';

const LONGEST = 32768; // bytes of a statement: one that names 100 refused places must fit
const LONGEST_ENDORSEMENT = 4096;
const LAST = 253402300799; // the last second of the year 9999
const P256 = 'ffffffff00000001000000000000000000000000ffffffffffffffffffffffff';

/** @param {string} s */
export function isThumbprint(s) {
  try {
    return unbase64url(s).length === 32;
  } catch {
    return false;
  }
}

const thumbprint = stringThat(isThumbprint, 'the thumbprint of a key');
const visible = stringThat((s) => /^[!-~]{1,128}$/.test(s), '1 to 128 visible ASCII characters');
const spiffe = stringThat((s) => /^spiffe:\/\/[!-~]*$/.test(s), 'a SPIFFE ID');
export const session = stringThat((s) => /^[A-Za-z0-9._~-]{1,128}$/.test(s), 'the ID of a session');
/** @type {Form<number>} */
const time = (node, source, name) => {
  const seconds = integer(node, source, name);
  must(seconds <= LAST, `${name} is after the year 9999`);
  return seconds;
};

const origin = stringThat((s) => /^[!-~]{1,255}$/.test(s), 'the origin of a log');
const code = stringThat((s) => /^[A-Z0-9_]{1,64}$/.test(s), 'the code of a refusal');
const refusedPlaces = list(exactly({ seq: integer, hash, code }), 100);

const statementClaims = exactly(
  { iss: spiffe, aud: spiffe, iat: time, jti: visible, action_hash: hash },
  {
    log: origin, delegation: visible, sid: session, seq: integer, prev: hash, refused: refusedPlaces,
    continues: exactly({ sid: session, kid: thumbprint, hash }), end: boolean,
  },
);
const endorsementClaims = exactly({ iss: spiffe, aud: spiffe, iat: time, jkt: thumbprint });

/**
 * Reads a compact JWS in its form, and believes nothing that it says.
 * @template C
 * @param {string} compact
 * @param {string} typ
 * @param {Form<C>} form
 * @param {number} longest bytes
 * @returns {AgentJWS<C>}
 */
function readJWS(compact, typ, form, longest) {
  must(utf8(compact).length <= longest, `it is longer than ${longest} bytes`);
  const parts = compact.split('.');
  must(parts.length === 3, 'it has not three parts');
  const [header, claims] = parts.slice(0, 2).map((part) => utf8Text(unbase64url(part)));
  const signature = unbase64url(parts[2]);
  must(signature.length === 64, 'its signature has not 64 bytes');
  const { alg, kid } = exactly({ alg: oneOf('EdDSA', 'ES256'), typ: oneOf(typ), kid: thumbprint })(
    parse(header), header, 'header');
  const signed = utf8(`${parts[0]}.${parts[1]}`);
  return { alg, kid, claims: form(parse(claims), claims, 'claims'), signed, signature };
}

/**
 * Reads a statement in its form. One that names its log is of version 2, any other of version 1.
 * @param {string} compact
 */
export function readStatement(compact) {
  const read = readJWS(compact, 'agent-statement+jwt', statementClaims, LONGEST);
  const { sid, seq, prev, end } = read.claims;
  must((sid === undefined) === (seq === undefined), 'sid and seq are there both, or neither');
  must(sid !== undefined || end === undefined, 'end is there without a session');
  must((prev !== undefined) === ((seq ?? 0) > 0), 'prev is there exactly when seq is above 0');
  must(end !== false, 'end is not true');
  ofVersion(read);
  return read;
}

/**
 * Requires of a statement that it has what its version has, and no more.
 * @param {ReturnType<typeof readJWS<ReturnType<typeof statementClaims>>>} statement
 */
function ofVersion({ kid, claims: { log, delegation = '', sid, seq = 0, prev, refused, continues } }) {
  if (log === undefined) {
    must(!refused && !continues, 'refused or continues is there without log');
    return;
  }
  must(delegation === '' || isHash(delegation), 'delegation is not a hash');
  if (refused) {
    must(seq > 0 && refused.length > 0, 'refused is there in the first place of a session, or empty');
    must(refused.every((one, i) => one.seq < (i + 1 < refused.length ? refused[i + 1].seq : seq)),
      'the places of refused do not stand in order before this one');
    const last = refused[refused.length - 1];
    must(last.seq < seq - 1 || last.hash === prev, 'prev is not the hash of the refused statement before');
  }
  if (continues) {
    must(sid !== undefined && seq === 0, 'continues is there, and this is not the first place of a session');
    must(continues.sid !== sid || continues.kid !== kid, 'continues names this very session');
  }
}

/** @param {string} compact */
export function readEndorsement(compact) {
  const read = readJWS(compact, 'agent-key+jwt', endorsementClaims, LONGEST_ENDORSEMENT);
  must(read.claims.jkt !== read.kid, 'jkt is not another key');
  return read;
}

const okp = exactly({ kty: oneOf('OKP'), crv: oneOf('Ed25519'), x: rawKey });
const ec = exactly({ kty: oneOf('EC'), crv: oneOf('P-256'), x: rawKey, y: rawKey });

/**
 * Reads the JWK of an agent's key, which has the members of its thumbprint (RFC 7638) and no
 * others. Keys for which everybody can sign are refused, and those in another spelling.
 * @param {JSONNode} node
 * @param {string} source
 * @returns {Promise<AgentKey>}
 */
export async function agentKey(node, source) {
  const isEC = node.type === 'object' && node.members.length === 4;
  const jwk = (isEC ? ec : okp)(node, source, 'jwk');
  const name = base64url(await sha256(utf8(canonical(node))));
  if (!('y' in jwk)) {
    const raw = unbase64url(jwk.x);
    must(!isOdd(raw), 'jwk is a key for which everybody can sign, or in another spelling');
    const key = await publicKey(raw);
    return { thumbprint: name, alg: 'EdDSA', verify: (signature, signed) => verify(key, signature, signed) };
  }
  for (const point of [jwk.x, jwk.y]) must(hex(unbase64url(point)) < P256, 'jwk is not a point of P-256');
  // A page that came by http from elsewhere has no WebCrypto, and this project no code of its own.
  must(globalThis.crypto?.subtle, 'this browser checks ES256 only in pages from https, localhost or disk');
  const { kty, crv, x, y } = jwk;
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('jwk', { kty, crv, x, y }, algorithm, false, ['verify']);
  return {
    thumbprint: name,
    alg: 'ES256',
    verify: (signature, signed) => crypto.subtle.verify(algorithm, key, signature, signed),
  };
}

/**
 * Requires that a JWS is signed with a key.
 * @param {AgentJWS<unknown>} jws
 * @param {AgentKey} key
 */
export async function signedWith({ kid, alg, signature, signed }, key) {
  must(
    kid === key.thumbprint && alg === key.alg && (await key.verify(signature, signed)),
    'it is not signed with the key that kid names',
  );
}

/**
 * The action_hash of a record: of its payload without the statement and the decision.
 * @param {LogRecord} record
 */
export async function actionHash({ payloadNode }) {
  must(payloadNode?.type === 'object', 'the record has no payload');
  const members = payloadNode.members.filter(({ key }) => key !== 'statement' && key !== 'decision');
  return hex(await sha256(canonicalBytes('', { ...payloadNode, members }, '')));
}

/**
 * What a statement must have as the delegation of a record: its hash, or in version 1 the ID of its
 * token; '' without one.
 * @param {LogRecord} record
 * @param {string | undefined} log of the statement
 */
export async function delegationClaim({ delegation, delegationNode }, log) {
  if (!delegation || !delegationNode) return '';
  return log === undefined ? delegation.tokenId : hex(await sha256(canonicalBytes('', delegationNode, '')));
}

/**
 * What prev of the next statement is.
 * @param {string} compact
 */
export const statementHash = async (compact) => hex(await sha256(utf8(compact)));

/**
 * For which service a statement was made, and what an older one leaves open.
 * @param {{iss: string, aud: string, log?: string}} claims
 */
export const madeFor = ({ iss, aud, log }) => (log === undefined
  ? `Its statement is by ${iss}, for ${aud}, ` +
    `and does not say which service it was made for: another one may have the ` +
    'same names.'
  : `Its statement is by ${iss}, for ${aud} and its log ${log}.`);

/**
 * Reads well after the name of a session.
 * @param {{sid: string, kid: string, hash: string}} continues
 */
export const goesOn = ({ sid, kid, hash: last }) =>
  `goes on from the session ${sid} of the key ${kid}, whose last statement has the hash ${last}`;

// @ts-check
// The three kinds of JWT that a company signs (passport, SVID, delegation), read strictly and
// checked offline.
import { text as utf8Text, unbase64url, utf8 } from './bytes.js';
import { readDetails } from './details.js';
import { verify } from './ed25519.js';
import { having, integer, list, string } from './form.js';
import { member, parse } from './json.js';
import { tokenKey } from './keyring.js';
import { agentSPIFFE, isOfCompany } from './spiffe.js';
import { table } from './table.js';

const MAX_TOKEN = 16 * 1024;
/** @type {Record<string, number>} */
const LONGEST = table({ passport: 86400, delegation: 3600, SVID: 3600 }); // lives, in seconds
const HEADER = ['alg', 'kid', 'typ']; // what a header has here; crit, jwk and their like change what a signature means

/** @type {Form<Act>} */
const actForm = (node, source, name) => having({ sub: string }, { act: actForm })(node, source, name);
/** @type {Form<string[]>} */
const audience = (node, source, name) =>
  node.type === 'array' ? list(string)(node, source, name) : [string(node, source, name)];
const headerForm = having({ alg: string, typ: string }, { kid: string });
const claimsForm = having(
  { sub: string },
  {
    iss: string,
    jti: string,
    aud: audience,
    iat: integer,
    nbf: integer,
    exp: integer,
    act: actForm,
  },
);
const passportForm = having({
  v: integer,
  agentId: string,
  org: string,
  scopes: list(string, 100),
  delegationChain: list(string),
});

/**
 * @template T
 * @param {string} encoded
 * @param {string} name
 * @param {Form<T>} form
 */
function part(encoded, name, form) {
  try {
    const source = utf8Text(unbase64url(encoded));
    const node = parse(source);
    return { source, node, value: form(node, source, name) };
  } catch (err) {
    throw new Error(err.message.startsWith(name) ? err.message : `${name}: ${err.message}`);
  }
}

/**
 * Reads a compact JWT without believing anything it says. Throws an Error that says what is
 * malformed.
 * @param {string} token
 * @returns {Token}
 */
export function decode(token) {
  const compact = token.trim();
  if (compact.length > MAX_TOKEN) throw new Error('longer than 16 KiB');
  const parts = compact.split('.');
  if (parts.length !== 3) throw new Error('a token has three parts, separated by dots');
  const header = part(parts[0], 'header', headerForm);
  const claims = part(parts[1], 'claims', claimsForm);
  let signature;
  try {
    signature = unbase64url(parts[2]);
  } catch (err) {
    throw new Error(`signature: ${err.message}`);
  }
  const passport = header.value.typ === 'CAP+JWT' ? passportOf(claims) : null;
  const kind = passport ? 'passport' : claims.value.act ? 'delegation' : 'SVID';
  const companyId = companyOf({ passport, claims });
  return { compact, header, claims, signature, signed: `${parts[0]}.${parts[1]}`, passport, kind, companyId };
}

/** @param {JSONNode} node */
const membersOf = (node) => (node.type === 'object' ? node.members : []);

/**
 * The namespaced object is the one member that looks like it: its key is the service's own name.
 * @param {TokenPart<Claims>} claims
 * @returns {Passport}
 */
function passportOf({ node, source }) {
  const found = membersOf(node).filter(({ value }) => member(value, 'agentId') && member(value, 'scopes'));
  if (found.length !== 1) throw new Error('claims: not those of one passport');
  const [{ key, value }] = found;
  return { namespace: key, ...passportForm(value, source, `claims.${key}`) };
}

/**
 * The authorization details of a token, or null where it has none. Throws an Error where they are
 * not understood.
 * @param {Token} token
 * @returns {DetailEntry[] | null}
 */
export function detailsOf({ claims: { node, source } }) {
  const details = member(node, 'authorization_details');
  return details ? readDetails(details, source) : null;
}

/** @param {Token} token */
function detailsAreUnderstood(token) {
  try {
    detailsOf(token);
    return true;
  } catch {
    return false;
  }
}

/**
 * Which company's key to try. An SVID names its company in its subject, and so does a delegation
 * that acts within one company; whether that is true, only the signature says.
 * @param {{passport: Passport | null, claims: TokenPart<Claims>}} token
 * @returns {string}
 */
function companyOf({ passport, claims }) {
  return passport?.org ?? /^spiffe:\/\/[^/]+\/company\/([^/]+)/.exec(claims.value.sub)?.[1] ?? '';
}

/**
 * The principals of a token from the subject to the one that acts. Only typ JWT nests the actors in
 * this order: in an access token (at+jwt) the current actor is the outermost (RFC 8693). There a
 * subject that acts for itself is named as the first actor too.
 * @param {Token} token
 * @returns {string[]}
 */
export function principals({ passport, header, claims }) {
  if (passport) return passport.delegationChain;
  /** @type {string[]} */
  const actors = [];
  for (let { act } = claims.value; act; { act } = act) actors.push(act.sub);
  if (header.value.typ !== 'JWT') {
    actors.reverse();
    if (actors[0] === claims.value.sub) actors.shift();
  }
  return [claims.value.sub, ...actors];
}

/**
 * Checks a decoded token against a company's key, {companyId, spiffeId, kid, prepared}, and what
 * its service says of tokens, {audience, issuer}: a list of {name, ok, detail}. now is in seconds.
 * Revocation is the one question that only the service can answer.
 * @param {Token} decoded
 * @param {CompanyKey} key
 * @param {{audience: string, issuer: string, now: number}} expected
 */
export async function check(decoded, key, { audience: expected, issuer, now }) {
  const {
    header: { node, value: h },
    claims: { value: c },
    passport,
  } = decoded;
  const { iat = NaN, nbf = NaN, exp = NaN } = c; // a time that is not given is before and after nothing
  const signer = tokenKey(key, h.kid, iat, now);
  /** @type {TokenCheck[]} */
  const results = [];
  /**
   * @param {string} name
   * @param {unknown} ok
   * @param {string} detail
   */
  const add = (name, ok, detail) => results.push({ name, ok: Boolean(ok), detail });
  add('Algorithm', h.alg === 'EdDSA', `alg is ${h.alg}`);
  const names = membersOf(node).map((m) => m.key);
  const others = names.filter((name) => !HEADER.includes(name));
  add(
    'Header',
    !others.length && (passport || h.typ === 'JWT'),
    others.length ? `carries ${others.join(', ')}` : `typ is ${h.typ}`,
  );
  add('Key', h.kid === signer.kid, `kid ${h.kid ?? 'not named'}; the company’s at the token’s time is ${signer.kid}`);
  add(
    'Signature',
    await verify(signer.prepared, decoded.signature, utf8(decoded.signed)),
    'Ed25519 over header and claims',
  );
  add('Not before', nbf <= now, c.nbf === undefined ? 'not given' : iso(c.nbf));
  add('Expiry', exp > now, iso(exp));
  const life = exp - iat; // NaN where one is not given
  add(
    'Lifetime',
    iat <= nbf && life > 0 && life <= LONGEST[decoded.kind],
    `${Number.isNaN(life) ? 'not given' : `${life} s from its issue`}; a token of this kind lasts at most ` +
      `${LONGEST[decoded.kind]} s`,
  );
  if (member(decoded.claims.node, 'authorization_details')) {
    add('Details', detailsAreUnderstood(decoded), 'authorization details limit the calls of tools');
  }
  add('Issuer', c.iss === issuer, c.iss ?? 'not given');
  const [service] = expected.split(':');
  add(
    'Audience',
    c.aud?.length === 1 && c.aud[0] === (passport ? expected : service),
    c.aud?.join(', ') ?? 'not given',
  );
  if (passport) {
    add('Version', passport.v === 1, `v is ${passport.v}`);
    add(
      'Subject',
      passport.namespace === service &&
        passport.org === key.companyId &&
        c.sub === agentSPIFFE(key.spiffeId, passport.agentId),
      c.sub,
    );
    add('Chain', passport.delegationChain.at(-1) === c.sub, 'the last principal is the subject');
  } else if (decoded.kind === 'SVID') add('Subject', isOfCompany(c.sub, key.spiffeId), c.sub);
  return results;
}

/** @param {unknown} seconds */
export function iso(seconds) {
  const date = new Date(Number(seconds) * 1000);
  return Number.isNaN(date.getTime()) ? 'not a time' : date.toISOString().replace('.000Z', 'Z');
}

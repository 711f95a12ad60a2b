// The three kinds of JWT that a company signs (passport, SVID, delegation), read strictly and checked offline.
import { text as utf8Text, unbase64url, utf8 } from './bytes.js';
import { verify } from './ed25519.js';
import { parse, plain } from './json.js';

const MAX_TOKEN = 16 * 1024;
const FOREIGN_HEADERS = ['crit', 'jwk', 'jku', 'x5u', 'x5c', 'b64'];

function part(encoded, name) {
  try {
    const source = utf8Text(unbase64url(encoded));
    const node = parse(source);
    if (node.type !== 'object') throw new Error('not an object');
    return { source, value: plain(node), node };
  } catch (err) {
    throw new Error(`${name}: ${err.message}`);
  }
}

/** Reads a compact JWT without believing anything it says. Throws an Error that says what is malformed. */
export function decode(token) {
  const compact = token.trim();
  if (compact.length > MAX_TOKEN) throw new Error('longer than 16 KiB');
  const parts = compact.split('.');
  if (parts.length !== 3) throw new Error('a token has three parts, separated by dots');
  const header = part(parts[0], 'header');
  const claims = part(parts[1], 'claims');
  let signature;
  try {
    signature = unbase64url(parts[2]);
  } catch (err) {
    throw new Error(`signature: ${err.message}`);
  }
  const decoded = { compact, header, claims, signature, signed: `${parts[0]}.${parts[1]}` };
  decoded.passport = header.value.typ === 'CAP+JWT' ? passportOf(claims.value) : null;
  decoded.kind = decoded.passport ? 'passport' : claims.value.act ? 'delegation' : 'SVID';
  decoded.companyId = companyOf(decoded);
  return decoded;
}

// The namespaced object is the one member that looks like it: its key is the service's own name.
function passportOf(claims) {
  for (const [namespace, value] of Object.entries(claims)) {
    if (value && typeof value === 'object' && typeof value.agentId === 'string' && Array.isArray(value.scopes)) {
      return { namespace, ...value };
    }
  }
  return { namespace: '', scopes: [], delegationChain: [] };
}

// Which company's key to try. An SVID names its company in its subject, and so does a delegation that acts
// within one company; whether that is true, only the signature says.
function companyOf({ passport, claims }) {
  if (typeof passport?.org === 'string') return passport.org;
  return /^spiffe:\/\/[^/]+\/company\/([^/]+)/.exec(claims.value.sub ?? '')?.[1] ?? '';
}

/** The principals of a token from the subject to the one that acts. */
export function principals({ passport, claims }) {
  if (passport) return Array.isArray(passport.delegationChain) ? passport.delegationChain.map(String) : [];
  const chain = [String(claims.value.sub ?? '?')];
  for (let act = claims.value.act; act && chain.length <= 32; act = act.act) chain.push(String(act.sub ?? '?'));
  return chain;
}

/**
 * Checks a decoded token against a company's key (as ed25519.js prepared it): a list of {name, ok, detail}. now is in seconds.
 * Revocation is the one question that only the service can answer.
 */
export async function check(decoded, key, { kid, audience, issuer, now }) {
  const { header, claims, passport } = decoded;
  const c = claims.value;
  const results = [];
  const add = (name, ok, detail) => results.push({ name, ok: Boolean(ok), detail });
  add('Algorithm', header.value.alg === 'EdDSA', `alg is ${header.value.alg}`);
  const foreign = FOREIGN_HEADERS.filter((name) => name in header.value);
  add('Header', !foreign.length, foreign.length ? `carries ${foreign.join(', ')}` : `typ is ${header.value.typ}`);
  add('Key', !header.value.kid || header.value.kid === kid, `kid ${header.value.kid ?? 'not named'}; the company’s is ${kid}`);
  add('Signature', await verify(key, decoded.signature, utf8(decoded.signed)), 'Ed25519 over header and claims');
  add('Not before', typeof c.nbf !== 'number' || c.nbf <= now, c.nbf === undefined ? 'not given' : iso(c.nbf));
  add('Expiry', typeof c.exp === 'number' && c.exp > now, iso(c.exp));
  if (issuer) add('Issuer', c.iss === issuer, String(c.iss));
  if (passport) {
    if (audience) add('Audience', [].concat(c.aud).includes(audience), [].concat(c.aud).join(', '));
    add('Version', passport.v === 1, `v is ${passport.v}`);
    add('Chain', passport.delegationChain?.at?.(-1) === c.sub, 'the last principal is the subject');
  }
  return results;
}

export function iso(seconds) {
  const date = new Date(Number(seconds) * 1000);
  return Number.isNaN(date.getTime()) ? 'not a time' : date.toISOString().replace('.000Z', 'Z');
}

// @ts-check
// People of the company: their passkeys, sessions and invitations. A passkey never leaves its
// authenticator; what is to be signed, and what was signed, travel in WebAuthn's own forms, and the
// server checks them.
import { boolean, having, json, list, nullable, oneOf, string, timestamp } from '../lib/form.js';
import { PERSON, call, getCredential } from './api.js';
import { NOTHING } from './asked.js';
import { signIn } from './session.js';

const passkey = having(
  { credentialId: string, fingerprint: string, backupEligible: boolean, createdAt: timestamp },
  { revokedAt: timestamp },
);
const required = {
  personId: string,
  name: string,
  email: nullable(string),
  roles: list(oneOf('admin', 'approver', 'reader')),
  groups: list(string),
  createdAt: timestamp,
};
/** @type {Form<Person>} */
const person = having(required, { disabledAt: timestamp, passkeys: list(passkey) });
const personSession = having({
  sessionId: string,
  signedIn: string,
  createdAt: timestamp,
  lastUsedAt: timestamp,
  expiresAt: timestamp,
  present: boolean,
});
const options = having({ publicKey: json });
const invited = having({ publicKey: json, companyId: string, personId: string, name: string });
const begun = having({ companyId: string, personId: string });

/** Whether this browser makes passkeys on this page: not on an IP address, nor without https. */
export const hasPasskeys = () => isSecureContext && typeof PublicKeyCredential === 'function' && !isAddress();

const isAddress = () => /^[\d.]+$|^\[/.test(location.hostname);

/** The same page under a name, where this one is open at a loopback address; '' elsewhere. */
export const underName = () =>
  (/^127\.|^\[::1\]$/.test(location.hostname)
    ? `${location.protocol}//localhost${location.port && `:${location.port}`}/${location.hash}` : '');

/**
 * Asks the person for a passkey, and says in plain words why there is none.
 * @param {() => Promise<Credential | null>} ask
 */
async function asked(ask) {
  try {
    const made = /** @type {PublicKeyCredential | null} */ (await ask());
    if (made) return made.toJSON();
  } catch (err) {
    if (err.name === 'InvalidStateError') throw new Error('This authenticator already holds a passkey of this person.');
    if (err.name !== 'NotAllowedError' && err.name !== 'AbortError') throw err;
  }
  throw new Error('No passkey was used: the request was cancelled or timed out, or this device has no such passkey.');
}

/** @param {JSONText} options */
const valueOf = ({ node, source }) => JSON.parse(source.slice(node.start, node.end));

/**
 * An assertion over options of a server.
 * @param {JSONText} options
 */
export const getAssertion = (options) => asked(() => navigator.credentials.get({
  publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(valueOf(options)),
}));
/** @param {JSONText} options */
const create = (options) => asked(() => navigator.credentials.create({
  publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(valueOf(options)),
}));

/** How people sign in at this server, whoever asks. */
export const readWays = () =>
  call(having({ passkey: boolean, oidc: boolean }), 'GET', '/v1/people/sign-in', { asked: NOTHING, person: true });

/** Takes up the session that the browser's cookie names; in new tabs too, until the last closes. */
export const begin = () => signIn(PERSON, true);

/**
 * Signs in with any passkey that this browser offers, on a page where it can. Loopback addresses
 * lead to localhost, where passkeys work; the person then presses once more.
 */
export async function signInHere() {
  const named = underName();
  if (named) location.assign(named);
  else if (!hasPasskeys()) throw new Error('Passkeys work on this page only over HTTPS and under a host name.');
  else await signInWithPasskey();
}

async function signInWithPasskey() {
  const { publicKey } = await call(options, 'POST', '/v1/people/sign-in/options', {
    asked: NOTHING, person: true, body: {},
  });
  const credential = await getAssertion(publicKey);
  await call(begun, 'POST', '/v1/people/sign-in', { asked: NOTHING, person: true, body: { credential } });
  await begin();
}

/**
 * Enrols the first passkey of somebody who was invited, and signs in with it.
 * @param {{invitation: string, companyId?: string, personId?: string, name?: string}} who
 */
export async function join(who) {
  const { publicKey, companyId, personId } = await call(invited, 'POST', '/v1/people/enrol/options', {
    asked: NOTHING, person: true, body: who,
  });
  const credential = await create(publicKey);
  await call(begun, 'POST', '/v1/people/enrol', {
    asked: { companyId, personId }, person: true, body: { ...who, credential },
  });
  await begin();
}

/** Has the person show again who they are, before a change of rights. */
export async function reauthenticate() {
  const path = '/v1/people/me/reauthenticate';
  const { publicKey } = await call(options, 'POST', `${path}/options`, { asked: NOTHING, body: {} });
  const credential = await getAssertion(publicKey);
  await call(having({ until: timestamp }), 'POST', path, { asked: NOTHING, body: { credential } });
}

/** Enrols one more passkey of the person who is signed in. */
export async function addPasskey() {
  const { publicKey } = await call(options, 'POST', '/v1/people/me/passkeys/options', { asked: NOTHING, body: {} });
  const credential = await create(publicKey);
  await call(passkey, 'POST', '/v1/people/me/passkeys', { asked: NOTHING, body: { credential } });
}

/** Ends the session of this browser at the server. */
export async function endSession() {
  const present = (await readSessions(true)).find((s) => s.present);
  if (present) await endOne(present.sessionId, true);
}

export const isPerson = () => getCredential() === PERSON;

/** @param {string} id */
const at = (id) => `/v1/people/${encodeURIComponent(id)}`;

export const readPeople = async () =>
  (await call(having({ people: list(person) }), 'GET', '/v1/people', { asked: NOTHING })).people;

export const readMe = () => call(person, 'GET', '/v1/people/me', { asked: NOTHING });

/** @param {boolean} [always] */
export const readSessions = async (always) =>
  (await call(having({ sessions: list(personSession) }), 'GET', '/v1/people/me/sessions', {
    asked: NOTHING, person: always,
  })).sessions;

/**
 * @param {string} id
 * @param {boolean} [always]
 */
export const endOne = (id, always) =>
  call(having({}), 'DELETE', `/v1/people/me/sessions/${encodeURIComponent(id)}`, { asked: NOTHING, person: always });

export const endAll = () => call(having({}), 'DELETE', '/v1/people/me/sessions', { asked: NOTHING });

/**
 * @param {{personId: string, name: string, roles: string[], groups: string[], email?: string}} body
 */
export const createPerson = (body) => call(person, 'POST', '/v1/people', { asked: { personId: body.personId }, body });

/**
 * @param {string} id
 * @param {object} body
 */
export const changePerson = (id, body) => call(person, 'PATCH', at(id), { asked: { personId: id }, body });

/** @param {string} id */
export const readPerson = (id) => call(person, 'GET', at(id), { asked: { personId: id } });

/** @param {string} id */
export const invite = (id) =>
  call(having({ url: string, expiresAt: timestamp }), 'POST', `${at(id)}/invitations`, { asked: NOTHING, body: {} });

/**
 * @param {string} id
 * @param {string} credentialId
 */
export const revokePasskey = (id, credentialId) =>
  call(passkey, 'DELETE', `${at(id)}/passkeys/${encodeURIComponent(credentialId)}`, { asked: { credentialId } });

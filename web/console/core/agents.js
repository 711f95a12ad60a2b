// Agents and their passports, and what the service says of why an agent might act: the forms of these answers, and where they are asked for.
import { having, integer, jsonOf, list, nullable, oneOf, string, timestamp } from '../lib/form.js';
import { call } from './api.js';

export const agent = having({ agentId: string, spiffeId: string, registeredAt: timestamp }, { disabledAt: timestamp, metadata: jsonOf('object', 'null') });
export const agentPage = having({ agents: list(agent), total: integer }, { next: string });
export const disabling = having({ disabledAt: timestamp, revokedPassports: integer });

export const passportPage = having({
  passports: list(having(
    { jti: string, agentId: string, scopes: list(string), issuedAt: timestamp, expiresAt: timestamp, status: oneOf('valid', 'revoked', 'expired') },
    { revokedAt: timestamp, reason: string },
  )),
}, { next: string });

const entry = nullable(having({ index: integer, timestamp, actionType: string, by: nullable(string) }));
const agentAuthority = having({ agentId: string, state: oneOf('registered', 'disabled', 'notRegistered', 'unknown'), registered: entry, last: entry, next: entry });
export const authorityForm = having({
  index: integer,
  timestamp,
  control: having({ size: integer }),
  agent: agentAuthority,
  passports: list(having({ jti: string, scopes: list(string), issuedAt: timestamp, expiresAt: timestamp, issued: entry, revoked: entry })),
  delegation: nullable(having({ delegationChain: list(string), agents: list(agentAuthority) })),
  signingKey: having({ kid: string, rotated: entry }),
  cannotSay: list(string),
});

const at = (agentId, more = '') => `/v1/agents/${encodeURIComponent(agentId)}${more}`;

export const readSVID = async (agentId) => (await call(having({ svid: string }), 'GET', at(agentId, '/svid'))).svid;
export const disable = (agentId) => call(disabling, 'POST', at(agentId, '/disable'));
export const enable = (agentId) => call(agent, 'POST', at(agentId, '/enable'));

/** An agent as it stands; null where nobody registered it. */
export async function findAgent(agentId) {
  try {
    return await call(agent, 'GET', at(agentId));
  } catch (err) {
    if (err.status === 404) return null;
    throw err;
  }
}

/** Registers an agent. isNew: only where it is none yet. metadata: a JSON object, or undefined. */
export const register = (agentId, metadata, isNew) =>
  call(agent, 'POST', '/v1/agents/register', { body: { agentId, metadata }, headers: isNew ? { 'If-None-Match': '*' } : {} });

/** What the control log says of whether a record's action was allowed when it happened. */
export async function authorityOf(index) {
  const found = await call(authorityForm, 'GET', `/v1/authority/${index}`);
  if (found.index !== index) throw new Error(`The server answers about record ${found.index} instead.`);
  return found;
}

// @ts-check
// Agents and their passports, and what the service says of why an agent might act: the forms of
// these answers, and where they are asked for.
import {
  FormError,
  having,
  integer,
  json,
  jsonOf,
  list,
  nullable,
  oneOf,
  read,
  string,
  timestamp,
} from '../lib/form.js';
import { agentSPIFFE } from '../lib/spiffe.js';
import { decode } from '../lib/token.js';
import { call } from './api.js';
import { eachNames, mustFit, mustName } from './asked.js';
import { signedIn } from './session.js';

/**
 * JSON in a text.
 * @type {Form<JSONText>}
 */
const jsonInText = (node, source, name) => {
  const text = string(node, source, name);
  try {
    return read(json, text, name);
  } catch (err) {
    throw new FormError(`${name} holds no JSON: ${err.message}`);
  }
};

export const agent = having(
  { agentId: string, spiffeId: string, registeredAt: timestamp },
  { disabledAt: timestamp, metadata: jsonOf('object', 'null'), metadataAsSent: jsonInText },
);
export const agentPage = having({ agents: list(agent), total: integer }, { next: string });
export const disabling = having({ agentId: string, disabledAt: timestamp, revokedPassports: integer });

export const passportPage = having(
  {
    passports: list(
      having(
        {
          jti: string,
          agentId: string,
          scopes: list(string),
          issuedAt: timestamp,
          expiresAt: timestamp,
          status: oneOf('valid', 'revoked', 'expired'),
        },
        { revokedAt: timestamp, reason: string },
      ),
    ),
  },
  { next: string },
);

const entry = nullable(having({ index: integer, timestamp, actionType: string, by: nullable(string) }));
const agentAuthority = having({
  agentId: string,
  state: oneOf('registered', 'disabled', 'notRegistered', 'unknown'),
  registered: entry,
  last: entry,
  next: entry,
});
export const authorityForm = having({
  index: integer,
  timestamp,
  control: having({ size: integer }),
  agent: agentAuthority,
  passports: list(
    having({
      jti: string,
      scopes: list(string),
      issuedAt: timestamp,
      expiresAt: timestamp,
      issued: entry,
      revoked: entry,
    }),
  ),
  delegation: nullable(having({ delegationChain: list(string), agents: list(agentAuthority) })),
  signingKey: having({ kid: string, rotated: entry }),
  cannotSay: list(string),
});

/**
 * The SPIFFE ID of an agent of the company that is signed in.
 * @param {string} agentId
 */
const spiffeOf = (agentId) => agentSPIFFE(signedIn().key.spiffeId, agentId);

/**
 * Throws where an agent has another SPIFFE ID than its own.
 * @param {{agentId: string, spiffeId: string}} found
 */
const mustHaveItsID = ({ agentId, spiffeId }) =>
  mustFit(spiffeId === spiffeOf(agentId), `it names another SPIFFE ID, ${spiffeId}, of the agent ${agentId}`);

/**
 * An answer must be about an agent, by both of its names.
 * @param {string} agentId
 * @returns {(found: {agentId: string, spiffeId: string}) => void}
 */
const isOf = (agentId) => (found) => {
  mustName({ agentId }, found);
  mustHaveItsID(found);
};

/**
 * The metadata of an agent, as they were sent; null where there are none.
 * @param {RegisteredAgent} agent
 * @returns {JSONText | null}
 */
export function metadataOf({ metadata, metadataAsSent }) {
  return metadataAsSent ?? (metadata?.node.type === 'object' ? metadata : null);
}

/** @param {string} text */
const folded = (text) => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/** What a page of agents that match {q, status} must hold. */
export const agentsAsked =
  /** @param {{q: string, status: string}} asked */
  ({ q, status }) =>
  /** @param {ReturnType<typeof agentPage>} page */
  ({ agents }) => {
    for (const found of agents) {
      const { agentId, disabledAt } = found;
      mustFit(!q || folded(agentId).includes(folded(q)), `it lists the agent ${agentId}`);
      mustFit(
        !status || (status === 'disabled') === Boolean(disabledAt),
        `it lists the agent ${agentId}, which is not ${status}`,
      );
      mustHaveItsID(found);
    }
  };

/**
 * What a page of passports that match {agent, status} must hold.
 * @param {{agent?: string, status?: string}} asked
 */
export const passportsAsked = ({ agent: agentId, status }) => eachNames('passports', { agentId, status });

/**
 * An agent as the control log is held against it.
 * @param {RegisteredAgent} agent
 * @returns {ListedItem}
 */
export const listedAgent = ({ agentId, registeredAt, disabledAt }) =>
  ({ subject: `agent:${agentId}`, lists: { registeredAt, disabledAt } });

/**
 * A passport as the control log is held against it.
 * @param {ListedPassport} passport
 * @returns {ListedItem}
 */
export const listedPassport = ({ jti, revokedAt, reason, status, ...lists }) =>
  ({ subject: `passport:${jti}`, lists: { ...lists, revokedAt, reason, revoked: status === 'revoked' } });

/**
 * @param {string} agentId
 * @param {string} [more]
 */
const at = (agentId, more = '') => `/v1/agents/${encodeURIComponent(agentId)}${more}`;

/**
 * A fresh SVID of an agent.
 * @param {string} agentId
 */
export async function readSVID(agentId) {
  const { svid, spiffeId } = await call(
    having({ agentId: string, spiffeId: string, svid: string }),
    'GET',
    at(agentId, '/svid'),
    { asked: isOf(agentId) },
  );
  mustFit(decode(svid).claims.value.sub === spiffeId, 'its token is of another agent');
  return svid;
}

/**
 * Whether a passport in an answer is of an agent, with no other scopes than those.
 * @param {string} token
 * @param {string} agentId
 * @param {string[]} [scopes]
 */
export function mustBePassport(token, agentId, scopes) {
  const { passport, claims } = decode(token);
  mustFit(
    passport?.agentId === agentId && claims.value.sub === spiffeOf(agentId)
      && passport.org === signedIn().key.companyId,
    'its token is of another agent',
  );
  mustFit(
    !scopes || passport?.scopes.every((scope) => scopes.includes(scope)),
    `its token has the scopes ${passport?.scopes.join(' ')}`,
  );
}

/** @param {string} agentId */
export const disable = (agentId) => call(disabling, 'POST', at(agentId, '/disable'), { asked: { agentId } });
/** @param {string} agentId */
export const enable = (agentId) => call(agent, 'POST', at(agentId, '/enable'), { asked: isOf(agentId) });

/**
 * An agent; null if it is not registered.
 * @param {string} agentId
 */
export async function findAgent(agentId) {
  try {
    return await call(agent, 'GET', at(agentId), { asked: isOf(agentId) });
  } catch (err) {
    if (err.status === 404) return null;
    throw err;
  }
}

/**
 * Registers an agent. isNew: only where it is none yet. metadata: a JSON object, or undefined.
 * @param {string} agentId
 * @param {unknown} metadata
 * @param {boolean} isNew
 */
export const register = (agentId, metadata, isNew) =>
  call(agent, 'POST', '/v1/agents/register', {
    asked: isOf(agentId),
    body: { agentId, metadata },
    headers: isNew ? { 'If-None-Match': '*' } : {},
  });

/**
 * What the control log says of whether a record's action was allowed when it happened.
 * @param {number} index
 */
export function authorityOf(index) {
  return call(authorityForm, 'GET', `/v1/authority/${index}`, { asked: { index } });
}

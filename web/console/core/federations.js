// @ts-check
// Other issuers whose tokens the company trusts, and the rules that say which agents their
// workloads are.
import { boolean, having, integer, json, list, nullable, string, timestamp } from '../lib/form.js';
import { canonical } from '../lib/jcs.js';
import { call } from './api.js';
import { NOTHING } from './asked.js';

/** @type {Form<Federation>} */
const federation = having(
  {
    name: string,
    issuer: string,
    audience: string,
    rules: list(having({ match: json, agentId: string, ttl: integer, register: boolean }, { person: boolean })),
    createdAt: timestamp,
    keys: having({ count: integer, fetchedAt: nullable(timestamp) }, { failure: string }),
  },
  { jwks: json, jwksUri: string },
);

export const readFederations = async () =>
  (await call(having({ federations: list(federation) }), 'GET', '/v1/federation', { asked: NOTHING })).federations;

/**
 * It as the control log is held against it.
 * @param {Federation} federation
 * @returns {ListedItem}
 */
export const listedFederation = ({ rules, jwks, jwksUri, ...lists }) => ({
  subject: `federation:${lists.name}`,
  lists: {
    ...lists, jwksUri, jwks: jwks && plain(jwks),
    rules: rules.map(({ match, ...rule }) => ({ ...rule, match: plain(match) })),
  },
});

/** @param {JSONText} text */
const plain = ({ node }) => JSON.parse(canonical(node));

/**
 * @typedef {{name: string, issuer: string, audience: string, rules: unknown}} Required
 * @param {Required & {jwks?: unknown, jwksUri?: string}} body
 */
export const createFederation = (body) =>
  call(federation, 'POST', '/v1/federation', { asked: { name: body.name, issuer: body.issuer }, body });

/** @param {string} name */
export const deleteFederation = (name) =>
  call(having({ deleted: boolean }), 'DELETE', `/v1/federation/${encodeURIComponent(name)}`, { asked: NOTHING });

/**
 * What to start from, for issuers that many have. The values in capitals are to be replaced.
 * @type {{name: string, title: string, host: string, rules: object[]}[]}
 */
export const EXAMPLES = [
  {
    name: 'github',
    title: 'GitHub Actions',
    host: 'token.actions.githubusercontent.com',
    rules: [
      { match: { repository: 'OWNER/REPOSITORY', ref: 'refs/heads/main' }, agentId: 'ci-{repository}', ttl: 600 },
    ],
  },
  {
    name: 'gitlab',
    title: 'GitLab CI',
    host: 'gitlab.com',
    rules: [
      {
        match: { project_path: 'GROUP/PROJECT', ref_type: 'branch', ref: 'main', ref_protected: 'true' },
        agentId: 'ci-{project_path}',
        ttl: 600,
      },
    ],
  },
  {
    name: 'cluster',
    title: 'Kubernetes',
    host: 'kubernetes.default.svc.cluster.local',
    rules: [{ match: { sub: 'system:serviceaccount:NAMESPACE:NAME' }, agentId: 'AGENT' }],
  },
  {
    name: 'spire',
    title: 'SPIRE',
    host: 'OIDC-DISCOVERY.EXAMPLE.ORG',
    rules: [{ match: { sub: 'spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/NAME' }, agentId: 'AGENT', ttl: 300 }],
  },
];

/**
 * A JSON text that somebody has typed; what names the field where it is none.
 * @param {string} text
 * @param {string} what
 */
export function typed(text, what) {
  try {
    return JSON.parse(text);
  } catch (err) {
    throw new Error(`${what} is not JSON: ${err.message}`);
  }
}

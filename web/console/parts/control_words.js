// @ts-check
// What a control record says, in plain words. Its members were signed, but they are from outside
// all the same: each is read in its form, and a record that has others than its kind should is
// shown by its kind alone.
import { html } from '../vendor/preact-htm.js';
import { count, timeText, plural, short } from '../core/format.js';
import { href } from '../core/router.js';
import { boolean, having, integer, json, jsonOf, list, nullable, string } from '../lib/form.js';
import { visible } from '../lib/visible.js';
import { table } from '../lib/table.js';

const said = having({ subject: string, by: nullable(string) }, { agentId: string });

/**
 * What it is about, whose agent's that is where it says so, and who asked for it: {subject, kind,
 * name, agentId, by}; by is null for the command line or the service.
 * @param {{inner: JSONNode, source: string}} record
 */
export function aboutOf({ inner, source }) {
  const { subject, by, agentId = '' } = said(inner, source, 'payload');
  const [kind] = subject.split(':', 1);
  return { subject, kind, name: subject.slice(kind.length + 1), agentId, by };
}

/** @param {{id: string}} props */
const Agent = ({ id }) => html`<a href=${href('agents', id)}>${visible(id)}</a>`;
/** @param {{jti: string}} props */
const Passport = ({ jti }) =>
  html`<a href=${href('control', '', { subject: `passport:${jti}` })} title="Passport ${visible(jti)}">
  <code>${short(visible(jti), 8, 4)}</code></a>`;
/** @param {{of: string}} props */
const Name = ({ of }) => html`<code>${short(visible(of), 16, 6)}</code>`;
/** @param {{of: string[]}} props */
const Names = ({ of }) => of.map((name, i) => html`${i > 0 && ', '}<${Name} of=${name} />`);
/** @param {string | null} [expiresAt] */
const until = (expiresAt) => (expiresAt ? `, until ${timeText(expiresAt)}` : ', without expiry');
/** @param {number} seconds */
const day = (seconds) => timeText(new Date(seconds * 1000).toISOString());

const credential = having(
  { fingerprint: string },
  { label: nullable(string), role: string, expiresAt: nullable(string), clientId: string, jwksUri: string },
);
const agent = having({ agentId: string }, { passportsRevoked: integer, metadataHash: nullable(string) });
const issued = having({ jti: string, agentId: string, scopes: list(string), expiresAt: integer }, { rotates: string });
const revoked = having({ jti: string, agentId: string }, { reason: nullable(string), replacedBy: string });
const webhook = having(
  { webhookId: string },
  { reason: string, agents: nullable(list(string)), actions: nullable(list(string)), skippedRecords: integer },
);

const agentKey = having(
  { agentId: string, thumbprint: string },
  { expiresAt: nullable(string), enrolment: nullable(string), endorsement: nullable(string), label: nullable(string) },
);
const POLICY = new Map([['any', 'any credential may speak'], ['key', 'only a key of the agent may speak']]);
const agentPolicy = having({ agentId: string }, { attest: string, groups: list(string) });
const companyPolicy = having(
  {},
  { attest: string, exchangeAudiences: list(string), decisions: string, changes: string },
);
const CHANGES = new Map([['any', 'every credential that may'], ['people', 'only people who have signed in']]);
const passkey = having({ personId: string, credentialId: string });
const person = having({ personId: string }, { name: string, disabledAt: string, roles: list(string) });
const DECISIONS = new Map([['denied', 'those that deny'], ['all', 'all']]);

const row = having({ table: string, name: string });

/**
 * @param {number | null} most
 * @param {string} of
 */
const quota = (most, of) =>
  (most === null ? `the server’s limit of ${of}` : most === 0 ? `no limit of ${of}` : `${count(most)} ${of}`);

/** @param {string | null} [label] */
const labelled = (label) => label && html` “${visible(label)}”`;

/** @param {{replaced: {actions: number, control: number} | null}} props */
function Restored({ replaced }) {
  if (!replaced) return html`The database was restored from a backup`;
  return html`The database was restored from a backup, over one in which the logs
  had ${plural(replaced.actions, 'action')} and ${plural(replaced.control, 'control record')}`;
}

/** @param {{changed: {name: string, value: {from: string, to: string} | null}[]}} props */
function Changed({ changed }) {
  return html`Settings were
  changed: ${changed.map(({ name, value }, i) => html`${i > 0 && ', '}<strong>${visible(name)}</strong>
  ${value && html` from <code>${value.from}</code> to <code>${value.to}</code>`}`)}`;
}

/**
 * A value of a setting as it is spelled; a text without its quotes, and nothing as "none".
 * @param {JSONText} setting
 */
function settingOf({ node, source }) {
  if (node.type === 'string') return node.value === '' ? 'none' : visible(short(node.value, 60, 20));
  return visible(short(source.slice(node.start, node.end), 60, 20));
}
const WHY_DISABLED = new Map([
  ['requested', ' on request'],
  ['gone', ' by the service: the receiver is gone'],
  ['failing', ' by the service after repeated failures'],
]);
const VIA = new Map([['http', 'over HTTP on the server’s own machine'], ['command line', 'on the command line']]);
const fromTo = having({ from: json, to: json });

/**
 * A kind of control records: its name, the form of what they say, and that in words.
 * @template T
 * @param {string} name
 * @param {Form<T>} form
 * @param {(said: T) => Child} words
 * @returns {{name: string, say: (inner: JSONNode, source: string) => Child}}
 */
const kind = (name, form, words) => ({ name, say: (inner, source) => words(form(inner, source, 'payload')) });

/** @type {Record<string, ReturnType<typeof kind>>} */
const KINDS = table({
  'company.registered': kind(
    'Company registered',
    having({ kid: string }),
    ({ kid }) => html`The company was registered, with the signing key <${Name} of=${kid} />`,
  ),
  'api-key.created': kind(
    'API key created',
    credential,
    ({ fingerprint, label, role, expiresAt }) =>
      html`The API key <${Name} of=${fingerprint} />
      ${labelled(label)} was created, ${role ? `as ${visible(role)}` : 'without a role'}${until(expiresAt)}`,
  ),
  'api-key.deleted': kind(
    'API key deleted',
    credential,
    ({ fingerprint, label }) => html`The API key <${Name} of=${fingerprint} />${labelled(label)} was deleted`,
  ),
  'oauth-client.created': kind(
    'OAuth client created',
    credential,
    ({ clientId = '', role, expiresAt, jwksUri }) =>
      html`The OAuth client <${Name} of=${clientId} /> was created, ${role ? `as ${visible(role)}` : 'without a role'}
      ${until(expiresAt)}${jwksUri && html`; its keys are at <code>${visible(jwksUri)}</code>`}`,
  ),
  'oauth-client.deleted': kind(
    'OAuth client deleted',
    credential,
    ({ clientId = '' }) => html`The OAuth client <${Name} of=${clientId} /> was deleted`,
  ),
  'payloads.pruned': kind(
    'Payloads pruned',
    having({ records: integer, archive: string }),
    ({ records, archive }) =>
      html`The payloads of the first ${plural(records, 'action')} were pruned; the archive with the SHA-256
      <${Name} of=${archive} /> has them`,
  ),
  'bytes.recounted': kind(
    'Bytes counted again',
    having({ log: string, records: integer, from: integer, to: integer }),
    ({ log, records, from, to }) =>
      html`The bytes of ${plural(records, 'record')} of the log ${visible(log)} were counted again: ${to}, not ${from}`,
  ),
  'call.disobeyed': kind(
    'Refused call ran',
    having({ agentId: string, tool: string, refused: integer, done: integer }),
    ({ agentId, tool, refused, done }) =>
      html`A call of <${Name} of=${tool || 'a tool'} /> by <${Agent} id=${agentId} /> ran although it was refused:
      refused at <a href=${href('records', refused)}>record ${refused}</a>, done at${' '}
      <a href=${href('records', done)}>record ${done}</a>`,
  ),
  'approval.granted': kind(
    'Approved',
    having({ approvalId: string }),
    ({ approvalId }) => html`A call was approved: <${Name} of=${approvalId} />`,
  ),
  'approval.denied': kind(
    'Approval denied',
    having({ approvalId: string }),
    ({ approvalId }) => html`A call was not approved: <${Name} of=${approvalId} />`,
  ),
  'approval.used': kind(
    'Approval used',
    having({ approvalId: string, index: integer, remaining: integer }),
    ({ approvalId, index, remaining }) => html`The approval <${Name} of=${approvalId} /> was used by
      <a href=${href('records', index)}>record ${index}</a>; it allows ${plural(remaining, 'more use')}`,
  ),
  'approval.withdrawn': kind(
    'Approval withdrawn',
    having({ approvalId: string, reason: string }),
    ({ approvalId, reason }) => html`The approval <${Name} of=${approvalId} /> was
      withdrawn${reason === 'person' ? ': who had approved it was disabled or deleted' : ''}`,
  ),
  'agent.registered': kind(
    'Agent registered',
    agent,
    ({ agentId, metadataHash }) =>
      html`The agent <${Agent} id=${agentId} /> was registered${metadataHash && ', with metadata'}`,
  ),
  'agent.disabled': kind(
    'Agent disabled',
    agent,
    ({ agentId, passportsRevoked = 0 }) =>
      html`The agent <${Agent} id=${agentId} /> was
      disabled; ${plural(passportsRevoked, 'passport')} ${passportsRevoked === 1 ? 'was' : 'were'} revoked with it`,
  ),
  'agent.enabled': kind(
    'Agent enabled',
    agent,
    ({ agentId }) => html`The agent <${Agent} id=${agentId} /> was enabled again`,
  ),
  'agent-key.enrolled': kind(
    'Agent key enrolled',
    agentKey,
    ({ agentId, thumbprint, label, expiresAt, enrolment, endorsement }) => html`
    The key <${Name} of=${thumbprint} />${labelled(label)} of <${Agent} id=${agentId} /> was
    enrolled${enrolment ? html` with the enrolment token <${Name} of=${enrolment} />` : ''}
    ${endorsement ? ', and the key before it signed for it' : ''}${until(expiresAt)}`,
  ),
  'agent-key.revoked': kind(
    'Agent key revoked',
    having({ agentId: string, thumbprint: string }, { reason: nullable(string), since: nullable(string) }),
    ({ agentId, thumbprint, reason, since }) => html`
    The key <${Name} of=${thumbprint} /> of <${Agent} id=${agentId} /> was
    revoked${reason ? `: ${visible(reason)}` : ''}${since ? `; it was in other hands since ${timeText(since)}` : ''}`,
  ),
  'token-key.created': kind(
    'Token key created',
    having({ kid: string, alg: string, signsFrom: string }),
    ({ kid, alg, signsFrom }) => html`
    The key <${Name} of=${kid} /> was created, which signs tokens for others with ${visible(alg)} from
    ${timeText(signsFrom)} on`,
  ),
  'token-key.ended': kind(
    'Token key ended',
    having({ kid: string, endedAt: string, compromised: boolean }),
    ({ kid, endedAt, compromised }) => html`
    The token key <${Name} of=${kid} /> ${compromised ? 'was declared compromised: it ended' : 'signs until'}
    ${timeText(endedAt)}`,
  ),
  'federation.created': kind(
    'Federation created',
    having({ federation: string, issuer: string, audience: string }),
    ({ federation, issuer }) => html`
    The company trusts the issuer <${Name} of=${issuer} />, by the federation <${Name} of=${federation} />`,
  ),
  'federation.deleted': kind(
    'Federation deleted',
    having({ federation: string }),
    ({ federation }) => html`The federation <${Name} of=${federation} /> was deleted`,
  ),
  'federation.used': kind(
    'Federation used',
    having({ federation: string, issuer: string, tokenSubject: string, agentId: string }),
    ({ federation, issuer, tokenSubject, agentId }) => html`
    <${Name} of=${tokenSubject} /> of <${Name} of=${issuer} /> acted as <${Agent} id=${agentId} />, by the federation
    ${' '}<${Name} of=${federation} />`,
  ),
  'agent.policy-changed': kind(
    'Agent policy changed',
    agentPolicy,
    ({ agentId, attest = '', groups }) => (groups
      ? html`The agent <${Agent} id=${agentId} /> is
        ${groups.length ? html` in <${Names} of=${groups} />` : ' in no group'} from then on`
      : html`In the name of <${Agent} id=${agentId} />
        , ${POLICY.get(attest) ?? visible(attest)} from then on`),
  ),
  'policy.put': kind(
    'Policy put',
    having({ policyId: string, sha256: string, revision: integer }, { description: nullable(string) }),
    ({ policyId, sha256, description, revision }) => html`
    The policy <${Name} of=${policyId} />${description && html` “${visible(description)}”`} was put, with the SHA-256
    ${' '}<${Name} of=${sha256} />: revision ${count(revision)} of the policies`,
  ),
  'policy.deleted': kind(
    'Policy deleted',
    having({ policyId: string, revision: integer }),
    ({ policyId, revision }) => html`
    The policy <${Name} of=${policyId} /> was deleted: revision ${count(revision)} of the policies`,
  ),
  'person.created': kind(
    'Person added',
    person,
    ({ personId, name = '', roles = [] }) => html`
    <${Name} of=${personId} /> “${visible(name)}” was added, as <${Names} of=${roles} />`,
  ),
  'person.changed': kind(
    'Person changed',
    person,
    ({ personId, name = '', roles = [], disabledAt }) => html`
    <${Name} of=${personId} /> “${visible(name)}” is ${disabledAt !== undefined ? 'disabled, and ' : ''}
    <${Names} of=${roles} /> from then on`,
  ),
  'person.deleted': kind('Person deleted', person, ({ personId }) => html`<${Name} of=${personId} /> was deleted`),
  'person.signed-in': kind('Signed in', person, ({ personId }) => html`<${Name} of=${personId} /> signed in`),
  'person.signed-out': kind(
    'Signed out',
    person,
    ({ personId }) => html`A session of <${Name} of=${personId} /> ended`,
  ),
  'passkey.enrolled': kind(
    'Passkey enrolled',
    passkey,
    ({ personId, credentialId }) => html`
    The passkey <${Name} of=${credentialId} /> of <${Name} of=${personId} /> was enrolled`,
  ),
  'passkey.revoked': kind(
    'Passkey revoked',
    passkey,
    ({ personId, credentialId }) => html`
    The passkey <${Name} of=${credentialId} /> of <${Name} of=${personId} /> was revoked`,
  ),
  'invitation.created': kind(
    'Invitation made',
    having({ personId: string, expiresAt: string }),
    ({ personId, expiresAt }) => html`<${Name} of=${personId} /> was invited${until(expiresAt)}`,
  ),
  'company.policy-changed': kind(
    'Company policy changed',
    companyPolicy,
    ({ attest = '', exchangeAudiences: named, decisions, changes }) => (changes !== undefined
      ? html`Rights are changed by ${CHANGES.get(changes) ?? visible(changes)} from then on`
      : decisions !== undefined
      ? html`Of the decisions that are in no record of the agent, ${DECISIONS.get(decisions) ?? visible(decisions)}
        ${' '}become records from then on`
      : named === undefined ? html`In the name of every agent, ${POLICY.get(attest) ?? visible(attest)} from then on`
        : named.length === 0 ? 'Tokens are exchanged for this service alone from then on'
          : html`Tokens are exchanged for <${Names} of=${named} /> from then on`),
  ),
  'company.suspended': kind(
    'Company suspended',
    having({ suspendedAt: string, reason: string }),
    ({ reason }) => html`The operator of the service suspended the company: “${visible(reason)}”`,
  ),
  'company.resumed': kind(
    'Company resumed',
    having({ reason: string }),
    ({ reason }) => html`The operator of the service ended the suspension: “${visible(reason)}”`,
  ),
  'company.quota-changed': kind(
    'Quota changed',
    having({ maxRecords: nullable(integer), maxBytes: nullable(integer), reason: string }),
    ({ maxRecords, maxBytes, reason }) => html`The operator of the service set the quota of each log:
    ${quota(maxRecords, 'records')} and ${quota(maxBytes, 'bytes')}, “${visible(reason)}”`,
  ),
  'enrolment.created': kind(
    'Enrolment token created',
    having({ agentId: string, fingerprint: string, expiresAt: string }, { label: nullable(string) }),
    ({ agentId, fingerprint, label, expiresAt }) => html`
    The enrolment token <${Name} of=${fingerprint} />${labelled(label)} for a key of <${Agent} id=${agentId} /> was
    created${until(expiresAt)}`,
  ),
  'passport.issued': kind(
    'Passport issued',
    issued,
    ({ jti, agentId, scopes, expiresAt, rotates }) => html`
    The passport <${Passport} jti=${jti} /> was issued to <${Agent} id=${agentId} />
    , for ${scopes.length ? visible(scopes.join(', ')) : 'no scope'}, until ${day(expiresAt)}
    ${rotates && html`; it replaces <${Passport} jti=${rotates} />`}`,
  ),
  'passport.revoked': kind(
    'Passport revoked',
    revoked,
    ({ jti, agentId, reason, replacedBy }) => html`
    The passport <${Passport} jti=${jti} /> of <${Agent} id=${agentId} /> was revoked
    ${reason ? `: ${visible(reason)}` : ''}${replacedBy && html`; <${Passport} jti=${replacedBy} /> replaces it`}`,
  ),
  'signing-key.rotated': kind(
    'Signing key changed',
    having({ kid: string, previousKid: string, compromised: boolean, fromIndex: integer }),
    ({ kid, previousKid, compromised, fromIndex }) => html`
    The signing key changed from <${Name} of=${previousKid} /> to <${Name} of=${kid} />
    , which signs from <a href=${href('records', fromIndex)}>record ${count(fromIndex)}</a> on
    ${compromised && html`; <strong>the previous key was declared compromised</strong>`}`,
  ),
  'webhook.created': kind(
    'Webhook created',
    webhook,
    ({ webhookId }) => html`The webhook <${Name} of=${webhookId} /> was created`,
  ),
  'webhook.deleted': kind(
    'Webhook deleted',
    webhook,
    ({ webhookId }) => html`The webhook <${Name} of=${webhookId} /> was deleted`,
  ),
  'webhook.enabled': kind(
    'Webhook enabled',
    webhook,
    ({ webhookId, skippedRecords = 0 }) => html`
    The webhook <${Name} of=${webhookId} /> was enabled${
      skippedRecords > 0 && ` and passes over ${count(skippedRecords)} records whose payloads were pruned`
    }`,
  ),
  'webhook.disabled': kind(
    'Webhook disabled',
    webhook,
    ({ webhookId, reason }) => html`
    The webhook <${Name} of=${webhookId} /> was disabled
    ${WHY_DISABLED.get(reason ?? '') ?? ''}`,
  ),
  'webhook.secret-rotated': kind(
    'Webhook secret changed',
    webhook,
    ({ webhookId }) => html`The secret of the webhook <${Name} of=${webhookId} /> was changed`,
  ),
  'settings.changed': kind(
    'Settings changed',
    having({ changed: jsonOf('object') }),
    ({ changed: { node, source } }) => html`
    <${Changed}
      changed=${node.members.map(({ key, value }) => ({ name: key, value: changeOf(value, source, key) }))} />`,
  ),
  'database.restored': kind(
    'Database restored',
    having({ replaced: nullable(having({ actions: nullable(integer), control: nullable(integer) })) }),
    ({ replaced }) => {
      const { actions = null, control = null } = replaced ?? {};
      return html`
    <${Restored} replaced=${actions !== null && control !== null ? { actions, control } : null} />`;
    },
  ),
  'api-key.recovered': kind(
    'API key recovered',
    having({ fingerprint: string, via: string }),
    ({ fingerprint, via }) => html`
    The API key <${Name} of=${fingerprint} /> was
    recovered ${VIA.get(via) ?? visible(via)}`,
  ),
  'database.rekeyed': kind(
    'Master key changed',
    having({ from: string, to: string }),
    ({ from, to }) => html`
    The encryption of keys at rest changed from ${visible(from)} to ${visible(to)}`,
  ),
  'database.moved': kind(
    'Database moved',
    having({ from: string, to: string, digest: string }),
    ({ from, to, digest }) => html`
    The database was moved from ${visible(from)} to ${visible(to)}, with the digest <${Name} of=${digest} />`,
  ),
  'head-file.made': kind(
    'Head file created',
    having({ madeAt: string }),
    ({ madeAt }) => html`
    A head file was created at ${timeText(madeAt)}, and the database was trusted as it was then`,
  ),
  'row.adopted': kind(
    'Row adopted',
    row,
    ({ table, name }) => html`
    The row <${Name} of=${name} /> of ${visible(table)} was adopted unchanged: no control record described it`,
  ),
  'row.accepted': kind(
    'Row accepted',
    row,
    ({ table, name }) => html`
    An operator accepted the current state of the row <${Name} of=${name} /> of ${visible(table)}`,
  ),
  'tables.adopted': kind(
    'Tables adopted',
    having({}),
    () => html`The tables were adopted unchanged; from here on this log covers all rows`,
  ),
  'tables.accepted': kind(
    'Tables accepted',
    having({ rows: integer }, { reason: nullable(string) }),
    ({ rows, reason }) => html`
    An operator accepted ${plural(rows, 'row')} that differed from this log${reason ? `: ${visible(reason)}` : ''}`,
  ),
  'rollback.accepted': kind(
    'Rollback accepted',
    having({}, { reason: nullable(string) }),
    ({ reason }) => html`
    An operator accepted that the logs are shorter than they were${reason ? `: ${visible(reason)}` : ''}`,
  ),
});

/**
 * @param {JSONNode} node
 * @param {string} source
 * @param {string} name
 */
function changeOf(node, source, name) {
  const value =
    node.type === 'object' && ['from', 'to'].every((key) => node.members.some((m) => m.key === key))
      ? fromTo(node, source, name)
      : null;
  return value && { from: settingOf(value.from), to: settingOf(value.to) };
}

/** The kinds of control records, [actionType, name]. */
export const kinds = Object.entries(KINDS).map(([action, { name }]) => [action, name]);

/** @param {string} action */
export const kindName = (action) => (Object.hasOwn(KINDS, action) ? KINDS[action].name : visible(action));

/**
 * What happened, as a sentence with links. change is {action, inner, source}.
 * @param {{change: {action: string, inner: JSONNode, source: string}}} props
 */
export function ControlWords({ change: { action, inner, source } }) {
  try {
    if (Object.hasOwn(KINDS, action)) return KINDS[action].say(inner, source);
    return html`${visible(action)}, of ${visible(aboutOf({ inner, source }).subject)}`;
  } catch (err) {
    return html`${visible(action)}, in a format that this console does not know: ${visible(err.message)}`;
  }
}

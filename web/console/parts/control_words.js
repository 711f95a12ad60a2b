// @ts-check
// What a control record says, in plain words. Its members were signed, but they are from outside
// all the same: each is read in its form, and a record that has others than its kind should is
// shown by its kind alone.
import { html } from '../vendor/preact-htm.js';
import { count, timeText, plural, short } from '../core/format.js';
import { href } from '../core/router.js';
import { boolean, having, integer, json, jsonOf, list, nullable, string } from '../lib/form.js';
import { visible } from '../lib/visible.js';

const said = having({ subject: string, by: nullable(string) }, { agentId: string });

/**
 * What it is about, whose agent's that is where it says so, and who asked for it: {subject, kind,
 * name, agentId, by}; by is null for the command line or nobody.
 */
export function aboutOf({ inner, source }) {
  const { subject, by, agentId = '' } = said(inner, source, 'payload');
  const [kind] = subject.split(':', 1);
  return { subject, kind, name: subject.slice(kind.length + 1), agentId, by };
}

const Agent = ({ id }) => html`<a href=${href('agents', id)}>${visible(id)}</a>`;
const Passport = ({ jti }) =>
  html`<a href=${href('control', '', { subject: `passport:${jti}` })} title="Passport ${visible(jti)}">
  <code>${short(visible(jti), 8, 4)}</code></a>`;
const Name = ({ of }) => html`<code>${short(visible(of), 16, 6)}</code>`;
const until = (expiresAt) => (expiresAt ? `, until ${timeText(expiresAt)}` : ', without expiry');
const day = (seconds) => timeText(new Date(seconds * 1000).toISOString());

const credential = having(
  { fingerprint: string },
  { label: nullable(string), role: string, expiresAt: nullable(string), clientId: string },
);
const agent = having({ agentId: string }, { passportsRevoked: integer, metadataHash: nullable(string) });
const issued = having({ jti: string, agentId: string, scopes: list(string), expiresAt: integer }, { rotates: string });
const revoked = having({ jti: string, agentId: string }, { reason: nullable(string), replacedBy: string });
const webhook = having(
  { webhookId: string },
  { reason: string, agents: nullable(list(string)), actions: nullable(list(string)) },
);

const row = having({ table: string, name: string });

const labelled = (label) => label && html` “${visible(label)}”`;

function Restored({ replaced }) {
  if (!replaced) return html`The database was restored from a backup`;
  return html`The database was restored from a backup, over one in which the logs
  had ${plural(replaced.actions, 'action')} and ${plural(replaced.control, 'control record')}`;
}

function Changed({ changed }) {
  return html`Settings were
  changed: ${changed.map(({ name, value }, i) => html`${i > 0 && ', '}<strong>${visible(name)}</strong>
  ${value && html` from <code>${value.from}</code> to <code>${value.to}</code>`}`)}`;
}

// A value of a setting as it is spelled; a text without its quotes, and nothing as "none".
function settingOf({ node, source }) {
  if (node.type === 'string') return node.value === '' ? 'none' : visible(short(node.value, 60, 20));
  return visible(short(source.slice(node.start, node.end), 60, 20));
}
const fromTo = having({ from: json, to: json });

/** @type {Record<string, [string, any, (said: any) => any]>} */
const KINDS = {
  'company.registered': [
    'Company registered',
    having({ kid: string }),
    ({ kid }) => html`The company was registered, with the signing key <${Name} of=${kid} />`,
  ],
  'api-key.created': [
    'API key created',
    credential,
    ({ fingerprint, label, role, expiresAt }) =>
      html`The API key <${Name} of=${fingerprint} />
      ${labelled(label)} was created, ${role ? `as ${visible(role)}` : 'without a role'}${until(expiresAt)}`,
  ],
  'api-key.deleted': [
    'API key deleted',
    credential,
    ({ fingerprint, label }) => html`The API key <${Name} of=${fingerprint} />${labelled(label)} was deleted`,
  ],
  'oauth-client.created': [
    'OAuth client created',
    credential,
    ({ clientId = '', role, expiresAt }) =>
      html`The OAuth client <${Name} of=${clientId} /> was created, ${role ? `as ${visible(role)}` : 'without a role'}
      ${until(expiresAt)}`,
  ],
  'oauth-client.deleted': [
    'OAuth client deleted',
    credential,
    ({ clientId = '' }) => html`The OAuth client <${Name} of=${clientId} /> was deleted`,
  ],
  'agent.registered': [
    'Agent registered',
    agent,
    ({ agentId, metadataHash }) =>
      html`The agent <${Agent} id=${agentId} /> was registered${metadataHash && ', with metadata'}`,
  ],
  'agent.disabled': [
    'Agent disabled',
    agent,
    ({ agentId, passportsRevoked = 0 }) =>
      html`The agent <${Agent} id=${agentId} /> was
      disabled; ${plural(passportsRevoked, 'passport')} ${passportsRevoked === 1 ? 'was' : 'were'} revoked with it`,
  ],
  'agent.enabled': [
    'Agent enabled',
    agent,
    ({ agentId }) => html`The agent <${Agent} id=${agentId} /> was enabled again`,
  ],
  'passport.issued': [
    'Passport issued',
    issued,
    ({ jti, agentId, scopes, expiresAt, rotates }) => html`
    The passport <${Passport} jti=${jti} /> was issued to <${Agent} id=${agentId} />
    , for ${scopes.length ? visible(scopes.join(', ')) : 'no scope'}, until ${day(expiresAt)}
    ${rotates && html`; it replaces <${Passport} jti=${rotates} />`}`,
  ],
  'passport.revoked': [
    'Passport revoked',
    revoked,
    ({ jti, agentId, reason, replacedBy }) => html`
    The passport <${Passport} jti=${jti} /> of <${Agent} id=${agentId} /> was revoked
    ${reason ? `: ${visible(reason)}` : ''}${replacedBy && html`; <${Passport} jti=${replacedBy} /> replaces it`}`,
  ],
  'signing-key.rotated': [
    'Signing key changed',
    having({ kid: string, previousKid: string, compromised: boolean, fromIndex: integer }),
    ({ kid, previousKid, compromised, fromIndex }) => html`
    The signing key changed from <${Name} of=${previousKid} /> to <${Name} of=${kid} />
    , which signs from <a href=${href('records', fromIndex)}>record ${count(fromIndex)}</a> on
    ${compromised && html`; <strong>the previous key was declared compromised</strong>`}`,
  ],
  'webhook.created': [
    'Webhook created',
    webhook,
    ({ webhookId }) => html`The webhook <${Name} of=${webhookId} /> was created`,
  ],
  'webhook.deleted': [
    'Webhook deleted',
    webhook,
    ({ webhookId }) => html`The webhook <${Name} of=${webhookId} /> was deleted`,
  ],
  'webhook.enabled': [
    'Webhook enabled',
    webhook,
    ({ webhookId }) => html`The webhook <${Name} of=${webhookId} /> was enabled`,
  ],
  'webhook.disabled': [
    'Webhook disabled',
    webhook,
    ({ webhookId, reason }) => html`
    The webhook <${Name} of=${webhookId} /> was disabled
    ${{ requested: ' on request', gone: ' by the service: the receiver is gone',
      failing: ' by the service after repeated failures' }[reason] ?? ''}`,
  ],
  'webhook.secret-rotated': [
    'Webhook secret changed',
    webhook,
    ({ webhookId }) => html`The secret of the webhook <${Name} of=${webhookId} /> was changed`,
  ],
  'settings.changed': [
    'Settings changed',
    having({ changed: jsonOf('object') }),
    ({ changed: { node, source } }) => html`
    <${Changed}
      changed=${node.members.map(({ key, value }) => ({ name: key, value: changeOf(value, source, key) }))} />`,
  ],
  'database.restored': [
    'Database restored',
    having({ replaced: nullable(having({ actions: nullable(integer), control: nullable(integer) })) }),
    ({ replaced }) => html`
    <${Restored} replaced=${replaced && replaced.actions !== null && replaced.control !== null ? replaced : null} />`,
  ],
  'api-key.recovered': [
    'API key recovered',
    having({ fingerprint: string, via: string }),
    ({ fingerprint, via }) => html`
    The API key <${Name} of=${fingerprint} /> was
    recovered ${{ http: 'over HTTP on the server’s own machine', 'command line': 'on the command line' }[via]
      ?? visible(via)}`,
  ],
  'database.rekeyed': [
    'Master key changed',
    having({ from: string, to: string }),
    ({ from, to }) => html`
    The encryption of keys at rest changed from ${visible(from)} to ${visible(to)}`,
  ],
  'database.moved': [
    'Database moved',
    having({ from: string, to: string, digest: string }),
    ({ from, to, digest }) => html`
    The database was moved from ${visible(from)} to ${visible(to)}, with the digest <${Name} of=${digest} />`,
  ],
  'head-file.made': [
    'Head file created',
    having({ madeAt: string }),
    ({ madeAt }) => html`
    A head file was created at ${timeText(madeAt)}, and the database was trusted as it was then`,
  ],
  'row.adopted': [
    'Row adopted',
    row,
    ({ table, name }) => html`
    The row <${Name} of=${name} /> of ${visible(table)} was adopted unchanged: no control record described it`,
  ],
  'row.accepted': [
    'Row accepted',
    row,
    ({ table, name }) => html`
    An operator accepted the current state of the row <${Name} of=${name} /> of ${visible(table)}`,
  ],
  'tables.adopted': [
    'Tables adopted',
    having({}),
    () => html`The tables were adopted unchanged; from here on this log covers all rows`,
  ],
  'tables.accepted': [
    'Tables accepted',
    having({ rows: integer }, { reason: nullable(string) }),
    ({ rows, reason }) => html`
    An operator accepted ${plural(rows, 'row')} that differed from this log${reason ? `: ${visible(reason)}` : ''}`,
  ],
  'rollback.accepted': [
    'Rollback accepted',
    having({}, { reason: nullable(string) }),
    ({ reason }) => html`
    An operator accepted that the logs are shorter than they were${reason ? `: ${visible(reason)}` : ''}`,
  ],
};

function changeOf(node, source, name) {
  const value =
    node.type === 'object' && ['from', 'to'].every((key) => node.members.some((m) => m.key === key))
      ? fromTo(node, source, name)
      : null;
  return value && { from: settingOf(value.from), to: settingOf(value.to) };
}

/** The kinds of control records, [actionType, name]. */
export const kinds = Object.entries(KINDS).map(([kind, [name]]) => [kind, String(name)]);

export const kindName = (kind) => KINDS[kind]?.[0] ?? visible(kind);

/** What the filter of credentials takes for records without one. */
export const NOBODY = 'service';

/**
 * The credential that asked for a change, as a link to all that it changed; query is of the control
 * log's page.
 */
export const By = ({ by, query = {} }) =>
  by === null
    ? html`<a href=${href('control', '', { ...query, by: NOBODY })} title="The command line, or the service itself">
    no credential</a>`
    : html`<a href=${href('control', '', { ...query, by })} title="All changes made with this credential">
    <code>${visible(by)}</code></a>`;

/** What happened, as a sentence with links. change is {action, inner, source}. */
export function ControlWords({ change: { action, inner, source } }) {
  const [, form, words] = KINDS[action] ?? [];
  try {
    if (form) return words(form(inner, source, 'payload'));
    return html`${visible(action)}, of ${visible(aboutOf({ inner, source }).subject)}`;
  } catch (err) {
    return html`${visible(action)}, in a format that this console does not know: ${visible(err.message)}`;
  }
}

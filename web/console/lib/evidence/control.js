// @ts-check
// Control records in a file: what was changed in the service, by whom, and what that says of the
// record's agent and of a passport.
import { pemOf, unbase64url, utf8 } from '../bytes.js';
import { verify } from '../ed25519.js';
import { canonical } from '../jcs.js';
import { member, textIn } from '../json.js';
import { must } from '../note.js';
import { sha256 } from '../sha256.js';
import { agentSPIFFE } from '../spiffe.js';

/**
 * What a control record that was checked says; inner is as in recordForm. Texts that are not there
 * are ''.
 * @param {LogRecord} record
 * @returns {ControlEvent}
 */
export function eventOf({ index, timestamp, actionType, inner }) {
  const subject = member(inner, 'subject');
  const by = member(inner, 'by');
  must(
    subject?.type === 'string' && (by?.type === 'string' || by?.type === 'null'),
    'it does not name what was changed and by whom',
  );
  const reason = member(inner, 'reason');
  return {
    index,
    timestamp,
    action: actionType,
    subject: subject.value,
    by: textIn(inner, 'by'),
    agentId: textIn(inner, 'agentId'),
    revokedAt: textIn(inner, 'revokedAt'),
    reason: reason ? canonical(reason) : 'null',
    inner,
  };
}

/**
 * To whom the delegation of a record was given, where that is not its agent; null where it is, and
 * without a delegation in which anybody acts for another one. company: its SPIFFE ID, for a reader
 * who knows its trust domain; for others the agent may be of any.
 * @param {LogRecord} record
 * @param {string} [company]
 */
export function notActor({ delegation, delegationNode, companyId, agentId }, company) {
  const actor = delegation?.chain.at(-1);
  if (actor === undefined || member(delegationNode, 'act')?.type !== 'object') return null;
  if (company !== undefined) return actor === agentSPIFFE(company, agentId) ? null : actor;
  const prefix = 'spiffe://';
  const suffix = `/company/${companyId}/agent/${agentId}`;
  const rest = actor.slice(prefix.length);
  const domain = rest.slice(0, -suffix.length);
  const isOwn = actor.startsWith(prefix) && rest.endsWith(suffix) && domain !== '' && !domain.includes('/');
  return isOwn ? null : actor;
}

/**
 * Which events may stand in the authority of a record that key kid has signed.
 * @param {LogRecord} record
 * @param {string} kid
 * @returns {(event: ControlEvent) => boolean}
 */
export function bearsOn(record, kid) {
  const agents = new Set([record.agentId]);
  for (const id of record.delegation?.chain ?? []) {
    const slash = id.startsWith('spiffe://') ? id.indexOf('/', 'spiffe://'.length) : -1;
    const prefix = `/company/${record.companyId}/agent/`;
    if (slash >= 0 && id.startsWith(prefix, slash)) agents.add(id.slice(slash + prefix.length));
  }
  return ({ subject, agentId }) => {
    const [kind] = subject.split(':', 1);
    const name = subject.slice(kind.length + 1);
    return { agent: agents.has(name), passport: agents.has(agentId), 'signing-key': name === kid }[kind] === true;
  };
}

/**
 * Which events, in their order, may stand with a passport.
 * @param {string} jti
 * @returns {(event: ControlEvent) => boolean}
 */
export function ofPassport(jti) {
  let owner = '';
  return ({ subject, action, agentId }) => {
    if (subject !== `passport:${jti}`)
      return action === 'agent.disabled' && owner !== '' && subject === `agent:${owner}`;
    if (action === 'passport.issued') owner = agentId;
    return true;
  };
}

/**
 * @param {{status: string, revokedAt?: string, reason?: string}} status
 * @param {ControlEvent} event
 */
function agrees({ status, revokedAt, reason }, event) {
  switch (event.action) {
    case 'passport.issued': return status !== 'unknown';
    case 'agent.disabled': return status === 'revoked';
    case 'passport.revoked':
      return (
        status === 'revoked' &&
        event.revokedAt === revokedAt &&
        event.reason === (reason === undefined ? 'null' : JSON.stringify(reason))
      );
    default:
      return true;
  }
}

/**
 * Checks the signed status of a passport with the company's last key, and that it is what the
 * events leave of it.
 * @param {EvidenceStatus} status
 * @param {string} jti
 * @param {string} companyId
 * @param {{raw: Bytes, prepared: PreparedKey}} last
 * @param {ControlEvent[]} events
 */
export async function checkStatus(status, jti, companyId, last, events) {
  must(status.jti === jti && status.companyId === companyId, 'the status is of another passport');
  must(['valid', 'revoked', 'unknown'].includes(status.status), `${status.status} is no status`);
  const revoked = status.status === 'revoked';
  must(
    revoked === (status.revokedAt !== undefined) && (revoked || status.reason === undefined),
    'revokedAt and reason do not match the status',
  );
  const signed = {
    ...status.node,
    members: status.node.type === 'object'
      ? status.node.members.filter(({ key }) => key !== 'caPublicKey' && key !== 'signature') : [],
  };
  const digest = await sha256(utf8(canonical(signed)));
  must(
    status.caPublicKey === pemOf(last.raw) && (await verify(last.prepared, unbase64url(status.signature), digest)),
    'the company’s last key has not signed the status',
  );
  for (const event of events)
    must(agrees(status, event), `the status is not what control record ${event.index} leaves of the passport`);
}

// @ts-check
// The keys of an agent in a file: the one that signed, and those from which it follows. What each
// check is, package evidence says.
import { having, json, nullable, oneOf, string, stringThat, timestamp } from '../form.js';
import { must } from '../note.js';
import { actionHash, agentKey, delegationClaim, readEndorsement, readStatement, signedWith } from '../statement.js';

const MINUTE = 60_000;

const ENROLLED = 'agent-key.enrolled';
const REVOKED = 'agent-key.revoked';
const some = stringThat((s) => s !== '', 'a text');
const named = { agentId: some, thumbprint: some };
const namedForm = having(named);
export const revokedForm = having({}, { reason: nullable(string), since: nullable(timestamp) });
const enrolledForm = having({
  ...named, jwk: json, expiresAt: nullable(timestamp), enrolment: nullable(some), endorsement: nullable(some),
}, { statementVersion: oneOf(1, 2) });

/**
 * Whether an event may stand among those of an agent's keys.
 * @param {ControlEvent} event
 */
export const isOfAgentKey = ({ subject, action }) =>
  subject.startsWith('agent-key:') && (action === ENROLLED || action === REVOKED);

/** The keys of an agent, the one that signed first and each endorsed by the next one. */
export class AgentKeys {
  /** @type {EnrolledKey[]} */
  chain = [];

  /** @type {string | undefined} */
  revoked; // when the key that signed was revoked first

  /** @type {{since: string, reason: string} | undefined} */
  stolen; // when the key that signed came into other hands, as its revocation says

  /** @type {string | undefined} */
  audience; // SPIFFE ID of the company, as the agent names it

  /**
   * log: the origin of the company's log of actions.
   * @param {string} companyId
   * @param {string} agentId
   * @param {string} log
   */
  constructor(companyId, agentId, log) {
    this.companyId = companyId;
    this.agentId = agentId;
    this.log = log;
  }

  /**
   * Reads the events of the key kid and of those from which it follows; no others may be there.
   * @param {(ControlEvent & {source: string})[]} events
   * @param {string} kid
   */
  async read(events, kid) {
    /** @type {Map<string, {revoked: RevokedEvent[], enrolled?: EnrolledKey}>} */
    const known = new Map();
    for (const event of events) {
      const { agentId, thumbprint } = namedForm(event.inner, event.source, 'it');
      must(event.subject === `agent-key:${thumbprint}`, `control record ${event.index} is of another key than it says`);
      must(agentId === this.agentId, `control record ${event.index} is of a key of another agent`);
      const one = known.get(thumbprint) ?? { revoked: [] };
      known.set(thumbprint, one);
      if (event.action === REVOKED) {
        const { reason, since } = revokedForm(event.inner, event.source, 'it');
        one.revoked.push({ ...event, why: reason ?? '', since: since ?? '' });
        continue;
      }
      must(!one.enrolled, 'a key is enrolled twice');
      one.enrolled = await enrolled(event, one.revoked);
      must(one.enrolled.key.thumbprint === thumbprint, 'jwk is another key than the control record says');
    }
    for (let one = known.get(kid)?.enrolled; ; one = known.get(kid)?.enrolled) {
      must(one, `not complete: the control record of the key ${kid} is not in the file`);
      const after = this.chain[this.chain.length - 1];
      if (after) await this.follows(after, one);
      this.chain.push(one);
      if (!one.endorsement) break;
      kid = one.endorsement.kid;
    }
    const { revoked } = this.chain[0];
    this.revoked = revoked.map(({ timestamp }) => timestamp).sort()[0];
    for (const { since, why: reason } of revoked)
      if (since && (!this.stolen || since < this.stolen.since)) this.stolen = { since, reason };
    must(
      this.chain.length === known.size,
      'there is a control record of a key from which the signing one does not follow',
    );
  }

  /**
   * Requires that the key before has endorsed another one.
   * @param {EnrolledKey} after
   * @param {EnrolledKey} before
   */
  async follows({ event, key, endorsement }, before) {
    must(before.event.index < event.index, 'a key comes before the one that signed for it');
    must(
      before.revoked.every(({ index }) => index > event.index),
      'the key that signed for another one was revoked before',
    );
    must(endorsement, 'a key has no endorsement');
    this.names(endorsement.claims);
    await signedWith(endorsement, before.key);
    must(endorsement.claims.jkt === key.thumbprint, 'an endorsement is of another key');
    const made = endorsement.claims.iat * 1000;
    const at = Date.parse(event.timestamp);
    const expires = before.expiresAt === null ? Infinity : Date.parse(before.expiresAt);
    must(at < expires + 5 * MINUTE, 'the key that signed for another one had expired');
    must(made >= Date.parse(before.event.timestamp) - MINUTE && made < expires,
      'an endorsement was not made while its key lived');
    must(made <= at + MINUTE && made >= at - 5 * MINUTE, 'an endorsement was not made when the next key was enrolled');
  }

  /**
   * Requires the SPIFFE IDs of company and agent, in one trust domain.
   * @param {{iss: string, aud: string}} claims
   */
  names({ iss, aud }) {
    const domain = /^spiffe:\/\/[^/]+\//.exec(aud);
    must(domain && aud === `${domain[0]}company/${this.companyId}`, 'aud is not the SPIFFE ID of the company');
    must(iss === `${aud}/agent/${this.agentId}`, 'iss is not the SPIFFE ID of the agent');
    this.audience ??= aud;
    must(this.audience === aud, 'aud is of another trust domain than what a key of the agent signed before');
  }

  /**
   * Checks the statement of a record, and returns it.
   * @param {LogRecord} record
   */
  async signed(record) {
    must(record.statement !== undefined, 'the record has no statement');
    const said = readStatement(record.statement);
    const { claims } = said;
    const { log } = claims;
    const [{ event, key, expiresAt, version }] = this.chain;
    must(version === 1 || log !== undefined,
      'the statement does not name its log, and its key was enrolled since statements do');
    await signedWith(said, key);
    this.names(claims);
    must(log === undefined || log === this.log, 'the statement was made for another log');
    must(claims.action_hash === (await actionHash(record)), 'the statement is of another action');
    must(
      (claims.delegation ?? '') === (await delegationClaim(record, log)),
      'the statement is of another delegation, or of none',
    );
    const at = Date.parse(record.timestamp);
    const age = at - claims.iat * 1000;
    must(age >= -MINUTE && age <= 30 * 86400_000 + 5 * MINUTE, 'the statement was not made at the time of the record');
    must(event.timestamp <= record.timestamp, `the key ${said.kid} was enrolled after the record`);
    must(
      expiresAt === null || at < Date.parse(expiresAt) + 5 * MINUTE,
      `the key ${said.kid} expired before the record`,
    );
    must(
      !this.revoked || Date.parse(this.revoked) + 5000 >= at,
      `the key ${said.kid} was revoked before the record`,
    );
    return said;
  }

  /**
   * Whether a record is of a time when the key that signed was in other hands.
   * @param {{timestamp: string}} record
   */
  isStolen = ({ timestamp: at }) => this.stolen !== undefined && at >= this.stolen.since;

  /** Since when the key was in other hands, in words. */
  sinceWhen() {
    const { since = '', reason = '' } = this.stolen ?? {};
    return `The key was in other hands since ${since}, says its revocation${reason && ` (${reason})`}`;
  }

  /** The key that signed, when it was enrolled and by what, in words. */
  who() {
    const [{ key, event, endorsement, enrolment }] = this.chain;
    const by = endorsement ? `the key before it, ${endorsement.kid}`
      : enrolment ? `the enrolment token ${enrolment}` : `an admin's credential, ${event.by || 'the service itself'}`;
    return `${key.thumbprint}, enrolled at ${event.timestamp} by ${by}`;
  }

  /**
   * Who signed it, as far as it is known. Throws where a key is pinned that does not fit.
   * @param {string | undefined} pin
   * @param {string} what
   */
  whoseWord(pin, what) {
    const who = this.who();
    if (!pin) return `A key that the company enrolled for this agent signed ${what}: ${who}.`;
    must(
      this.chain.some(({ key }) => key.thumbprint === pin),
      `the key that you pinned, ${pin}, did not sign this, nor for the key that did: ${who}`,
    );
    const kid = this.chain[0].key.thumbprint;
    return kid === pin ? `The agent’s own key ${kid} signed ${what}.`
      : `The agent’s own key ${kid} signed ${what}: it follows from the key that you pinned, ${pin}.`;
  }
}

/**
 * @param {ControlEvent & {source: string}} event
 * @param {RevokedEvent[]} revoked
 * @returns {Promise<EnrolledKey>}
 */
async function enrolled(event, revoked) {
  const { jwk, expiresAt, enrolment, endorsement, statementVersion = 1 } =
    enrolledForm(event.inner, event.source, 'it');
  return {
    event,
    version: statementVersion,
    revoked,
    expiresAt,
    enrolment,
    endorsement: endorsement === null ? null : readEndorsement(endorsement),
    key: await agentKey(jwk.node, jwk.source),
  };
}

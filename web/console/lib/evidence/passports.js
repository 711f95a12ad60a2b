// @ts-check
// Holds decisions against the passports that they name, by the control records in a file. Package
// evidence is the specification.
import { canonical } from '../jcs.js';
import { covers, readDetails } from '../details.js';
import { having, integer, json, list, string } from '../form.js';
import { member, textIn } from '../json.js';
import { must } from '../note.js';

const APART = 5000; // ms, by which the times of the two logs may differ
const LAST = 253402300799; // second of the year 9999
const KINDS = new Map([['passport.issued', 'passport'], ['passport.revoked', 'passport'], ['agent.disabled', 'agent']]);
const issuedForm = having({ scopes: list(string, 10_000), expiresAt: integer }, { authorizationDetails: json });

/**
 * Whether an event is of a passport, or ends those of an agent.
 * @param {ControlEvent} event
 */
export const isOfPassports = ({ subject, action }) =>
  subject.includes(':') && KINDS.get(action) === subject.split(':', 1)[0];

/** The passports of a file that decisions may name. */
export class Passports {
  /**
   * @type {Map<string, {agent: string, issued: number, revoked?: number, ends: number,
   *   scopes: string[], details?: DetailEntry[]}>}
   */
  held = new Map();

  /**
   * Adds a control record. source is the text in which its nodes are.
   * @param {ControlEvent} event
   * @param {string} source
   */
  add({ index, timestamp, action, subject, agentId, inner }, source) {
    const name = subject.slice(subject.indexOf(':') + 1);
    const at = Date.parse(timestamp);
    if (action !== 'passport.issued') {
      for (const [jti, one] of this.held)
        if (name === (action === 'passport.revoked' ? jti : one.agent)) one.revoked ??= at;
      return;
    }
    const { scopes, expiresAt, authorizationDetails } = issuedForm(inner, source, `control record ${index}`);
    must(!this.held.has(name), `the passport of control record ${index} is issued twice`);
    must(agentId !== '' && scopes.length > 0 && expiresAt <= LAST,
      `control record ${index} does not name the agent, the scopes and the end of the passport`);
    const details = authorizationDetails && readDetails(authorizationDetails.node, authorizationDetails.source);
    this.held.set(name, { agent: agentId, issued: at, ends: expiresAt * 1000, scopes, details });
  }

  /**
   * Holds the decision of a record, if it has one, against the passport that it names.
   * @param {LogRecord} record
   */
  hold({ index, timestamp, agentId, actionType, inner, decision }) {
    const held = decision?.passport === undefined ? undefined : this.held.get(decision.passport);
    if (!decision || !held) return;
    const at = Date.parse(timestamp);
    const { names, args } = calledAs(actionType, inner);
    const scopes = ['*', 'tool:*', ...names.map((name) => `tool:${name}`)];
    const isScoped = held.scopes.some((scope) => scopes.includes(scope));
    const says = `the decision of record ${index} names a passport that`;
    must(held.agent === agentId, `${says} is of another agent`);
    must(held.issued - at <= APART, `${says} was issued later`);
    if (decision.verdict === 'deny') {
      must(decision.code !== 'SCOPE_DENIED' || names.length === 0 || !isScoped, `${says} has a scope for it`);
      return;
    }
    must(at - (held.revoked ?? at) <= APART, `${says} was revoked before`);
    must(at - held.ends <= APART, `${says} had expired`);
    must(names.length === 0 || isScoped, `${says} has no scope for it`);
    const { details } = held;
    must(names.length === 0 || !details || names.some((name) => covers(details, name, args)),
      `${says} has no authorization details that cover it`);
  }
}

/**
 * The names under which scopes and details may cover the tool that a record calls, and its
 * arguments.
 * @param {string} action
 * @param {JSONNode} payload
 */
function calledAs(action, payload) {
  let tool = textIn(payload, 'tool');
  let server = textIn(payload, 'server');
  let given = member(payload, 'input') ?? member(payload, 'arguments');
  const isCall = tool !== '';
  const cut = tool.indexOf('__', 5);
  if (isCall && server === '' && tool.startsWith('mcp__') && cut >= 0)
    [server, tool] = [tool.slice(5, cut), tool.slice(cut + 2)];
  if (!isCall) {
    const resource = member(payload, 'resource');
    const isDecision = action === 'authorization.denied' || action === 'authorization.allowed';
    if (!isDecision || textIn(payload, 'action') !== 'call' || !resource || textIn(resource, 'type') !== 'tool')
      return { names: [], args: undefined };
    [tool, given] = [textIn(resource, 'id'), member(payload, 'arguments')];
  } else if (server !== '') tool = `${server}/${tool}`;
  const slash = tool.indexOf('/');
  const after = tool.slice(slash + 1);
  const more = slash < 0 ? [] : isCall ? [after, `mcp__${tool.slice(0, slash)}__${after}`] : [after];
  return { names: [tool, ...more], args: given && canonical(given) };
}

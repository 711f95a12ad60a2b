// @ts-check
// What a person signs to approve one call or to refuse it, as package approval has it: the object,
// its challenge, and whether a record asks for the same call.
import { utf8 } from './bytes.js';
import { exactly, hash, integer, nullable, oneOf, refuse, string, stringThat, timestamp } from './form.js';
import { canonical } from './jcs.js';
import { member, textIn } from './json.js';
import { sha256 } from './sha256.js';
import { readStatement } from './statement.js';

const MOST_USES = 1000;
const MOST_QUORUM = 100;
const given = stringThat((s) => s !== '', 'a text');
/** @param {string} s */
export const isApprovalID = (s) => /^apr_[A-Za-z0-9_-]{21}[AQgw]$/.test(s);

export const approvalID = stringThat(isApprovalID, 'the ID of an approval');
export const personID = stringThat((s) => /^[A-Za-z0-9._-]{1,64}$/.test(s), 'the ID of a person');
/** @type {Form<number>} */
const uses = (node, source, name) => {
  const n = integer(node, source, name);
  return n >= 1 && n <= MOST_USES ? n : refuse(name, `from 1 to ${MOST_USES}`);
};

/** The object that a person signs. */
export const approvalObject = exactly({
  approvalId: approvalID, log: given, index: integer, hash, agentId: given, tool: given, person: personID,
  verdict: oneOf('approve', 'deny'), uses, expiresAt: timestamp, reason: nullable(string),
});

/**
 * The object that a person signs, with its node.
 * @type {Form<ReturnType<typeof approvalObject> & {node: JSONNode}>}
 */
export const approvalForm = (node, source, name) => ({ ...approvalObject(node, source, name), node });

/**
 * What a passkey signs of an object.
 * @param {JSONNode} object
 */
export const challengeOf = (object) => sha256(utf8(`attestd approval v1\n${canonical(object)}`));

/**
 * The tool that a record is about, with its MCP server before a slash; the action where it is about
 * none.
 * @param {Pick<LogRecord, 'actionType' | 'inner'>} record
 */
export function toolOf({ actionType, inner }) {
  const tool = textIn(inner, 'tool');
  const server = textIn(inner, 'server');
  if (!tool) return actionType;
  if (server) return `${server}/${tool}`;
  const named = 'mcp__';
  const cut = tool.startsWith(named) ? tool.indexOf('__', named.length) : -1;
  if (cut < 0) return tool;
  const [of, name] = [tool.slice(named.length, cut), tool.slice(cut + '__'.length)];
  return of ? `${of}/${name}` : name;
}

/**
 * What a record asks for, as policies read it: {agent, isCall, tool, arguments, session, hooks}.
 * The arguments are in canonical form. session is that of the statement, else that of the payload,
 * which hooks is; '' for none.
 * @param {LogRecord} record
 */
export function callOf({ agentId: agent, actionType, inner, statement }) {
  const hooks = textIn(inner, 'sessionId');
  const session = (statement === undefined ? '' : readStatement(statement).claims.sid) || hooks;
  const tool = toolOf({ actionType, inner });
  if (!textIn(inner, 'tool')) return { agent, session, hooks, isCall: false, tool, arguments: canonical(inner) };
  const input = member(inner, 'input') ?? member(inner, 'arguments');
  return { agent, session, hooks, isCall: true, tool, arguments: input ? canonical(input) : '{}' };
}

/**
 * How many people must approve what each policy of a text in Cedar permits; one more than there may
 * be where nobody can read it.
 * @param {string} cedar
 */
export function quorums(cedar) {
  const token = /\/\/[^\n]*|\/\*[^*]*\*+(?:[^/*][^*]*\*+)*\/|"(?:\\[^\n]|[^"\\\n])*"|[0-9A-Za-z_]+|[@();]/g;
  const tokens = (cedar.match(token) ?? []).filter((one) => !one.startsWith('//') && !one.startsWith('/*'));
  /** @type {number[]} */
  const demanded = [];
  let one = 1;
  tokens.forEach((text, i) => {
    if (text === ';') {
      demanded.push(one);
      one = 1;
    } else if (text === '@' && tokens[i + 1] === 'quorum') {
      const found = /^"([1-9][0-9]?|100)"$/.exec(tokens[i + 3] ?? '');
      one = found && tokens[i + 2] === '(' && tokens[i + 4] === ')' ? Number(found[1]) : MOST_QUORUM + 1;
    }
  });
  return demanded;
}

/**
 * How many people the policies demand that are named as decisions name them, by the quorums of each
 * text.
 * @param {Map<string, number[]>} demanded
 * @param {string[]} by
 */
export function quorumOf(demanded, by) {
  return Math.max(1, ...by.map((name) => {
    const at = name.indexOf('#');
    const place = at < 0 ? '0' : name.slice(at + 1);
    const all = demanded.get(at < 0 ? name : name.slice(0, at)) ?? [];
    return (/^(0|[1-9][0-9]{0,9})$/.test(place) ? all[Number(place)] : undefined) ?? MOST_QUORUM + 1;
  }));
}

// @ts-check
// Calls of tools that were refused and ran all the same: package action says what such a call is,
// and this comes to the same findings.
import { utf8 } from './bytes.js';
import { member, textOf } from './json.js';
import { table } from './table.js';

/** @type {Record<string, 'request' | 'refusal' | 'outcome' | 'refused request'>} */
const KINDS = table({
  'tool.requested': 'request',
  'tool.denied': 'refusal',
  'tool.completed': 'outcome',
  'tool.failed': 'outcome',
  'tool.ended': 'outcome',
  'otel.tool': 'outcome',
});

const MAX_ID = 256; // bytes at which an ID is cut off where records are made
const MAX_CALLS = 10_000; // that are remembered

/**
 * What a record of actions says of a call; null for a record of none, and of a call whose ID may
 * have been cut off or masked. key: the same for all records of one call.
 * @param {CallRecord} record
 */
export function callOf({ agentId, actionType, inner, decision }) {
  let kind = Object.hasOwn(KINDS, actionType) ? KINDS[actionType] : null;
  if (kind === 'request' && decision && decision.verdict !== 'allow') kind = 'refused request';
  if (!kind || inner.type !== 'object') return null;
  const [source, sessionId, id, tool] = ['source', 'sessionId', 'callId', 'tool'].map((name) => member(inner, name));
  if (source?.type !== 'string' || id?.type !== 'string' || (sessionId && sessionId.type !== 'string')) return null;
  const hooks = actionType === 'otel.tool' ? hooksOf(textOf(member(inner, 'name')) ?? '') : '';
  if (actionType === 'otel.tool' && !succeeded(inner, hooks)) return null;
  if (!id.value || utf8(id.value).length >= MAX_ID || id.value.includes('[masked]')) return null;
  const key = JSON.stringify([agentId, hooks || source.value, textOf(sessionId) ?? '', id.value]);
  return { kind, key, id: id.value, tool: textOf(tool) ?? '' };
}

/**
 * The source of the hooks of the coding agent that telemetry of this name is of; '' for another.
 * @param {string} name
 */
const hooksOf = (name) => (name.startsWith('claude_code.') ? 'claude-code' : name.startsWith('codex.') ? 'codex' : '');

/**
 * Whether telemetry says that a tool has succeeded.
 * @param {JSONNode} inner
 * @param {string} hooks
 */
function succeeded(inner, hooks) {
  const success = member(member(inner, 'attributes'), 'success');
  const code = textOf(member(member(inner, 'status'), 'code')) ?? '';
  return success?.type === 'true' || textOf(success) === 'true' || (!hooks && /^ok$/.test(code));
}

/** Finds the calls that disobeyed a refusal among the records that it is given. */
export class CallTracker {
  /** @type {Map<string, CallState>} */
  #calls = new Map(); // in the order of their first records

  /**
   * What the next record shows: that a call was refused and ran all the same, once a call; or null.
   * @param {number} index
   * @param {CallRecord} record
   * @returns {DisobeyedCall | null}
   */
  add(index, record) {
    const call = callOf(record);
    if (!call) return null;
    let state = this.#calls.get(call.key);
    if (!state) {
      if (this.#calls.size === MAX_CALLS) this.#calls.delete(this.#calls.keys().next().value ?? '');
      state = { requests: 0, refusals: 0, refused: null, done: null, tool: '', found: false };
      this.#calls.set(call.key, state);
    }
    if (call.kind === 'request') state.requests++;
    else if (call.kind === 'outcome') state.done ??= index;
    else {
      state.refused = index;
      state.refusals += call.kind === 'refusal' ? 1 : -1; // a request that is refused may have a refusal, too
    }
    state.tool ||= call.tool;
    const { requests, refusals, refused, done, tool, found } = state;
    if (found || refused === null || done === null || requests > Math.max(0, refusals)) return null;
    state.found = true;
    return { refused, done, tool };
  }
}

/**
 * Which calls disobeyed, in words: the first ten of a number of them. The list has the first ones.
 * @param {DisobeyedCall[]} list
 * @param {number} [count]
 */
export function disobeyedText(list, count = list.length) {
  const named = list.slice(0, 10);
  const more = count > named.length ? `; and ${count - named.length} more` : '';
  return named.map(({ refused, done }) => `refused at record ${refused}, done at record ${done}`).join('; ') + more;
}

/**
 * What the server says of the records of a session, whatever its calls did.
 * @param {{state: string, completeness?: string}} session
 */
export const completenessOf = ({ state, completeness }) => (state === 'disobeyed' ? completeness : state);

// what records say of calls of tools
const CALL_KINDS = new Map(Object.entries({
  "tool.requested": "request", "tool.denied": "refusal", "tool.completed": "outcome", "tool.failed": "outcome", "tool.ended": "outcome",
}));

// The calls that were refused and ran all the same, among records in their order. Its memory does
// not grow with their number. The reference says what such a call is.
export class Calls {
  calls = new Map(); // in the order of their first records
  found = []; // [refusal, outcome] of the first ones that disobeyed, as indexes
  count = 0; // of all that did

  add({ index, payload: { agentId, actionType, payload: call } }) {
    const kind = CALL_KINDS.get(actionType);
    if (!kind || !call || typeof call !== "object" || Array.isArray(call)) return;
    const part = (name, without) => (Object.hasOwn(call, name) ? call[name] : without);
    const source = part("source"), sessionId = part("sessionId", ""), callId = part("callId");
    if (![source, sessionId, callId].every(isString) || callId === "" || Buffer.byteLength(callId) >= 256 || callId.includes("[masked]")) return;
    const key = JSON.stringify([agentId, source, sessionId, callId]);
    if (!this.calls.has(key) && this.calls.size === 10_000) this.calls.delete(this.calls.keys().next().value);
    const state = this.calls.get(key) ?? { requests: 0, refusals: 0, refused: null, done: null, found: false };
    this.calls.set(key, state);
    if (kind === "request") state.requests++;
    else if (kind === "refusal") Object.assign(state, { refusals: state.refusals + 1, refused: index });
    else state.done ??= index;
    if (state.found || state.done === null || state.refusals === 0 || state.requests > state.refusals) return;
    state.found = true;
    this.count++;
    if (this.found.length < 10) this.found.push([state.refused, state.done]);
  }

  state(rest) { // of a session that otherwise has the state rest
    if (this.count === 0) return rest;
    const calls = this.found.map(([refused, done]) => `refused at record ${refused}, done at record ${done}`).join("; ");
    const more = this.count > this.found.length ? `; and ${this.count - this.found.length} more` : "";
    return `disobeyed: ${calls}${more}; ${rest}`;
  }
}

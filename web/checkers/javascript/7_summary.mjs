
// The summary of a file that does not fail: who did what, on whose behalf and under which right.
// All checkers print the same lines. Names of the file are JSON strings in them, and end where they
// end.
const MOST_SHOWN = 2000; // characters of a payload, or of a delegation chain
const MOST_TYPES = 10; // action types of a session

const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");

export function shown(text) { // all of it, or its beginning and how long all of it is
  let length = 0, end = 0;
  for (const character of text) {
    if (length++ < MOST_SHOWN) end += character.length;
  }
  return length <= MOST_SHOWN ? text : `the first ${grouped(MOST_SHOWN)} of ${grouped(length)} characters: ${text.slice(0, end)}`;
}

const counted = (count) => `${count} record${count === 1n ? "" : "s"}`;

function companyKey({ policy, fingerprint, isKnown }, key) {
  if (policy) return `the company's key ${key}, confirmed by the policy that you named`;
  if (!fingerprint) return `the key ${key}; that it is the company's is not confirmed`;
  const whose = isKnown ? "is stored as trusted on this machine" : "you named";
  return `the company's key ${key}, ${key === fingerprint ? "which" : "confirmed by the key that"} ${whose}`;
}

function agentsWord({ chain, agentKey: pin, since }, isStolen) {
  if (!chain) return "none: that the agent did this is the company's word alone";
  const [{ thumbprint: kid }] = chain;
  const said = pin ? `by the agent's own key ${kid}, ${pin === kid ? "which you named" : "which follows from the one that you named"}`
    : `by the key ${kid}, which the company enrolled for this agent; that it is the agent's own is not confirmed`;
  return said + (isStolen ? `; the key was in other hands since ${since.since}` : "");
}

function behalf({ notActor }, { delegation }) {
  if (!delegation) return "nobody else: it has no delegation";
  const { subject, delegationChain: all } = delegation, chain = all[0] === subject ? all : [subject, ...all];
  return shown(chain.map(canonical).join(" -> ")) + (notActor === undefined ? "" : "; it was given to another one than this agent");
}

// whether the action was allowed is for the reader to judge: no file says that
function* rights({ file: { record: { payload: { agentId }, timestamp: at }, authority, passport, status }, allowed, events }) {
  const agent = canonical(agentId), last = allowed.findLast(({ payload, record }) => payload.subject === `agent:${agentId}` && record.timestamp <= at);
  if (!authority) yield ["right", `not in this file: it has no control records about the agent ${agent}`];
  else if (!last) yield ["right", `nothing here says that the agent ${agent} was registered at that time`];
  else yield ["right", `the latest control record here about the agent ${agent} at that time is ${canonical(last.action)}, control record ${last.record.index}, ${last.record.timestamp}`];
  if (!passport) return;
  const issued = events.findLast(({ action }) => action === "passport.issued");
  const scopes = !issued ? "which nothing here says was ever issued"
    : `issued with the scopes ${shown(canonical(Object.hasOwn(issued.payload, "scopes") ? issued.payload.scopes : null))}`;
  yield ["passport", `${canonical(passport.jti)}, ${scopes}, was ${status.status} at ${status.checkedAt}; nothing here says that this was done with it`];
}

class Tally { // what the summary of a session says of its records
  first = "";
  last = "";
  types = new Map();
  others = 0;
  delegated = 0;
  delegate = "";

  add(checked, record) {
    const { timestamp: at, index, payload: { actionType } } = record, count = this.types.get(actionType);
    this.first ||= at;
    this.last = at;
    if (count || this.types.size < MOST_TYPES) this.types.set(actionType, (count ?? 0) + 1);
    else this.others++;
    if (!record.delegation) return;
    this.delegated++;
    this.delegate ||= `record ${index}: ${behalf(checked, record)}`;
  }

  actions() {
    const some = [...this.types].map(([name, count]) => `${canonical(name)} (${count})`);
    return shown([...some, ...this.others > 0 ? [`other types (${this.others})`] : []].join(", "));
  }
}

export function* summary(checked) { // [name, text] of each line
  const { file } = checked, company = canonical(file.companyId);
  if (checked instanceof Session) {
    const { tally, places, calls, records: { stolen } } = checked, agent = canonical(file.agentId), count = counted(file.records);
    yield ["who", `agent ${agent} of the company ${company}, in its session ${canonical(file.sid)}`];
    yield ["signed by", companyKey(checked, file.keys.at(-1).fingerprint)];
    yield ["agent's signature", agentsWord(checked, stolen > 0)];
    yield ["what", `${count}, ${calls.state(places.state())}; from ${tally.first} to ${tally.last} by the service's clock`];
    yield ["actions", tally.actions()];
    yield ["payload", "not shown: each record has its own, in its line of the file"];
    yield ["on behalf of", tally.delegated > 0 ? `${tally.delegated} of ${count} have a delegation, the first of them ${tally.delegate}` : "nobody else: no record has a delegation"];
    yield ["right", `not in this file: it has no control records about the agent ${agent} but those of its key`];
    return;
  }
  const { record, log, keys } = file, { agentId, actionType, payload } = record.payload, isAction = log === "actions";
  const ring = checked.logs[log].keys, at = keys.length - ring.length + ring.indexOf(signer(checked.logs[log], record));
  yield ["who", isAction ? `agent ${canonical(agentId)} of the company ${company}` : `the service itself, in the control log of the company ${company}`];
  yield ["signed by", companyKey(checked, keys[at].fingerprint)];
  if (isAction) yield ["agent's signature", agentsWord(checked, Boolean(checked.chain) && checked.isStolen(record))];
  yield ["what", `${canonical(actionType)}, record ${record.index} of the log ${log}, ${record.timestamp} by the service's clock`];
  yield ["payload", shown(canonical(payload))];
  if (!isAction) return;
  yield ["on behalf of", behalf(checked, record)];
  yield* rights(checked);
}

// the verdict, as all checkers print it
export const inWords = ({ verdict, code, reason }) => (code ? `fails: ${code}: ${reason}` : verdict === "holds" ? "holds" : `holds, ${reason}`);

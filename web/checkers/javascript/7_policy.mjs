const NOT_PROVEN = [
  "That nothing was left out: this file shows one record, not what came before it, after it or beside it.",
  "That what the payload says is true: only that the service was given it, and when by the service's clock.",
  "That the service's clock was right: every time in this file that is not a witness's is the operator's word.",
  "That nobody else had the company's key, nor that a key was not declared compromised after this file was made.",
  "That there is no other history: only witnesses whom you chose, or a checkpoint that you kept, show that. Two appliances of one owner are not independent.",
  "That the root in hexProof is the chain's: compare it with one that you kept.",
];
const NOT_ORDERED = "How records of the two logs follow each other but by their times.";
const NOT_ONCE = "That no other record has the same statement: the agent signed it once, and a second record of it would look the same.";
const NOT_OWN_KEY = "That the agent alone holds the key of its statement: whoever enrolled that key may hold it. Only a key that you know from the agent, and name to the checker, shows whose word this is.";
const NOT_PROVEN_OF = [ // and of files with one of these members, and none of those behind them
  ["That no other record of the control log bears on this one: what is missing here may stand there.", ["authority", "passport", "agentKey"]],
  [NOT_ORDERED, ["agentKey"]], [NOT_ONCE, ["agentKey"]], [NOT_OWN_KEY, ["agentKey"]],
  ["How records of the two logs follow each other but by their times, nor that the agent itself acted: the service knows the credential, not who held it.", ["authority"], ["agentKey"]],
  ["That the status of the passport is still the same: it is of the moment when it was checked.", ["status"]],
];

// c2sp.org/tlog-policy: logs, witnesses by name, groups, and the name of the quorum
export function readPolicy(text) {
  // free: may a name that stands there still become a member
  const logs = [], witnesses = [], groups = [], free = new Map([["none", false]]);
  let quorum;
  must(Buffer.byteLength(text) <= 1 << 20 && /(^|\n)$/.test(text) && !/[\0-\x08\x0b-\x1f\x7f]/.test(text), "not the text of a policy");
  for (const line of text.split("\n")) {
    const [keyword, ...items] = line.split(/[ \t]+/).filter(Boolean), [name] = items;
    if (keyword === undefined || keyword.startsWith("#")) continue;
    if (keyword === "log" && items.length >= 1 && items.length <= 2) {
      logs.push(readVKey(name, 1));
      continue;
    }
    if (keyword === "quorum" && items.length === 1 && !quorum && free.has(name)) {
      quorum = name;
      continue;
    }
    must(!free.has(name), `not a line of a policy: ${line}`);
    if (keyword === "witness" && items.length >= 2 && items.length <= 3) {
      witnesses.push([name, readVKey(items[1], 4)]);
    } else {
      const [, asked, ...members] = items, k = asked === "all" ? members.length : asked === "any" ? 1 : Number(asked);
      must(keyword === "group" && members.length > 0 && /^(all|any|[1-9][0-9]*)$/.test(asked) && k <= members.length, `not a line of a policy: ${line}`);
      for (const member of members) {
        must(free.get(member), `${member} is not there, or is of another group already`);
        free.set(member, false);
      }
      groups.push([name, k, members]);
    }
    free.set(name, true);
  }
  must(quorum, "no line says what the quorum is");
  for (const list of [logs, witnesses.map(([, w]) => w)]) must(new Set(list.map(({ raw }) => raw.toString("hex"))).size === list.length, "a key stands twice");
  return { logs, witnesses, groups, quorum };
}

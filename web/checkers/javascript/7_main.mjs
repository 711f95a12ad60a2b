const NOT_PROVEN = [
  "That nothing was left out: this file shows one record, not what came before it, after it or beside it.",
  "That what the payload says is true: only that the service was given it, and when by the service's clock.",
  "That the service's clock was right: every time in this file that is not a witness's is the operator's word.",
  "That nobody else had the company's key, nor that a key was not declared compromised after this file was made.",
  "That there is no other history: only witnesses whom you chose, or a checkpoint that you kept, show that. Two appliances of one owner are not independent.",
  "That the root in hexProof is the chain's: compare it with one that you kept.",
];
const NOT_PROVEN_OF = [ // and of files with one of these members
  ["That no other record of the control log bears on this one: what is missing here may stand there.", "authority", "passport"],
  ["How records of the two logs follow each other but by their times, nor that the agent itself acted: the service knows the credential, not who held it.", "authority"],
  ["That the status of the passport is still the same: it is of the moment when it was checked.", "status"],
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

// escapes what would move, reverse or add to what a terminal shows; half a surrogate pair becomes
// U+FFFD
export const printable = (text) =>
  text.replace(/[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .replace(/\p{Surrogate}/gu, "\ufffd");

// of a file, and of a longer one than may be checked so many that its reader sees it
function bytesOf(name) {
  const file = openSync(name), most = Buffer.allocUnsafe((64 << 20) + 1);
  let length = 0;
  for (let more; (more = readSync(file, most, length, most.length - length)) > 0;) length += more;
  closeSync(file);
  return most.subarray(0, length);
}

function main([name, option, given, ...rest]) {
  if (option && !option.startsWith("--") && !given) {
    try {
      const [proof, key] = [name, option].map((file) => read(textOf(bytesOf(file)))), root = checkProof(proof, key);
      console.log(`record ${proof.record.index} is genuine and in the chain with root ${printable(root)}`);
      console.log(`if this is the company's key, or one of them is: ${printable([checkKey(key)].flat().join(", "))}`);
      return 0;
    } catch (refused) {
      console.log(`fails: ${printable(refused.message)}`);
      return "syscall" in refused ? 2 : 4; // a file that cannot be read
    }
  }
  let evidence;
  try {
    must(name && rest.length === 0 && (!option || given && ["--key", "--policy"].includes(option)), "usage: check.mjs FILE [--key FINGERPRINT | --policy FILE]");
    evidence = new Evidence(bytesOf(name));
    must(option !== "--key" || /^SHA256:[A-Za-z0-9_-]{43}$/.test(given), "a fingerprint is SHA256: and 43 characters of base64url");
    if (option === "--key") evidence.fingerprint = given;
    if (option === "--policy") evidence.policy = readPolicy(decoded(bytesOf(given)));
  } catch (refused) {
    console.error(printable(refused.message));
    return 2;
  }
  const { verdict, code, reason } = evidence.verdict();
  const notProven = code ? [] : evidence.file.notProven.map((line) => `not proven: ${line}`);
  console.log([...evidence.checked, "", ...notProven, "", [verdict, code, reason].filter(Boolean).join(": ")].map(printable).join("\n"));
  return { holds: 0, fails: 4 }[verdict] ?? 5;
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) process.exitCode = main(process.argv.slice(2));

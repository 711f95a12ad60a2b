// escapes what would move, reverse or add to what a terminal shows; half a surrogate pair becomes
// U+FFFD
export const printable = (text) =>
  text.replace(/[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .replace(/\p{Surrogate}/gu, "\ufffd");

// a file as it is read; fill puts more of it into a Buffer, and says how much
class Source {
  held = Buffer.alloc(0);

  constructor(fill) {
    this.fill = fill;
  }

  // the next line with its line feed, or what is there of one that is too long or has none
  line(longest) {
    let end = 0;
    for (let from = 0; (end = this.held.indexOf(10, from) + 1) === 0 && this.held.length <= longest;) {
      const more = Buffer.allocUnsafe(1 << 16), length = this.fill(more);
      from = this.held.length;
      this.held = Buffer.concat([this.held, more.subarray(0, length)]);
      if (length === 0) break;
    }
    const line = this.held.subarray(0, end || this.held.length);
    this.held = this.held.subarray(line.length);
    return line;
  }

  begin(size) { // its first bytes, which stay to be read
    const most = Buffer.allocUnsafe(size);
    let length = this.held.copy(most);
    for (let more; (more = this.fill(most.subarray(length))) > 0;) length += more;
    return this.held = most.subarray(0, length);
  }

  rest() { // all of it, and of what is longer than may be checked so much that its reader sees it
    const most = Buffer.allocUnsafe((64 << 20) + 1);
    let length = this.held.copy(most);
    for (let more; (more = this.fill(most.subarray(length))) > 0;) length += more;
    return most.subarray(0, length);
  }
}

const sourceOf = (file) => new Source((room) => readSync(file, room, 0, room.length));

function bytesOf(name) {
  const file = openSync(name);
  try {
    return sourceOf(file).rest();
  } finally {
    closeSync(file);
  }
}

export const opened = (fill, trust) => openedSource(new Source(fill), trust);

function openedSource(source, trust) { // a file of one record, or of a session
  const start = source.line(LONGEST);
  source.held = Buffer.concat([start, source.held]);
  return isSession(start) ? new Session(source, trust) : new Evidence(source.rest(), trust);
}

const OPTIONS = new Map([["--key", ["fingerprint", "a fingerprint"]], ["--policy", ["policy", "a file"]], ["--agent-key", ["agentKey", "a thumbprint"]]]);
const USAGE = "usage: check.mjs FILE [--key FINGERPRINT | --policy FILE] [--agent-key THUMBPRINT]\n       check.mjs PROOF KEYS";

function typed(all) { // the files and the options, as --name VALUE or --name=VALUE
  const files = [], trust = {}, rest = all.values();
  for (const argument of rest) {
    if (!argument.startsWith("-") || argument === "-") {
      files.push(argument);
      continue;
    }
    const at = argument.indexOf("="), name = at < 0 ? argument : argument.slice(0, at);
    must(OPTIONS.has(name), `${name} is no option\n${USAGE}`);
    const [member, what] = OPTIONS.get(name);
    must(!Object.hasOwn(trust, member), `${name} is given twice`);
    const value = at < 0 ? rest.next().value ?? "" : argument.slice(at + 1);
    must(value && !value.startsWith("--"), `${name} needs ${what}, as ${name} VALUE`);
    trust[member] = value;
  }
  must(trust.fingerprint === undefined || trust.policy === undefined, "--key and --policy exclude each other");
  must(files.length === 1 || files.length === 2 && Object.keys(trust).length === 0, `${files.length} files are named\n${USAGE}`);
  return { files, trust };
}

// each is data until its unprintable characters are escaped
const say = (...lines) => console.log(lines.map(printable).join("\n"));

export function main(all) { // returns the exit status
  let evidence;
  try {
    if (all.length === 1 && ["--help", "-h"].includes(all[0])) {
      console.log(USAGE);
      return 0;
    }
    const { files, trust } = typed(all), [name] = files;
    if (files.length === 2) return checkAlone(files);
    if (trust.fingerprint === undefined && trust.policy === undefined) trust.known = knownKeys();
    const file = openSync(name);
    must(trust.fingerprint === undefined || isFingerprint(trust.fingerprint), "a fingerprint is SHA256: and 43 characters of base64url");
    must(trust.agentKey === undefined || isThumbprint(trust.agentKey), "a thumbprint of an agent's key is 43 characters of base64url");
    if (trust.policy !== undefined) trust.policy = readPolicy(decoded(bytesOf(trust.policy)));
    const source = sourceOf(file);
    mustBe(name, source.begin(BEGIN), "evidence", "session");
    evidence = openedSource(source, trust);
  } catch (refused) {
    console.error(refused.message.split("\n").map(printable).join("\n"));
    return refused instanceof NotUsable ? 1 : 2;
  }
  const found = evidence.verdict(), says = found.code ? [] : [...summary(evidence)].map(([name, text]) => `${name}: ${text}`);
  const unproven = found.code ? [] : evidence.file.notProven.map((line) => `not proven: ${line}`);
  say(inWords(found), ...says, ...evidence.checked.map((line) => `checked: ${line}`), ...unproven);
  return { holds: 0, fails: 4 }[found.verdict] ?? 5;
}

function checkAlone(names) { // a proof, with a file of the company's keys
  const sources = names.map(bytesOf);
  sources.forEach((source, i) => mustBe(names[i], source, ["proof", "keys"][i]));
  let proof, root, whose;
  try {
    const [read1, key] = sources.map((source) => read(textOf(source)));
    proof = read1;
    root = checkInclusion(proof, key);
    whose = [checkKey(key)].flat().join(", ");
  } catch (refused) {
    say(`fails: ${refused.message}`);
    return 4;
  }
  const { record } = proof, pruned = isPruned(record), place = `record ${record.index}, below the chain root ${root}`;
  if (pruned) {
    say("pruned: what the record said cannot be checked. Its hash is signed, and in the log", `what: ${place}`);
  } else {
    const { agentId, companyId, actionType, payload } = record.payload;
    say("holds, key not confirmed: compare a fingerprint below with one that you have from elsewhere",
      `who: agent ${canonical(agentId)} of the company ${canonical(companyId)}`,
      `what: ${canonical(actionType)}, ${place}, ${record.timestamp} by the service's clock`,
      `payload: ${shown(canonical(payload))}`, `on behalf of: ${behalf({}, record)}`, "right: not in this file");
  }
  say(`signed by: a key of the file of keys, which has ${whose}`);
  return pruned ? 5 : 0;
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) process.exitCode = main(process.argv.slice(2));

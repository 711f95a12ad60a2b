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

export function main(all) { // returns the exit status
  const [name, ...options] = all;
  if (options.length === 1 && !options[0].startsWith("--")) {
    try {
      const sources = all.map(bytesOf);
      sources.forEach((source, i) => mustBe(all[i], source, ["proof", "keys"][i]));
      const [proof, key] = sources.map((source) => read(textOf(source))), root = checkInclusion(proof, key);
      const whose = [checkKey(key)].flat().join(", "), pruned = isPruned(proof.record);
      console.log(pruned ? `pruned: what record ${proof.record.index} said cannot be checked. Its hash is signed, and in the chain with root ${printable(root)}`
        : `record ${proof.record.index} is genuine and in the chain with root ${printable(root)}`);
      console.log(`if this is the company's key, or one of them is: ${printable(whose)}`);
      return pruned ? 5 : 0;
    } catch (refused) {
      const isRead = !("syscall" in refused) && !(refused instanceof NotRead);
      console[isRead ? "log" : "error"](`${isRead ? "fails: " : ""}${printable(refused.message)}`);
      return isRead ? 4 : 2;
    }
  }
  let evidence;
  try {
    const usage = "usage: check.mjs FILE [--key FINGERPRINT | --policy FILE] [--agent-key THUMBPRINT]", trust = {};
    must(name && options.length % 2 === 0, usage);
    for (let i = 0; i < options.length; i += 2) {
      const known = { "--key": "fingerprint", "--policy": "policy", "--agent-key": "agentKey" }[options[i]];
      must(known && !Object.hasOwn(trust, known), usage);
      trust[known] = options[i + 1];
    }
    must(!(trust.fingerprint !== undefined && trust.policy !== undefined), usage);
    const file = openSync(name);
    must(trust.fingerprint === undefined || /^SHA256:[A-Za-z0-9_-]{43}$/.test(trust.fingerprint), "a fingerprint is SHA256: and 43 characters of base64url");
    must(trust.agentKey === undefined || isThumbprint(trust.agentKey), "a thumbprint of an agent's key is 43 characters of base64url");
    if (trust.policy !== undefined) trust.policy = readPolicy(decoded(bytesOf(trust.policy)));
    const source = sourceOf(file);
    mustBe(name, source.begin(BEGIN), "evidence", "session");
    evidence = openedSource(source, trust);
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

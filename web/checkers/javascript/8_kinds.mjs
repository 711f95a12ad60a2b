// What a file is, and who checks it. A file of another kind than this checker reads may be as
// genuine as any: it gets no verdict. Package filekind is the reference of this part.
export const KINDS = {
  evidence: ["evidence of a record", "attestd check, check.py, check.mjs, verifier.html and the page Proof of the console check it"],
  session: ["the file of a session", "attestd check, check.py, check.mjs and verifier.html check it"],
  report: ["a report", "attestd check, attestd report and the page Report of the console check it"],
  archive: ["an archive", "attestd check checks it, by itself"],
  lines: ["a file of exported lines", "attestd check --lines checks it"],
  proof: ["a proof", "check.py and check.mjs check it, with a file of the company's keys after it"],
  record: ["a record", "functions of check.py and check.mjs check it, with the company's keys; GET /v1/evidence/{index} is a file about it that attestd check reads"],
  status: ["the status of a passport", "functions of check.py and check.mjs check it, with the company's keys"],
  passport: ["an answer with a passport", "functions of check.py and check.mjs check it, with the company's keys; the page Passports of the console checks the token in it"],
  token: ["a token", "functions of check.py and check.mjs check a passport, with the company's keys, and the page Passports of the console"],
  keys: ["a file of a company's keys", "check.py and check.mjs take it after a proof"],
  checkpoint: ["a checkpoint", "the page Checkpoints of the console checks it; with GET /v1/log/{logId}/consistency, attestd check --newer compares it with a file of before"],
  consistency: ["the proof that a log goes on", "attestd check --newer takes it, beside a file of before"],
  "tlog-proof": ["a tlog-proof", "tools of c2sp.org check it; GET /v1/evidence/{index} has it in a file that attestd check reads"],
  saved: ["evidence that an earlier console saved", "the page Proof of the console checks it"],
};
export const BEGIN = 8 << 20; // bytes of a file that count
const BY_FORM = [
  ["tlog-proof", /^c2sp\.org\/tlog-proof@v1\n/], ["consistency", /^old (0|[1-9][0-9]*)\n/], ["checkpoint", /^[^{\n]+\n(0|[1-9][0-9]*)\n[A-Za-z0-9+/]{43}=\n/],
];
const TOKEN = /^[ \t\r\n]*[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+[ \t\r\n]*$/;
const BY_FORMAT = new Map([["attestd-evidence/v1", "evidence"], ["attestd-session/v1", "session"], ["attestd-report/v1", "report"]]);
// the type of a file's first line
const BY_TYPE = new Map([["archive", "archive"], ["record", "lines"], ["checkpoint", "lines"], ["opening", "lines"], ["keys", "lines"]]);
const BY_MEMBERS = [
  ["proof", "record", "proof", "root"], ["record", "index", "timestamp", "payload", "hash", "signature"], ["status", "jti", "status", "checkedAt", "signature"],
  ["passport", "passport", "caPublicKey"], ["keys", "keys", "origin"], ["keys", "keys", "fingerprint"],
];

export function kindOf(begin) { // of a file, by its first BEGIN bytes; "" where it is of no kind
  const isWhole = begin.length < BEGIN, text = begin.toString("latin1"); // byte for byte
  for (const [kind, form] of BY_FORM) if (form.test(text)) return kind;
  if (isWhole && TOKEN.test(text)) return "token";
  const end = begin.indexOf(10), line = end < 0 ? begin : begin.subarray(0, end);
  if (end < 0 && !isWhole) return "";
  const at = line.indexOf(123), kind = at >= 0 && at <= 1024 ? kindOfObject(line.subarray(at)) : "";
  if (kind && (at === 0 || kind === "lines")) return kind;
  return isWhole && end >= 0 ? kindOfObject(begin) : "";
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function kindOfObject(text) {
  let value;
  try {
    bounded(text);
    value = read(decoded(text));
  } catch {
    return "";
  }
  if (!isObject(value)) return "";
  const has = (name) => Object.hasOwn(value, name);
  const inside = has("unmapped") ? value.unmapped : null, carried = isObject(inside) && Object.hasOwn(inside, "attestd") ? inside.attestd : null;
  if (has("class_uid") && isObject(carried) && kindOfFormat(carried) === "lines") return "lines";
  if (has("format")) return kindOfFormat(value);
  if (has("type") && value.type === "attestd-evidence") return "saved";
  return BY_MEMBERS.find(([, ...names]) => names.every(has))?.[0] ?? "";
}

function kindOfFormat(value) {
  const of = (name) => (Object.hasOwn(value, name) ? value[name] : "");
  if (of("format") === "attestd-lines/v1") return BY_TYPE.get(of("type")) ?? "";
  return BY_FORMAT.get(of("format")) ?? "";
}

class NotRead extends Error {} // a file is of a kind that this checker does not read

function mustBe(name, begin, ...kinds) {
  const kind = kindOf(begin.subarray(0, BEGIN));
  if (kind && !kinds.includes(kind)) throw new NotRead(`${name} is ${KINDS[kind].join(": ")}`);
}

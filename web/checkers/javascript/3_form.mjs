// What follows checks files of GET /v1/evidence/{index}, whose format and checks the reference
// describes. The checks are made in this order, and the first that fails gives the code.

const like = (pattern) => (s) => isString(s) && pattern.test(s);
const hexadecimal = (digits) => like(new RegExp(`^[0-9a-f]{${digits}}$`));
const base64url = (size) => (s) => isString(s) && unbase64url(s).length === size;
const oneOf = (...values) => (s) => values.includes(s);
const number = (n) => typeof n === "bigint" && n >= 0n && n < 2n ** 53n;
const timestamp = (s) => Number.isFinite(milliseconds(s));
const anything = () => true;

// A form is a function, or [form, most elements], or members with their forms, where ? marks what
// may be absent.
const WHOLE = { index: number, timestamp, payload: anything, hash: hexadecimal(64), signature: base64url(64), "delegation?": anything };
const PRUNED = { ...WHOLE, payload: (payload) => payload === null, pruned: (pruned) => pruned === true };
const RECORD = (value) => {
  hasForm(value, isPruned(value) ? PRUNED : WHOLE, "record");
  return true;
};
const ENTRIES = [{ record: RECORD, tlogProof: isString }, 10_000];
const ROTATION = { statement: isString, oldSignature: base64url(64), newSignature: base64url(64) };
const JWK = { kty: isString, crv: isString, x: base64url(32), kid: isString, alg: isString, use: isString };
const STATUS = {
  jti: isString, companyId: isString, status: isString, checkedAt: timestamp, caPublicKey: isString, signature: base64url(64), "revokedAt?": timestamp, "reason?": isString,
};
const LOGS = [{ log: oneOf("actions", "control"), logId: hexadecimal(32), origin: isString, keys: [{ kid: hexadecimal(16), fromIndex: number, "rotation?": ROTATION }, 10_000] }, 2];
const KEYS = [{ kid: hexadecimal(16), fingerprint: isString, jwk: JWK }, 10_000];
const SESSION = like(/^[A-Za-z0-9._~-]{1,128}$/);
const COMPANY = like(/^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$/);
const EVIDENCE = {
  format: oneOf("attestd-evidence/v1"), companyId: COMPANY, log: oneOf("actions", "control"), record: RECORD,
  hexProof: { proof: [{ sibling: hexadecimal(64), position: oneOf("left", "right") }, 60], root: hexadecimal(64), size: number },
  tlogProof: isString, keys: KEYS, witnesses: [isString, 16], logs: LOGS,
  "delegation?": anything, "agentKey?": { records: ENTRIES }, "passport?": { jti: like(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/), records: ENTRIES }, "status?": STATUS, "authority?": { records: ENTRIES },
  notProven: [isString, 10_000],
};

function hasForm(value, form, name) {
  if (typeof form === "function") return must(form(value), `${name} has not its form`);
  if (Array.isArray(form)) {
    must(Array.isArray(value) && value.length <= form[1], `${name} is not a list of at most ${form[1]}`);
    return value.forEach((element, i) => hasForm(element, form[0], `${name}[${i}]`));
  }
  const names = Object.keys(form), optional = names.filter((n) => n.endsWith("?")).map((n) => n.slice(0, -1));
  must(!Array.isArray(value), `${name} is a list`);
  exactly(value, names.filter((n) => !n.endsWith("?")), optional);
  for (const n of names) {
    const member = n.replace("?", "");
    if (Object.hasOwn(value, member)) hasForm(value[member], form[n], `${name}.${member}`);
  }
}

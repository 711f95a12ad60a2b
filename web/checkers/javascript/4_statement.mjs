// What an agent signs with a key of its own: statements, and endorsements of its next key. They are
// compact JWS, and the reference says which.
const FIELD = 2n ** 255n - 19n, P256 = 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n;
const bigEndian = (bytes) => BigInt(`0x${bytes.toString("hex")}`), littleEndian = (bytes) => bigEndian(Buffer.from(bytes).reverse());
// y of the points of small order, for which everybody can sign
const SMALL = [
  "00".repeat(32), `01${"00".repeat(31)}`, `ec${"ff".repeat(30)}7f`, "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
].map((y) => littleEndian(Buffer.from(y, "hex")));

const isThumbprint = (value) => isString(value) && unbase64url(value).length === 32;
const isVisible = (value, longest) => isString(value) && value.length <= longest && /^[!-~]+$/.test(value);

function agentKey(jwk) { // {thumbprint, algorithm, check: whether it has signed}
  const curve = { OKP: "Ed25519", EC: "P-256" }[jwk.kty], names = curve === "P-256" ? ["x", "y"] : ["x"];
  exactly(jwk, ["kty", "crv", ...names]);
  const points = names.map((name) => unbase64url(jwk[name]));
  must(curve && jwk.crv === curve && points.every(({ length }) => length === 32), "not a key of an agent");
  const thumbprint = sha256(canonical(jwk)).toString("base64url");
  if (curve === "Ed25519") {
    const y = littleEndian(points[0]) % 2n ** 255n;
    must(y < FIELD && !SMALL.includes(y), "a key for which everybody can sign, or in another spelling");
    return { thumbprint, algorithm: "EdDSA", check: (signature, message) => verifies(points[0], signature, message) };
  }
  must(points.every((point) => bigEndian(point) < P256), "not a point of P-256");
  const key = createPublicKey({ key: jwk, format: "jwk" });
  return { thumbprint, algorithm: "ES256", check: (signature, message) => verify("sha256", message, { key, dsaEncoding: "ieee-p1363" }, signature) };
}

// its form, and not its signature
function readJWS(compact, type, longest, required, optional = []) {
  must(Buffer.byteLength(compact) <= longest, `longer than ${longest} bytes`);
  const parts = compact.split("."), [header, claims] = parts.slice(0, 2).map((part) => read(decoded(unbase64url(part)))), signature = unbase64url(parts[2] ?? "");
  exactly(header, ["alg", "typ", "kid"]);
  exactly(claims, required, optional);
  const { alg: algorithm, typ, kid } = header, { iss, aud, iat } = claims;
  must(["EdDSA", "ES256"].includes(algorithm) && typ === type && isThumbprint(kid), `not the header of ${type}`);
  must(parts.length === 3 && signature.length === 64, "a signature has 64 bytes");
  must([iss, aud].every((id) => isVisible(id, longest) && id.startsWith("spiffe://")), "not a SPIFFE ID");
  must(typeof iat === "bigint" && iat >= 0n && iat <= 253402300799n, "iat is not a time");
  const check = (key) => must(
    key.thumbprint === kid && key.algorithm === algorithm && key.check(signature, Buffer.from(`${parts[0]}.${parts[1]}`)), "it is not signed with this key",
  );
  return { kid, claims, check };
}

const REFUSED = [{ seq: number, hash: hexadecimal(64), code: like(/^[A-Z0-9_]{1,64}$/) }, 100];
const CONTINUES = { sid: SESSION, kid: isThumbprint, hash: hexadecimal(64) };

// one that names its log is of version 2, any other of version 1
function readStatement(compact) {
  const optional = ["log", "delegation", "sid", "seq", "prev", "refused", "continues", "end"];
  const said = readJWS(compact, "agent-statement+jwt", 32768, ["iss", "aud", "iat", "jti", "action_hash"], optional), { claims } = said;
  const has = (name) => Object.hasOwn(claims, name), seq = has("seq") ? claims.seq : 0n;
  must(isVisible(claims.jti, 128) && hexadecimal(64)(claims.action_hash), "jti or action_hash has not its form");
  must(!has("log") || isVisible(claims.log, 255), "log is not the origin of a log");
  must(!has("delegation") || (has("log") ? hexadecimal(64)(claims.delegation) : isVisible(claims.delegation, 128)), "delegation has not its form");
  must(has("sid") === has("seq") && (has("sid") || !has("end")), "a part of a session is missing");
  must(!has("sid") || SESSION(claims.sid), "not a session");
  must(number(seq) && has("prev") === (seq > 0n) && (!has("prev") || hexadecimal(64)(claims.prev)), "not a place in a session");
  must(!has("end") || claims.end === true, "end is not true");
  must(has("log") || !has("refused") && !has("continues"), "refused or continues is there without log");
  if (has("refused")) checkRefused(claims);
  if (!has("continues")) return said;
  hasForm(claims.continues, CONTINUES, "continues");
  must(has("sid") && seq === 0n, "continues is there, and this is not the first place of a session");
  must(claims.continues.sid !== claims.sid || claims.continues.kid !== said.kid, "continues names this very session");
  return said;
}

function checkRefused({ seq = 0n, prev, refused }) { // places before this one, in order
  must(seq > 0n && Array.isArray(refused) && refused.length > 0, "refused is there in the first place of a session, or empty");
  hasForm(refused, REFUSED, "refused");
  must(refused.every((one, i) => one.seq < (refused[i + 1]?.seq ?? seq)), "the places of refused do not stand in order before this one");
  must(refused.at(-1).seq < seq - 1n || refused.at(-1).hash === prev, "prev is not the hash of the refused statement before");
}

function readEndorsement(compact) {
  const said = readJWS(compact, "agent-key+jwt", 4096, ["iss", "aud", "iat", "jkt"]);
  must(isThumbprint(said.claims.jkt) && said.claims.jkt !== said.kid, "jkt is not another key");
  return said;
}

// Whether a raw key has signed; as OpenSSL and Go do, it takes S < L alone and compares R byte for
// byte.
function verifies(raw, signature, message) {
  try {
    const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]);
    return verify(null, message, createPublicKey({ key: der, format: "der", type: "spki" }), signature);
  } catch {
    return false; // not a point of the curve
  }
}

const isName = (name) => // that may stand in a signature line
  name !== "" && Buffer.byteLength(name) <= 255 && !/[\0-\x20+\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/.test(name);

const unbase64 = (text) => {
  const decoded = Buffer.from(text, "base64");
  must(decoded.toString("base64") === text, "not base64");
  return decoded;
};

const keyID = (name, kind, raw) => sha256(Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(kind), raw])).subarray(0, 4);

function readVKey(vkey, kind) { // of a log (1) or a witness (4)
  const [name, tag, ...rest] = vkey.split("+"), key = unbase64(rest.join("+")), raw = key.subarray(1);
  must(isName(name) && raw.length === 32 && key[0] === kind && keyID(name, kind, raw).toString("hex") === tag, "not a vkey of this kind");
  return { vkey, name, raw, id: keyID(name, kind, raw) };
}

// The one of some witnesses whose cosignature a line is; undefined where it says that it is of none
// of them, and refused where it does not verify.
function cosigner([name, blob], body, witnesses) {
  const claimed = witnesses.filter((w) => w.name === name && w.id.equals(blob.subarray(0, 4)));
  if (claimed.length === 0) return undefined;
  must(blob.length === 76, "not a cosignature");
  const at = blob.readBigUInt64BE(4);
  const found = claimed.find(({ raw }) => verifies(raw, blob.subarray(12), Buffer.from(`cosignature/v1\ntime ${at}\n${body}`)));
  must(at > 0n && at < 2n ** 63n && found, `the cosignature of ${name} does not verify`);
  return found;
}

const signatureLines = (lines) => {
  must(lines.endsWith("\n"), "not a signed note");
  return lines.slice(0, -1).split("\n").map((line) => {
    const [dash, name, base64, ...rest] = line.split(" ");
    must(dash === "\u2014" && isString(base64) && rest.length === 0 && isName(name) && unbase64(base64).length > 4, "not a signature line");
    return [name, unbase64(base64)];
  });
};

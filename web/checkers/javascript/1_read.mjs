// check.mjs checks what an attestd has signed, without it. It needs Node 20 and nothing else.
//
//   node check.mjs evidence.json [--key FINGERPRINT | --policy FILE]   a file of GET /v1/evidence/{index}
//   node check.mjs proof.json key.json                                 a proof, and the answer of GET /v1/ca/public-key(s)
//
// Exit status: 0 it holds, 4 it fails, 5 it is self-consistent only (no key and no policy was given), 2 usage.
import { createHash, createPublicKey, verify } from "node:crypto";
import { readFileSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";

const must = (ok, message) => { if (!ok) throw new Error(message); };
const sha256 = (text) => createHash("sha256").update(text).digest();
const isString = (value) => typeof value === "string";

const exact = (spelling) => { // the digits without outer zeros, and their exponent
  const [, sign, whole, fraction = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([-+]?\d+))?$/i.exec(spelling);
  const digits = (whole + fraction).replace(/^0+/, ""), kept = digits.replace(/0+$/, "");
  return kept && `${sign}${kept}e${BigInt(power) - BigInt(fraction.length) + BigInt(digits.length - kept.length)}`;
};

export function read(text) { // strict JSON: no name twice, no number that a double does not keep; integers become BigInt
  JSON.parse(text); // refuses what is not JSON, so that the rest need not
  const tokens = text.match(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]]|[^\s{}[\]:,"]+/g);
  let at = 0;
  const scalar = (token) => {
    const value = JSON.parse(token);
    must(typeof value !== "number" || exact(String(value)) === exact(token), `${token} is not kept by a double`);
    must(!isString(value) || !/\p{Surrogate}/u.test(value), "a lone surrogate");
    return typeof value === "number" && !/[.e]|^-0$/i.test(token) ? BigInt(token) : value;
  };
  const next = () => {
    const token = tokens[at++], members = new Map(), items = [];
    if (token !== "{" && token !== "[") return scalar(token);
    for (; !"}]".includes(tokens[at]); ) {
      if (token === "[") { items.push(next()); continue; }
      const name = scalar(tokens[at++]);
      must(!members.has(name), `${name} stands twice`);
      members.set(name, next());
    }
    at++;
    return token === "[" ? items : Object.fromEntries(members);
  };
  return next();
}

const canonical = (v) => // RFC 8785: JavaScript's own numbers, strings and sort order are its rules
  Array.isArray(v) ? `[${v.map(canonical)}]`
  : v && typeof v === "object" ? `{${Object.keys(v).sort().map((k) => `${JSON.stringify(k)}:${canonical(v[k])}`)}}`
  : JSON.stringify(typeof v === "bigint" ? Number(v) : v);

const exactly = (value, members, optional = []) =>
  must(value && typeof value === "object" && members.every((name) => Object.hasOwn(value, name))
    && Object.keys(value).every((name) => members.includes(name) || optional.includes(name)), `not an object of exactly ${members}`);

const milliseconds = (timestamp) => { // of its one form, such as 2006-01-02T15:04:05.000Z
  must(isString(timestamp) && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(timestamp), "not a timestamp");
  must(new Date(timestamp).toISOString() === timestamp, "not a time");
  return Date.parse(timestamp);
};

const unbase64url = (text) => {
  const decoded = Buffer.from(text, "base64url");
  must(decoded.toString("base64url") === text, "not base64url");
  return decoded;
};

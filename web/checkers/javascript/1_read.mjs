// check.mjs checks what an attestd has signed, without it. It needs Node 20 and nothing else.
//
//   node check.mjs FILE [--key FINGERPRINT | --policy FILE] [--agent-key THUMBPRINT]
//     a file of GET /v1/evidence/{index}, or of a session: GET /v1/sessions/{agentId}/{sid}
//   node check.mjs proof.json key.json
//     a proof, and the answer of GET /v1/ca/public-key(s)
//
// It prints the verdict first. Exit status: 0 "holds", 4 "fails", 5 "holds, key not confirmed" (no
// key and no policy was given, and attestd trust has stored no key of the company), 2 no verdict: a
// mistake of typing, or a file that it does not read; 1 the stored keys cannot be relied on.
import { createHash, createPublicKey, verify } from "node:crypto";
import { closeSync, constants, fstatSync, lstatSync, openSync, readlinkSync, readSync, realpathSync } from "node:fs";
import { dirname, isAbsolute, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const must = (ok, message) => { if (!ok) throw new Error(message); };
const sha256 = (text) => createHash("sha256").update(text).digest();
const isString = (value) => typeof value === "string";

const exact = (spelling) => { // the digits without outer zeros, and their exponent
  const [, sign, whole, fraction = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([-+]?\d+))?$/i.exec(spelling);
  const digits = (whole + fraction).replace(/^0+/, ""), kept = digits.replace(/0+$/, "");
  return kept && `${sign}${kept}e${BigInt(power) - BigInt(fraction.length) + BigInt(digits.length - kept.length)}`;
};

// bytes, before they are parsed: what they weigh, as the reference says, and how deep they nest
export function bounded(source) {
  const weights = new Map([["{", 2], ["[", 2], [":", 4], [",", 4], ['"', 2]].map(([c, weight]) => [c.charCodeAt(0), weight]));
  let weight = 0, depth = 0;
  for (let at = 0; at < source.length; at++) {
    weight += weights.get(source[at]) ?? 0;
    // [ and {, ] and }
    depth += (source[at] | 0x20) === 0x7b ? 1 : (source[at] | 0x20) === 0x7d ? -1 : 0;
    if (source[at] === 0x22) {
      for (at++; at < source.length && source[at] !== 0x22 && weight <= 9_000_000; at++) {
        if (source[at] === 0x5c) weight += 4, at++;
      }
    }
    must(weight <= 9_000_000, "it weighs more than 9000000");
    must(depth >= 0 && depth <= 160, "nested too deep");
  }
}

const decoded = (bytes) => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);

function textOf(source) { // of a file, which is no longer and no heavier than one may be
  must(source.length <= 64 << 20, "longer than 64 MiB");
  bounded(source);
  return decoded(source);
}

// strict JSON: no name twice, no number that a double does not keep; integers become BigInt
export function read(text) {
  let at = 0;
  const take = (pattern) => { // what stands here and is like a pattern
    const start = pattern.lastIndex = at;
    if (pattern.test(text)) at = pattern.lastIndex;
    return text.slice(start, at);
  };
  const space = () => { while (" \t\n\r".includes(text[at] ?? "-")) at++; };
  const skip = (mark) => {
    must(text[at++] === mark, `${mark} is missing`);
    space();
  };
  const string = () => {
    const start = at++;
    let plain = true;
    for (take(/[^"\\\0-\x1f]*/y); text[at] !== '"'; take(/[^"\\\0-\x1f]*/y)) {
      must(text[at] === "\\", "not a string");
      plain = false;
      at += 2;
    }
    at++;
    // a slice shares the memory of the text
    const value = plain ? text.slice(start + 1, at - 1) : JSON.parse(text.slice(start, at));
    must(!/\p{Surrogate}/u.test(value), "a lone surrogate");
    return value;
  };
  const scalar = () => {
    if (text[at] === '"') return string();
    const token = take(/true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/y);
    must(token, `not JSON at ${at}`);
    const value = JSON.parse(token);
    must(typeof value !== "number" || String(value) === token || exact(String(value)) === exact(token), `${token} is not kept by a double`);
    return typeof value === "number" && !/[.e]|^-0$/i.test(token) ? BigInt(token) : value;
  };
  const member = (members) => {
    must(text[at] === '"', "a name is missing");
    const name = string();
    must(!members.has(name), `${name} stands twice`);
    space();
    skip(":");
    members.set(name, value());
  };
  const list = (close, one) => { // calls one for each element or member
    at++;
    space();
    for (let first = true; text[at] !== close; first = false) {
      if (!first) skip(",");
      one();
      space();
    }
    at++;
  };
  const value = () => {
    if (text[at] === "[") {
      const items = [];
      list("]", () => items.push(value()));
      return items.slice(); // without the room that push has made
    }
    if (text[at] !== "{") return scalar();
    const members = new Map();
    list("}", () => member(members));
    return Object.fromEntries(members);
  };
  space();
  const whole = value();
  space();
  must(at === text.length, `more than a value at ${at}`);
  return whole;
}

// of the canonical form, none of them long. RFC 8785: JavaScript's own numbers, strings and sort
// order are its rules
function* pieces(v) {
  if (Array.isArray(v) || v && typeof v === "object") {
    const isList = Array.isArray(v), names = isList ? v : Object.keys(v).sort();
    yield isList ? "[" : "{";
    for (let i = 0; i < names.length; i++) {
      if (i > 0) yield ",";
      if (!isList) {
        yield* pieces(names[i]);
        yield ":";
      }
      yield* pieces(isList ? v[i] : v[names[i]]);
    }
    yield isList ? "]" : "}";
  } else if (isString(v) && v.length > 1 << 16) {
    yield '"';
    for (let at = 0, end; at < v.length; at = end) {
      end = Math.min(v.length, at + (1 << 16));
      if (end < v.length && /[\ud800-\udbff]/.test(v[end - 1])) end--; // no character is cut
      yield JSON.stringify(v.slice(at, end)).slice(1, -1);
    }
    yield '"';
  } else {
    yield JSON.stringify(typeof v === "bigint" ? Number(v) : v);
  }
}

const canonical = (v) => [...pieces(v)].join("");

// each a text, or a list with a value; their forms are joined by |
function digestOfParts(...parts) {
  const digest = createHash("sha256");
  let some = "";
  parts.forEach((part, i) => {
    for (const piece of isString(part) ? [part] : pieces(part[0])) {
      some += piece;
      if (some.length < 1 << 16) continue;
      digest.update(some);
      some = "";
    }
    if (i < parts.length - 1) some += "|";
  });
  return digest.update(some).digest();
}

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

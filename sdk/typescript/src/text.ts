import { PayloadError } from "./errors.js";

/**
 * The JSON of a value, made fit for canonical JSON (RFC 8785), which the service demands:
 * - Surrogates without their other half, as they stand in text that was cut inside a character, are
 *   replaced by U+FFFD. What is recorded is the replaced text.
 * - NaN and the infinities, which JSON.stringify would turn into null, are refused, and so are
 *   integers beyond 2^53 that are spelled in digits alone: JSON.parse and JavaScript have rounded
 *   them perhaps before they came here. Give them as strings. A bigint within that is sent as a
 *   number.
 */
export function encode(value: unknown): string {
  const places = new Map<unknown, string>();
  const text = JSON.stringify(value, function (this: unknown, name: string, member: unknown) {
    const place = places.has(this) ? `${places.get(this)}/${name.replace(/~/g, "~0").replace(/\//g, "~1")}` : "";
    if (typeof member === "object" && member !== null) places.set(member, place);
    return typeof member === "number" || typeof member === "bigint" ? carried(member, place) : member;
  });
  if (text === undefined) throw new PayloadError("", `${typeof value} has no form in JSON`);
  // JSON.stringify writes lone surrogates, and no others, as escapes in lower case.
  return text.replace(/\\(?:u(d[89a-f][0-9a-f]{2})|[^])/g, (escape, surrogate) => (surrogate ? "\ufffd" : escape));
}

function carried(n: number | bigint, place: string): number {
  const double = Number(n);
  if (!Number.isFinite(double)) throw new PayloadError(place, `${n} has no form in JSON`);
  if (typeof n === "bigint" ? !Number.isSafeInteger(double) : Number.isInteger(n) && !Number.isSafeInteger(n) && Math.abs(n) < 1e21) {
    throw new PayloadError(place, `the integer ${n} is beyond 2^53, where JSON numbers lose digits; give it as a string`);
  }
  return double;
}

/** Text with U+FFFD in place of surrogates without their other half. */
export const wellFormed = (text: string): string => text.replace(/\p{Surrogate}/gu, "\ufffd");

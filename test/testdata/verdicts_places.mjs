// What check.mjs makes of the places of the sessions in places.json, or sequence.js of the console, whose path is given: a list with "contradiction", or the state, what was recorded although it
// was refused, and whether there is more of that.
import { readFileSync } from "node:fs";

const [library] = process.argv.slice(2);
const Places = library ? (await import(library)).Sequence : (await import("./check.mjs")).Places;
const number = library ? Number : BigInt; // of check.mjs they are BigInt

console.log(JSON.stringify(JSON.parse(readFileSync("places.json", "utf8")).map(({ statements }) => {
  const places = new Places();
  try {
    for (const { seq, refused, hash, ...one } of statements) {
      places.add({ ...one, seq: number(seq), ...(refused && { refused: refused.map((place) => ({ ...place, seq: number(place.seq) })) }) }, number(seq), hash);
    }
  } catch {
    return "contradiction";
  }
  return `${places.state()} ${JSON.stringify(places.recorded.map((one) => one.map(Number)))} ${places.isMore}`;
})));

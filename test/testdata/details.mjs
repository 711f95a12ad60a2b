// prints whether check.mjs covers each call and refuses each text of details, as cases.json has them
import { readFileSync } from "node:fs";
import { checkDetails, covers, read } from "./check.mjs";

const cases = JSON.parse(readFileSync("details.json", "utf8"));
const refuses = (text) => {
  try {
    checkDetails(read(text));
  } catch {
    return true;
  }
  return false;
};
const found = cases.covers.flatMap(({ details, calls }) => {
  const checked = read(JSON.stringify(details));
  checkDetails(checked);
  return calls.map(({ tool, arguments: args }) => covers(checked, tool, args ?? undefined));
});
console.log(JSON.stringify({ covers: found, refused: cases.refused.map(({ details }) => refuses(details)) }));

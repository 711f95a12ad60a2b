// What check.mjs makes of the texts of cases.json, before it prints them.
import { readFileSync } from "node:fs";
import { printable } from "./check.mjs";

console.log(JSON.stringify(JSON.parse(readFileSync("cases.json")).map(({ text }) => printable(text))));

// What check.mjs says of the calls among the records of each list in calls.json, or the console's lib, whose folder is given: a list of the states of sessions that are otherwise complete.
import { readFileSync } from "node:fs";
import { read } from "./check.mjs";

const [library] = process.argv.slice(2), text = readFileSync("calls.json", "utf8");

async function ofConsole() {
  const { CallTracker, disobeyedText } = await import(`${library}/calls.js`), { member, parse } = await import(`${library}/json.js`);
  return parse(text).items.map(({ items }) => {
    const calls = new CallTracker();
    const found = items.map((record, index) => calls.add(index, {
      agentId: member(record, "agentId").value, actionType: member(record, "actionType").value, inner: member(record, "payload"),
      decision: member(record, "decision") && { verdict: member(member(record, "decision"), "verdict").value },
    })).filter(Boolean);
    return found.length ? `disobeyed: ${disobeyedText(found)}; complete` : "complete";
  });
}

async function ofChecker() {
  const { Calls } = await import("./check.mjs");
  return read(text).map((records) => {
    const calls = new Calls();
    records.forEach((payload, index) => calls.add({ index, payload }));
    return calls.state("complete");
  });
}

console.log(JSON.stringify(await (library ? ofConsole() : ofChecker())));

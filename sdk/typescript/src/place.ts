// The place of a session on disk, for a session that goes on after its process was killed.
import { createHash, randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { readdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import type { Continuation } from "./agent.js";
import type { Next, Refusal } from "./session.js";

/** The places of the next statement of a session and of the last one, perhaps not in the spool. */
export interface State extends Next {
  /** The last item, as JSON, and when it was signed, in milliseconds. */
  item?: string | undefined;
  at?: number;
}

const host = createHash("sha256").update(hostname()).digest("hex").slice(0, 8);

const digest = (text: string) => createHash("sha256").update(text).digest("hex");

/** The text of a file. */
export const written = (state: State | Refusal): string => {
  const text = JSON.stringify(state);
  return `${digest(text)} ${text}`;
};

// undefined where the disk has changed it
function readSealed<T>(content: string): T | undefined {
  const at = content.indexOf(" ");
  const text = content.slice(at + 1);
  return content.slice(0, Math.max(at, 0)) === digest(text) ? JSON.parse(text) as T : undefined;
}

// Whether the process that has a file is alive, or may be: it is on another machine.
function isHeld(owner: string): boolean {
  const [machine, pid] = owner.split("-");
  if (machine !== host) return true;
  if (Number(pid) === process.pid) return true;
  try {
    process.kill(Number(pid), 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

/** A file of a place that is the caller's from now on, its content, and its key. */
interface Taken {
  name: string;
  state: State;
  kid: string;
}

const prefixOf = (kid: string, id: string) => digest(`${kid}\n${id}`).slice(0, 32);

/** What processes have left of a session; next is where it goes on. */
export interface Opened {
  /** Of a new file of the caller's. */
  name: string;
  next: State;
  /** Files that next replaces. */
  former: string[];
  /** What was signed last, and is perhaps nowhere else; to send it twice makes no second record. */
  items: string[];
}

/** For how long the service takes a statement, in milliseconds, with a day to spare. */
const SIGNED_FOR = 29 * 24 * 3600_000;

/**
 * Opens a session of a key, the first of kids; the others are former ones of the agent. The places
 * that processes have left are taken over by renaming the files, so that of many one gets each.
 * Where another process may have the session, after its end, and under the next key, the run goes
 * on under the ID with "~" and the time.
 */
export async function openPlace(folder: string, kids: readonly string[], id: string, continues: Continuation | undefined): Promise<Opened> {
  const [kid = ""] = kids;
  const newName = () => `${prefixOf(kid, id)}.${host}-${process.pid}-${randomBytes(6).toString("hex")}`;
  const of = new Map(kids.map((one) => [prefixOf(one, id), one]));
  const taken: Taken[] = [];
  let shared = false;
  for (const left of await readdir(folder)) {
    const [prefix = "", owner = ""] = left.split(".");
    const whose = of.get(prefix);
    if (whose === undefined) continue;
    const held = isHeld(owner);
    shared ||= held;
    if (held) continue;
    const name = `${prefix}${newName().slice(prefix.length)}`;
    try {
      await rename(join(folder, left), join(folder, name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      shared = true; // another was first
      continue;
    }
    const state = readSealed<State>(await readFile(join(folder, name), "utf8"));
    if (state) taken.push({ name, state, kid: whose });
    else shared = true; // the disk has changed it
  }
  taken.sort((a, b) => (a.state.at ?? 0) - (b.state.at ?? 0));
  const last = taken.at(-1);
  const next: State = last && !shared && last.kid === kid && !last.state.end ? { ...last.state, item: undefined }
    : { sid: last || shared ? `${id}~${Date.now()}` : id, seq: 0, continues: last && lastOf(last) };
  if (next.seq === 0 && continues) next.continues = continues;
  const items = taken.flatMap(({ state: { item, at = 0 } }) => (item && at > Date.now() - SIGNED_FOR ? [item] : []));
  return { name: newName(), next, former: taken.map(({ name }) => name), items };
}

// The last statement of a session, or what it goes on from itself where it has none.
const lastOf = ({ state: { sid, previous, continues }, kid }: Taken): Continuation | undefined => (previous === undefined ? continues : { sid, kid, hash: previous });

/** A file that says that a statement of a session was refused, for the process of that session. */
export const refusalFile = ({ kid, sid, seq }: Refusal): string => `${prefixOf(kid, sid)}.${seq}`;

/** What such files say that are of a session, and their names. */
export async function readRefusals(folder: string, kid: string, sid: string): Promise<{ name: string; refusal: Refusal | undefined }[]> {
  const prefix = `${prefixOf(kid, sid)}.`;
  const found = (await readdir(folder)).filter((name) => name.startsWith(prefix));
  return Promise.all(found.map(async (name) => ({ name, refusal: readSealed<Refusal>(await readFile(join(folder, name), "utf8")) })));
}

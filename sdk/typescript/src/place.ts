// The place of a session on disk, for a session that goes on after its process was killed.
import { createHash, randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { readdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";

/** Where the next statement of a session stands, and the last one, perhaps not in the spool. */
export interface State {
  sid: string;
  seq: number;
  previous?: string | undefined;
  end?: boolean;
  /** The last item, as JSON, and when it was signed, in milliseconds. */
  item?: string | undefined;
  at?: number;
}

const host = createHash("sha256").update(hostname()).digest("hex").slice(0, 8);

const digest = (text: string) => createHash("sha256").update(text).digest("hex");

/** The text of a file. */
export const written = (state: State): string => {
  const text = JSON.stringify(state);
  return `${digest(text)} ${text}`;
};

function readState(content: string): State | undefined {
  const at = content.indexOf(" ");
  const text = content.slice(at + 1);
  return content.slice(0, Math.max(at, 0)) === digest(text) ? JSON.parse(text) as State : undefined;
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

/** A file of a place that is the caller's from now on, and what stands in it. */
export interface Taken {
  name: string;
  state: State;
}

/**
 * Takes over the places of a session that processes have left, the newest last: by renaming the
 * files, so that of many one gets each. name is that of a new file of the caller's; shared says
 * that another process may have the session.
 */
export async function takePlaces(folder: string, thumbprint: string, id: string): Promise<{ name: string; taken: Taken[]; shared: boolean }> {
  const session = digest(`${thumbprint}\n${id}`).slice(0, 32);
  const newName = () => `${session}.${host}-${process.pid}-${randomBytes(6).toString("hex")}`;
  const taken: Taken[] = [];
  let shared = false;
  for (const left of await readdir(folder)) {
    const [of, owner] = left.split(".");
    if (of !== session) continue;
    shared ||= isHeld(owner ?? "");
    if (isHeld(owner ?? "")) continue;
    const name = newName();
    try {
      await rename(join(folder, left), join(folder, name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      shared = true; // another was first
      continue;
    }
    const state = readState(await readFile(join(folder, name), "utf8"));
    if (state) taken.push({ name, state });
    else shared = true; // the disk has changed it
  }
  taken.sort((a, b) => (a.state.at ?? 0) - (b.state.at ?? 0));
  return { name: newName(), taken, shared };
}

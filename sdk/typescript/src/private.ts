import { lstat, readlink } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { AttestdError } from "./errors.js";

const MAX_LINKS = 40; // as Linux has it

/**
 * Throws where another user, root aside, may replace what is at a path, or change it: when it, or a
 * folder above it, belongs to another user or may be written by group or others. A folder with the
 * sticky bit, such as /tmp, is no harm above a path. A link counts as what it leads to, and its
 * own place.
 */
export async function checkPrivate(path: string, above = false, links = 0): Promise<void> {
  const user = process.geteuid?.();
  if (user === undefined) return; // Windows, where no mode says so
  path = resolve(path);
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
    return undefined; // it would be made in the folder above
  });
  if (found && found.uid !== 0 && found.uid !== user) {
    throw new AttestdError(`${path} belongs to another user (${found.uid}), who may change or replace what is there; name another place`);
  }
  if (found?.isSymbolicLink()) {
    if (links === MAX_LINKS) throw new AttestdError(`${path}: too many links`);
    await checkPrivate(resolve(dirname(path), await readlink(path)), above, links + 1);
  } else if (found && (found.mode & 0o022) !== 0 && !(above && (found.mode & 0o1000) !== 0)) {
    throw new AttestdError(`${path}: group or others may write to it (mode ${(found.mode & 0o7777).toString(8)}), and so change or replace what is there; chmod go-w, or name another place`);
  }
  if (dirname(path) !== path) await checkPrivate(dirname(path), true, links);
}

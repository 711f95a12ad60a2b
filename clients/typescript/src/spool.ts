// Records that wait on disk, for programs in Node that cannot wait for the service. It is no part of what a browser loads.
import { randomBytes } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import { itemOf, MAX_BATCH, prepare, type Attestation } from "./attestation.js";
import type { Client } from "./client.js";
import { AttestdError, ServiceError } from "./errors.js";
import type { AttestationRecord } from "./operations.js";
import { isTemporary, sleep } from "./retry.js";

/** The service has refused items for good. They stand in the folder refused, each with its reason; what was left has been sent. */
export class RefusedError extends AttestdError {
  override name = "RefusedError";

  constructor(readonly folder: string, readonly refused: readonly { file: string; reason: string }[]) {
    super(`${refused.length} attestations were refused and stand in ${folder}: ${refused[0]?.reason}`);
  }
}

/** The folder holds as much as it may. Nothing was added. */
export class FullError extends AttestdError {
  override name = "FullError";
}

/** What became of an attestation: a record, or an item that waits on this disk and is sent by a later flush under the same key. */
export type Attested = { queued: false; record: AttestationRecord } | { queued: true; idempotencyKey: string };

type Refused = { file: string; reason: string }[];

/** The most bytes of a batch, well below what the service takes. */
const MOST_BYTES = 1 << 20;

/**
 * A folder with one file for each attestation that waits, written and synced under another name and then renamed, so that a process which is killed at any moment leaves a
 * whole item or none. Its name begins with the time, by which items are sent. Many processes may share the folder without a lock: each item has its own idempotency key, so
 * that two of them which send the same one make one record. Nothing is ever dropped: what the service refuses is moved to the folder refused.
 */
export class Spool {
  #last = 0;
  #size = -1; // bytes that wait, as this process knows; -1 when it must look

  private constructor(readonly folder: string, readonly client: Client, readonly limit: number) {}

  /** Opens a folder, which is made where there is none, readable by nobody else. limit, in bytes, is how much may wait: 1 GiB when absent. */
  static async open(folder: string, client: Client, { limit = 1 << 30 }: { limit?: number } = {}): Promise<Spool> {
    for (const name of ["new", "pending", "refused"]) await mkdir(join(folder, name), { recursive: true, mode: 0o700 });
    return new Spool(folder, client, limit);
  }

  /** Puts an attestation on disk. It resolves to its idempotency key when it is synced. */
  async add(attestation: Attestation): Promise<string> {
    const prepared = prepare(attestation);
    const item = itemOf(prepared);
    if (this.#size < 0) this.#size = await this.#measure();
    if (this.#size + Buffer.byteLength(item) > this.limit) {
      this.#size = -1; // others may have sent what waits
      throw new FullError(`the spool holds its ${this.limit} bytes`);
    }
    this.#last = Math.max(this.#last + 1, Date.now() * 1000); // the order of one process is kept when several come in a millisecond
    await this.#put("pending", `${String(this.#last).padStart(17, "0")}-${randomBytes(8).toString("hex")}.json`, item);
    this.#size += Buffer.byteLength(item);
    return prepared.key;
  }

  /** Appends a record, or puts it on disk while the service is away. It throws what the service says of a request that it will never take. */
  async attest(attestation: Attestation): Promise<Attested> {
    const ready = { ...attestation, idempotencyKey: attestation.idempotencyKey ?? crypto.randomUUID() };
    try {
      return { queued: false, record: await this.client.attest(ready) };
    } catch (error) {
      if (!isTemporary(error)) throw error;
      return { queued: true, idempotencyKey: await this.add(ready) };
    }
  }

  /** How many items wait. */
  async pending(): Promise<number> {
    return (await this.#names()).length;
  }

  /**
   * Sends all that waits, by batches. It throws where the service is away or takes no more for now, and what was not sent stays; and a RefusedError where, all else being sent,
   * items had to be set apart.
   */
  async flush(): Promise<void> {
    const refused: Refused = [];
    this.#size = -1;
    for (let names = await this.#names(); names.length; ) names = names.slice(await this.#batch(names, refused));
    if (refused.length) throw new RefusedError(join(this.folder, "refused"), refused);
  }

  /** Flushes every so many milliseconds until the signal. A flush that fails leaves what waits to the next, and failed, when given, learns of the error. */
  async run(every: number, signal: AbortSignal, failed: (error: unknown) => void = () => {}): Promise<void> {
    while (!signal.aborted) {
      await this.flush().catch(failed);
      await sleep(every, signal).catch(() => {});
    }
  }

  // Sends the first of some items, and returns how many are dealt with.
  async #batch(names: string[], refused: Refused): Promise<number> {
    const items: { name: string; text: string }[] = [];
    let bytes = 0;
    let read = 0;
    for (const name of names.slice(0, MAX_BATCH)) {
      const text = await this.#read(name, refused);
      bytes += Buffer.byteLength(text);
      if (items.length && bytes > MOST_BYTES) break;
      read++;
      if (text) items.push({ name, text });
    }
    await this.#send(items, refused);
    return read;
  }

  // An item that is no JSON was damaged on the disk; it is set apart. One that is gone was sent by another process.
  async #read(name: string, refused: Refused): Promise<string> {
    const text = await readFile(join(this.folder, "pending", name), "utf8").catch(gone(""));
    try {
      if (text) JSON.parse(text);
      return text;
    } catch {
      await this.#setApart(name, "what stands on the disk is not JSON", refused);
      return "";
    }
  }

  async #send(items: { name: string; text: string }[], refused: Refused): Promise<void> {
    if (!items.length) return;
    try {
      await this.client.sendBatch(items.map(({ text }) => text));
      await Promise.all(items.map(({ name }) => unlink(join(this.folder, "pending", name)).catch(gone(undefined))));
    } catch (error) {
      if (!(error instanceof ServiceError) || ![400, 403, 413, 422].includes(error.status) || isUnderAll(error)) throw error;
      const [, at] = /^\/records\/(\d+)/.exec(error.pointer) ?? [];
      if (at !== undefined && items[Number(at)]) {
        await this.#setApart(items[Number(at)]!.name, error.message, refused);
        return this.#send(items.filter((_, i) => i !== Number(at)), refused);
      }
      if (items.length === 1) return this.#setApart(items[0]!.name, error.message, refused);
      const half = Math.ceil(items.length / 2); // which of them it is, the answer does not say; or the batch is too large
      await this.#send(items.slice(0, half), refused);
      await this.#send(items.slice(half), refused);
    }
  }

  async #setApart(name: string, reason: string, refused: Refused): Promise<void> {
    await this.#put("refused", `${name}.reason`, `${reason}\n`);
    await rename(join(this.folder, "pending", name), join(this.folder, "refused", name)).catch(gone(undefined));
    refused.push({ file: name, reason });
  }

  async #measure(): Promise<number> {
    const sizes = (await this.#names()).map(async (name) => (await stat(join(this.folder, "pending", name)).catch(gone({ size: 0 }))).size);
    return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
  }

  async #names(): Promise<string[]> {
    return (await readdir(join(this.folder, "pending"))).sort();
  }

  // Writes a file that is there whole or not at all, and stays when the power fails.
  async #put(folder: string, name: string, text: string): Promise<void> {
    const made = join(this.folder, "new", name);
    const file = await open(made, "w", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(made, join(this.folder, folder, name));
    if (process.platform === "win32") return; // which cannot sync a folder
    const kept = await open(join(this.folder, folder), "r");
    await kept.sync().finally(() => kept.close());
  }
}

// A refusal that is about the credential and not about an item: setting items apart for it would empty the spool.
const isUnderAll = ({ status, code, pointer }: ServiceError) => status === 403 && !pointer && code !== "AGENT_DISABLED";

const gone = <T>(instead: T) => (error: NodeJS.ErrnoException): T => {
  if (error.code !== "ENOENT") throw error;
  return instead;
};

// Records that wait on disk, for programs in Node that cannot wait for the service. It is no part
// of what a browser loads.
import { createHash, randomBytes } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import { hashOf, idOf, nameOf, type Agent } from "./agent.js";
import { itemOf, MAX_BATCH, prepare, rekeyed, type Attestation, type Prepared } from "./attestation.js";
import type { Client } from "./client.js";
import { AttestdError, placeOf, REUSED, ServiceError } from "./errors.js";
import { onlyKnown } from "./known.js";
import { operations, type AttestationRecord } from "./operations.js";
import { takePlaces, written, type State } from "./place.js";
import { isTemporary, sleep } from "./retry.js";
import { isRefused } from "./session.js";

/**
 * The service has refused items for good, or the disk has damaged them. They stand in folder, each
 * with its reason. What was left has been sent or, where there is a cause, waits for that reason.
 */
export class RefusedError extends AttestdError {
  override name = "RefusedError";

  constructor(readonly folder: string, readonly refused: readonly { file: string; reason: string }[], cause?: unknown) {
    super(`${refused.length} attestations were refused and stand in ${folder}: ${refused[0]?.reason}`, { cause });
  }
}

/** The folder holds as much as it may. Nothing was added. */
export class FullError extends AttestdError {
  override name = "FullError";
}

/**
 * What became of an attestation: a record, or an item that waits on this disk and is sent by a
 * later flush under the same key.
 */
export type Attested = { queued: false; record: AttestationRecord } | { queued: true; idempotencyKey: string };

type Refused = { file: string; reason: string }[];

interface Item {
  name: string;
  text: string;
  key: string;
  /** The key is ours, and not the caller's. */
  made: boolean;
}

/**
 * How many items are sent while it is not known how many the service takes: a quarter of the usual
 * limit.
 */
const PROBE = 25;

/** The most characters of a batch, well below what the service takes. */
const MOST = 1 << 20;

/**
 * A folder with one file for each attestation that waits, written and synced under another name and
 * then renamed, so that a process which is killed at any moment leaves a whole item or none. A
 * file's name begins with the time, by which items are sent. It holds the SHA-256 of the rest in
 * hex, whose key it is (made, or given by the caller) and the item as JSON, each behind a space.
 * What does not have its checksum is not sent. Files that end in .json are of an earlier version,
 * which made no checksum, and are sent as they are. Many processes may share the folder without a
 * lock: each item has its own idempotency key, so that two of them which send the same one make one
 * record. Nothing is ever dropped: what the service refuses, and what the disk has damaged, is
 * moved to the folder refused, with the reason beside it.
 *
 * Of the service's rate limit a quarter is left to what is attested now.
 */
export class Spool {
  #last = 0;
  #size = -1; // bytes that wait, as this process knows; -1 when it must look
  #flushing: Promise<void> = Promise.resolve(); // the flush before, which the next one waits for
  // nameOf the statements that wait, by file; "" where an item has none
  readonly #signed = new Map<string, string>();

  private constructor(readonly folder: string, readonly client: Client, readonly limit: number) {}

  /**
   * Opens a folder, which is made where there is none, readable by nobody else. limit, in bytes, is
   * how much may wait: 1 GiB when absent.
   */
  static async open(folder: string, client: Client, options: { limit?: number } = {}): Promise<Spool> {
    onlyKnown("a Spool", options, ["limit"]);
    const { limit = 1 << 30 } = options;
    for (const name of ["new", "pending", "refused", "sessions"]) await mkdir(join(folder, name), { recursive: true, mode: 0o700 });
    // left by a process that was killed before it acknowledged them
    for (const name of await readdir(join(folder, "new"))) {
      const left = join(folder, "new", name);
      const { mtimeMs } = await stat(left).catch(gone({ mtimeMs: Infinity }));
      if (mtimeMs < Date.now() - 3600_000) await unlink(left).catch(gone(undefined));
    }
    return new Spool(folder, client, limit);
  }

  /** Puts an attestation on disk. It resolves to its idempotency key when it is synced. */
  async add(attestation: Attestation): Promise<string> {
    return this.#add(prepare(attestation));
  }

  async #add(prepared: Prepared): Promise<string> {
    await this.#addText(itemOf(prepared), prepared.made);
    return prepared.key;
  }

  // It resolves to the name of the file.
  async #addText(text: string, made: boolean): Promise<string> {
    const item = sealed(text, made);
    if (this.#size < 0) this.#size = await this.#measure();
    if (this.#size + Buffer.byteLength(item) > this.limit) {
      this.#size = -1; // others may have sent what waits
      throw new FullError(`the spool holds its ${this.limit} bytes`);
    }
    // the order of one process is kept when several come in a millisecond
    this.#last = Math.max(this.#last + 1, Date.now() * 1000);
    const name = `${String(this.#last).padStart(17, "0")}-${randomBytes(8).toString("hex")}.item`;
    await this.#put("pending", name, item);
    this.#size += Buffer.byteLength(item);
    return name;
  }

  /**
   * Appends a record, or puts it on disk while the service is away. It throws what the service says
   * of a request that it will never take.
   */
  async attest(attestation: Attestation): Promise<Attested> {
    const prepared = prepare(attestation);
    try {
      return { queued: false, record: await this.client.sendPrepared(prepared) };
    } catch (error) {
      if (!isTemporary(error)) throw error;
      return { queued: true, idempotencyKey: await this.#add(prepared) };
    }
  }

  /**
   * Opens a session of the agent whose credential the client has. One process has a session at a
   * time, and the next one goes on where it was, also after a kill. Where another process that
   * lives has the session, and after its end, this one is under the ID with "~" and the time.
   */
  async session(id: string): Promise<SpoolSession> {
    const { agent } = this.client;
    if (!agent) throw new AttestdError("a session needs an agent's key: give the client an Agent as its credential");
    if (!/^[A-Za-z0-9._-]{1,100}$/.test(id)) throw new AttestdError("the ID of a session must have 1 to 100 characters of A-Z, a-z, 0-9, '.', '_' and '-'");
    const { name, taken, shared } = await takePlaces(join(this.folder, "sessions"), await agent.thumbprint(), id);
    // What was signed last may be nowhere else; to send it twice makes no second record.
    for (const { state: { item, at = 0 } } of taken) if (item && at > Date.now() - SIGNED_FOR) await this.#addText(item, false);
    const last = taken.at(-1)?.state;
    const next = last && !last.end && !shared ? { ...last, item: undefined } : { sid: last || shared ? `${id}~${Date.now()}` : id, seq: 0 };
    await this.#put("sessions", name, written({ ...next, at: Date.now() }));
    for (const { name: former } of taken) await unlink(join(this.folder, "sessions", former)).catch(gone(undefined));
    return new SpoolSession(this.client, agent, next, {
      place: (now) => this.#put("sessions", name, written(now)),
      add: (text) => this.#addText(text, false),
      remove: (item) => unlink(join(this.folder, "pending", item)).catch(gone(undefined)),
      waiting: (statement) => this.#waiting(statement),
    });
  }

  // The statement of a name that waits, with its item; undefined where there is none.
  async #waiting(statement: string): Promise<Waiting | undefined> {
    const names = await this.#names();
    const there = new Set(names);
    for (const name of this.#signed.keys()) if (!there.has(name)) this.#signed.delete(name);
    for (const name of names) {
      const known = this.#signed.get(name);
      if (known !== undefined && known !== statement) continue;
      let found: Waiting | undefined;
      try {
        const { text } = unsealed(await readFile(join(this.folder, "pending", name)));
        found = { name, text, statement: (JSON.parse(text) as { statement: string }).statement };
        this.#signed.set(name, nameOf(found.statement));
      } catch { // it is gone, damaged or not signed
        this.#signed.set(name, "");
      }
      if (this.#signed.get(name) === statement) return found;
    }
    return undefined;
  }

  /** How many items wait. */
  async pending(): Promise<number> {
    return (await this.#names()).length;
  }

  /**
   * Sends all that waits, by batches. It throws where the service is away or takes no more for now,
   * and what was not sent stays; and a RefusedError where, all else being sent, items had to be set
   * apart. retryAfter of the ServiceError with the status 429 says when the rate limit takes more.
   */
  flush(): Promise<void> {
    const flushed = this.#flushing.then(() => this.#flush());
    this.#flushing = flushed.catch(() => {});
    return flushed;
  }

  async #flush(): Promise<void> {
    const refused: Refused = [];
    const refusal = (cause?: unknown) => new RefusedError(join(this.folder, "refused"), refused, cause);
    this.#size = -1;
    try {
      for (let names = await this.#names(); names.length; ) names = names.slice(await this.#batch(names.slice(0, this.#room()), refused));
    } catch (error) {
      throw refused.length ? refusal(error) : error;
    }
    if (refused.length) throw refusal();
  }

  /**
   * Flushes every so many milliseconds, or as soon as the rate limit takes more, until the signal.
   * A flush that fails leaves what waits to the next, and failed, when given, learns of the error,
   * but of a rate limit it does not.
   */
  async run(every: number, signal: AbortSignal, failed: (error: unknown) => void = () => {}): Promise<void> {
    while (!signal.aborted) {
      let wait = every;
      await this.flush().catch((error: unknown) => {
        const cause = error instanceof RefusedError ? error.cause : error;
        const limited = cause instanceof ServiceError && cause.status === 429;
        if (limited) wait = cause.retryAfter * 1000 || every;
        if (cause !== error || !limited) failed(error);
      });
      await sleep(wait, signal).catch(() => {});
    }
  }

  // How many items the service takes now, if what is attested meanwhile is to find room.
  #room(): number {
    const { rate } = this.client;
    if (!rate || (rate.limit && performance.now() >= rate.until)) return PROBE;
    if (!rate.limit) return MAX_BATCH;
    const room = rate.left - Math.floor(rate.limit / 4);
    if (room >= 1) return Math.min(room, MAX_BATCH);
    const wait = Math.max(0.1, (rate.until - performance.now()) / 1000);
    throw new ServiceError(operations.attestBatch.call, 429, "the rate limit has no room now for what waits in the spool", "", "", "", wait);
  }

  // Sends the first of some items, and returns how many are dealt with. A key stands in a batch but
  // once.
  async #batch(names: string[], refused: Refused): Promise<number> {
    const items: Item[] = [];
    const keys = new Set<string>();
    let bytes = 0;
    let read = 0;
    for (const name of names) {
      const item = await this.#read(name, refused);
      bytes += item?.text.length ?? 0;
      if (item && items.length && (bytes > MOST || keys.has(item.key))) break;
      read++;
      if (!item) continue;
      items.push(item);
      keys.add(item.key);
    }
    await this.#send(items, refused);
    return read;
  }

  // An item that is not as it was written was damaged on the disk; it is set apart. One that is
  // gone was sent by another process.
  async #read(name: string, refused: Refused): Promise<Item | undefined> {
    const content = await readFile(join(this.folder, "pending", name)).catch(gone(undefined));
    if (content === undefined) return undefined;
    try {
      const { made, text } = name.endsWith(".json") ? { made: false, text: decoded(content) } : unsealed(content);
      const { idempotencyKey, statement } = JSON.parse(text) as { idempotencyKey?: unknown; statement?: unknown };
      const key = idempotencyKey ?? statement; // which is its own key
      if (typeof key === "string") return { name, text, key, made };
    } catch { /* it is damaged as well */ }
    await this.#setApart(name, "what stands on the disk is not what was written", refused);
    return undefined;
  }

  async #send(items: Item[], refused: Refused, renewed = new Set<string>()): Promise<void> {
    while (items.length) {
      try {
        await this.client.sendBatch(items.map(({ text }) => text), { impatient: true });
        await Promise.all(items.map(({ name }) => unlink(join(this.folder, "pending", name)).catch(gone(undefined))));
        return;
      } catch (error) {
        if (!(error instanceof ServiceError) || ![400, 403, 413, 422].includes(error.status) && error.code !== "STATEMENT_REUSED" || isUnderAll(error)) throw error;
        const item = items[items.length === 1 ? 0 : placeOf(error) ?? NaN];
        if (item?.made && error.code === REUSED) {
          if (renewed.has(item.name)) throw error;
          renewed.add(item.name);
          const other = await this.#rekey(item);
          items = items.map((one) => (one === item ? other : one));
        } else if (item) {
          await this.#setApart(item.name, error.message, refused);
          items = items.filter((one) => one !== item);
        } else { // which of them it is, the answer does not say; or the batch is too large
          const half = Math.ceil(items.length / 2);
          await this.#send(items.slice(0, half), refused, renewed);
          items = items.slice(half);
        }
      }
    }
  }

  // The item under another key, on disk too, before it is sent.
  async #rekey({ name, text, key }: Item): Promise<Item> {
    const end = `,"idempotencyKey":${JSON.stringify(key)}}`;
    if (!text.endsWith(end)) throw new Error("the key is not at the end");
    const other = await rekeyed({ text: `${text.slice(0, -end.length)}}`, key, made: true });
    await this.#put("pending", name, sealed(itemOf(other), true));
    return { name, text: itemOf(other), key: other.key, made: true };
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

// A refusal that is about the credential and not about an item: setting items apart for it would
// empty the spool.
const isUnderAll = ({ operation, status, code, pointer }: ServiceError) => operation !== operations.attestBatch.call ||
  status === 403 && !pointer && !["AGENT_DISABLED", "AGENT_KEY_REQUIRED", "STATEMENT_KEY_UNKNOWN"].includes(code) || code === "FORBIDDEN_AGENT";

/** For how long the service takes a statement, in milliseconds, with a day to spare. */
const SIGNED_FOR = 29 * 24 * 3600_000;

interface Waiting {
  name: string;
  text: string;
  statement: string;
}

interface Disk {
  place(now: State): Promise<void>;
  add(item: string): Promise<string>;
  remove(name: string): Promise<void>;
  waiting(statement: string): Promise<Waiting | undefined>;
}

/**
 * One run of an agent: its statements are numbered, and each names the one before. What is signed
 * is on disk with its place before it is sent, so a process that is killed leaves no hole in the
 * numbers and uses none twice. While it waits, the same action under the same idempotencyKey is the
 * same statement.
 */
export class SpoolSession {
  #state: State;
  #turn: Promise<unknown> = Promise.resolve();
  #signed: string | undefined; // what has a place and is not in the spool

  /** @internal */
  constructor(readonly client: Client, readonly agent: Agent, state: State, readonly disk: Disk) {
    this.#state = state;
  }

  /** The ID of the session. */
  get id(): string {
    return this.#state.sid;
  }

  /** Signs an attestation at the next place. It resolves when it is synced; a flush sends it. */
  async add(attestation: Attestation): Promise<void> {
    await this.#next(attestation, false);
  }

  /** As add, and sends it: without an answer it waits on disk. It throws what is refused. */
  async attest(attestation: Attestation, end = false): Promise<Attested> {
    const { signed, name, before } = await this.#next(attestation, end);
    try {
      const record = await this.client.sendPrepared(signed);
      await this.disk.remove(name);
      return { queued: false, record };
    } catch (error) {
      if (!isRefused(error)) return { queued: true, idempotencyKey: "" };
      // It has no place, unless another has one after it; then a flush sets it apart.
      await this.#inTurn(async () => {
        if (!before || this.#state.previous !== await hashOf(signed.statement)) return;
        await this.disk.place(this.#state = before);
        await this.disk.remove(name);
      });
      throw error;
    }
  }

  /** As attest, of the last one of the session. */
  end(attestation: Attestation): Promise<Attested> {
    return this.attest(attestation, true);
  }

  // before is undefined for what was signed earlier and waits.
  #next(attestation: Attestation, end: boolean): Promise<{ signed: Prepared & { statement: string }; name: string; before: State | undefined }> {
    return this.#inTurn(async () => {
      if (this.#signed) await this.disk.add(this.#signed);
      this.#signed = undefined;
      const prepared = prepare(attestation);
      const waiting = prepared.made ? undefined : await this.disk.waiting(`${await this.agent.thumbprint()} ${await idOf(prepared.key)}`);
      if (waiting) {
        const { name, text, statement } = waiting;
        if (!await this.agent.says(statement, prepared, end)) throw new AttestdError("the idempotency key is that of another action, which waits");
        return { signed: { text, key: "", made: false, statement }, name, before: undefined };
      }
      const before = this.#state;
      const { sid, seq, previous } = before;
      if (before.end) throw new AttestdError("the session has ended");
      const signed = await this.agent.sign(prepared, { sid, seq, previous, end });
      const now: State = { sid, seq: seq + 1, previous: await hashOf(signed.statement), end, item: signed.text, at: Date.now() };
      await this.disk.place(now);
      [this.#state, this.#signed] = [now, signed.text];
      const name = await this.disk.add(signed.text);
      this.#signed = undefined;
      return { signed, name, before: { ...before, item: undefined } };
    });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }
}

const decoded = (content: Uint8Array) => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);

const digest = (rest: string | Uint8Array) => createHash("sha256").update(rest).digest("hex");

function sealed(text: string, made: boolean): string {
  const rest = `${made ? "made" : "given"} ${text}`;
  return `${digest(rest)} ${rest}`;
}

// Throws where the checksum is another.
function unsealed(content: Uint8Array): { made: boolean; text: string } {
  const at = content.indexOf(0x20);
  const rest = content.subarray(at + 1);
  if (decoded(content.subarray(0, Math.max(at, 0))) !== digest(rest)) throw new Error("the checksum is another");
  const text = decoded(rest);
  return { made: text.startsWith("made "), text: text.slice(text.indexOf(" ") + 1) };
}

const gone = <T>(instead: T) => (error: NodeJS.ErrnoException): T => {
  if (error.code !== "ENOENT") throw error;
  return instead;
};

// Records that wait on disk, for programs in Node that cannot wait for the service. It is no part
// of what a browser loads.
import { createHash, randomBytes } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import { nameOf, OtherLogError, placeIn, type Agent, type Continuation } from "./agent.js";
import { itemOf, MAX_BATCH, prepare, rekeyed, type Attestation, type OwnAttestation, type Prepared } from "./attestation.js";
import type { Client } from "./client.js";
import { AttestdError, ConnectionError, isPage, placeOf, RecordMismatchError, REUSED, ServiceError, STATEMENT_REUSED } from "./errors.js";
import { onlyKnown } from "./known.js";
import { operations, type AttestationRecord } from "./operations.js";
import { openPlace, readRefusals, refusalFile, written, type State } from "./place.js";
import { checkPrivate } from "./private.js";
import { isTemporary, sleep } from "./retry.js";
import { after, afterRefusal, elsewhere, FurtherIDs, idOfNext, isRefused, isReused, placeOfNext, refusalOf, type Refusal, type SessionOptions } from "./session.js";

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

/** What a flush has found, apart from what it has sent. */
interface Found {
  refused: Refused;
  /** The first answer that was not of what was sent. */
  mismatch?: RecordMismatchError;
  /** The error of the first item by itself that the service has not answered. */
  unanswered?: AttestdError;
  /** How many of them in a row: after three the service cannot be reached. */
  alone: number;
  /** How often in a row the connection was lost with several items. */
  lost: number;
  /** Sessions of which an item waits for that. */
  blocked: Set<string>;
}

const newFound = (): Found => ({ refused: [], alone: 0, lost: 0, blocked: new Set() });

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
 * moved to the folder refused, with the reason.
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
   * Opens a folder, which is made where there is none, readable by no other user. One in which
   * others may write, or that is below such a one, is refused: they could add, change and remove
   * attestations. limit, in bytes, is how much may wait: 1 GiB when absent.
   */
  static async open(folder: string, client: Client, options: { limit?: number } = {}): Promise<Spool> {
    onlyKnown("a Spool", options, ["limit"]);
    const { limit = 1 << 30 } = options;
    await checkPrivate(folder);
    for (const name of ["new", "pending", "refusals", "refused", "sessions"]) {
      await mkdir(join(folder, name), { recursive: true, mode: 0o700 });
      await checkPrivate(join(folder, name)); // somebody may have made it meanwhile
    }
    // left by a process that was killed before it acknowledged them
    await removeOld(join(folder, "new"), 3600_000);
    await removeOld(join(folder, "refusals"), REFUSALS_FOR); // of abandoned sessions
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
    // preserves the order of one process when several come in a millisecond
    this.#last = Math.max(this.#last + 1, Date.now() * 1000);
    const name = `${String(this.#last).padStart(17, "0")}-${randomBytes(8).toString("hex")}.item`;
    await this.#put("pending", name, item);
    this.#size += Buffer.byteLength(item);
    return name;
  }

  /**
   * Appends a record, or puts it on disk while the service is away. It throws what the service says
   * of a request that it will never take. After a RecordMismatchError, too, the attestation is on
   * disk.
   */
  async attest(attestation: Attestation): Promise<Attested> {
    const prepared = prepare(attestation);
    try {
      return { queued: false, record: await this.client.sendPrepared(prepared) };
    } catch (error) {
      if (error instanceof RecordMismatchError) await this.#add(prepared);
      if (!isTemporary(error) && !(error instanceof ServiceError && error.foreign)) throw error;
      return { queued: true, idempotencyKey: await this.#add(prepared) };
    }
  }

  /**
   * Opens a session of the agent whose credential the client has. One process has a session at a
   * time, and the next one goes on where it was, also after a kill. Where another process that
   * lives has the session, after its end, and under the next key of the agent, this one is under
   * the ID with "~" and the time; its first statement names the last one of the run before, or the
   * one that continues gives.
   */
  async session(id: string, options: SessionOptions = {}): Promise<SpoolSession> {
    onlyKnown("a session", options, ["continues"]);
    const { agent } = this.client;
    if (!agent) throw new AttestdError("a session needs an agent's key: give the client an Agent as its credential");
    if (!/^[A-Za-z0-9._-]{1,100}$/.test(id)) throw new AttestdError("the ID of a session must have 1 to 100 characters of A-Z, a-z, 0-9, '.', '_' and '-'");
    const kid = await agent.thumbprint();
    const { name, next, former, items } = await openPlace(join(this.folder, "sessions"), [kid, ...agent.known], id, options.continues);
    for (const item of items) await this.#addText(item, false);
    await this.#put("sessions", name, written({ ...next, at: Date.now() }));
    for (const one of former) await unlink(join(this.folder, "sessions", one)).catch(gone(undefined));
    return new SpoolSession(this.client, agent, kid, next, {
      place: (now) => this.#put("sessions", name, written(now)),
      add: (text) => this.#addText(text, false),
      remove: (item) => unlink(join(this.folder, "pending", item)).catch(gone(undefined)),
      setApart: (item, reason) => this.#setApart(item, reason, newFound()),
      waiting: (statement) => this.#waiting(statement),
      refused: (refusal) => this.#put("refusals", refusalFile(refusal), written(refusal)),
      refusals: (sid) => readRefusals(join(this.folder, "refusals"), kid, sid),
      forget: (file) => unlink(join(this.folder, "refusals", file)).catch(gone(undefined)),
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
   * A RecordMismatchError, perhaps as the cause, says that answers were not of what was sent: those
   * items stay.
   */
  flush(): Promise<void> {
    const flushed = this.#flushing.then(() => this.#flush());
    this.#flushing = flushed.catch(() => {});
    return flushed;
  }

  async #flush(): Promise<void> {
    const found = newFound();
    let cause: unknown;
    this.#size = -1;
    try {
      for (let names = await this.#names(); names.length; ) names = names.slice(await this.#batch(names.slice(0, this.#room()), found));
    } catch (error) {
      cause = error;
    }
    cause = found.mismatch ?? cause ?? found.unanswered;
    if (found.refused.length) throw new RefusedError(join(this.folder, "refused"), found.refused, cause);
    if (cause !== undefined) throw cause;
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

  // Sends the first of some items, and returns how many are dealt with. A key is in a batch but
  // once.
  async #batch(names: string[], found: Found): Promise<number> {
    const items: Item[] = [];
    const keys = new Set<string>();
    let bytes = 0;
    let read = 0;
    for (const name of names) {
      const item = await this.#read(name, found);
      bytes += item?.text.length ?? 0;
      if (item && items.length && (bytes > MOST || keys.has(item.key))) break;
      read++;
      if (!item) continue;
      items.push(item);
      keys.add(item.key);
    }
    await this.#send(items, found);
    return read;
  }

  // An item that is not as it was written was damaged on the disk; it is set apart. One that is
  // gone was sent by another process.
  async #read(name: string, found: Found): Promise<Item | undefined> {
    const content = await readFile(join(this.folder, "pending", name)).catch(gone(undefined));
    if (content === undefined) return undefined;
    try {
      const { made, text } = name.endsWith(".json") ? { made: false, text: decoded(content) } : unsealed(content);
      const { idempotencyKey, statement } = JSON.parse(text) as { idempotencyKey?: unknown; statement?: unknown };
      const key = idempotencyKey ?? statement; // which is its own key
      if (typeof key === "string") return { name, text, key, made };
    } catch { /* it is damaged as well */ }
    await this.#setApart(name, "the content on the disk is not what was written", found);
    return undefined;
  }

  async #send(items: Item[], found: Found, renewed = new Set<string>()): Promise<void> {
    const sent = (done: Item[]) => Promise.all(done.map(({ name }) => unlink(join(this.folder, "pending", name)).catch(gone(undefined))));
    while (items.length) {
      if (found.blocked.size) items = items.filter(({ text }) => !found.blocked.has(sessionOf(text)));
      if (!items.length) return;
      try {
        await this.client.sendBatch(items.map(({ text }) => text), { impatient: true });
        found.alone = found.lost = 0;
        await sent(items);
        return;
      } catch (error) {
        if (error instanceof RecordMismatchError) { // the others are recorded
          found.mismatch ??= error;
          await sent(items.filter((_, i) => !error.places.has(i)));
          return;
        }
        // Something in front of the service has answered, such as a gateway that takes the content
        // of an item for an attack, or the connection is lost whenever an item is sent, which may
        // be too large for it. That item waits, and so do later ones of its session.
        const lost = error instanceof ConnectionError && !error.unsent;
        const unanswered = lost || error instanceof ServiceError && isPage(error);
        if (unanswered && items.length === 1 && found.alone < 2) {
          found.unanswered ??= error;
          found.alone++;
          const session = sessionOf(items[0]!.text);
          if (session) found.blocked.add(session);
          return;
        }
        if (unanswered && items.length > 1) {
          if (lost) found.lost++;
          // a service that is away is found out by few attempts, which may take long
          const first = found.lost > 2 ? 1 : Math.ceil(items.length / 2);
          await this.#send(items.slice(0, first), found, renewed);
          items = items.slice(first);
          continue;
        }
        if (!(error instanceof ServiceError) || error.foreign || ![400, 403, 413, 422].includes(error.status) && error.code !== STATEMENT_REUSED || isUnderAll(error)) throw error;
        const item = items[items.length === 1 ? 0 : placeOf(error) ?? NaN];
        if (item?.made && error.code === REUSED) {
          if (renewed.has(item.name)) throw error;
          renewed.add(item.name);
          const other = await this.#rekey(item);
          items = items.map((one) => (one === item ? other : one));
        } else if (item) {
          const refusal = await refusalIn(item.text, error);
          if (refusal) await this.#put("refusals", refusalFile(refusal), written(refusal));
          await this.#setApart(item.name, error.message, found);
          items = items.filter((one) => one !== item);
        } else { // which of them it is, the answer does not say; or the batch is too large
          const half = Math.ceil(items.length / 2);
          await this.#send(items.slice(0, half), found, renewed);
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

  async #setApart(name: string, reason: string, { refused }: Found): Promise<void> {
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

/** For how long a refusal waits for its session to go on, in milliseconds. */
const REFUSALS_FOR = 60 * 24 * 3600_000;

async function removeOld(folder: string, age: number): Promise<void> {
  for (const name of await readdir(folder)) {
    const left = join(folder, name);
    const { mtimeMs } = await stat(left).catch(gone({ mtimeMs: Infinity }));
    if (mtimeMs < Date.now() - age) await unlink(left).catch(gone(undefined));
  }
}

/** Whose places the statement of an item has; "" outside of a session. */
function sessionOf(item: string): string {
  const { statement } = JSON.parse(item) as { statement?: string };
  const place = statement ? placeIn(statement) : undefined;
  return place ? `${place.kid} ${place.sid}` : "";
}

/** What later statements say of an item that was refused; undefined outside of a session. */
async function refusalIn(item: string, error: ServiceError): Promise<Refusal | undefined> {
  const { statement } = JSON.parse(item) as { statement?: string };
  return statement ? refusalOf(statement, error) : undefined;
}

interface Waiting {
  name: string;
  text: string;
  statement: string;
}

interface Disk {
  place(now: State): Promise<void>;
  add(item: string): Promise<string>;
  remove(name: string): Promise<void>;
  setApart(name: string, reason: string): Promise<void>;
  waiting(statement: string): Promise<Waiting | undefined>;
  refused(refusal: Refusal): Promise<void>;
  refusals(sid: string): Promise<{ name: string; refusal: Refusal | undefined }[]>;
  forget(file: string): Promise<void>;
}

/**
 * One run of an agent: its statements are numbered, and each names the one before. What is signed
 * is on disk with its place before it is sent, so a process that is killed leaves no hole in the
 * numbers and uses none twice. What the service refuses stays used too, at once or in a flush: the
 * next statement names it. While a statement waits, the same action under the same idempotencyKey
 * is the same statement.
 */
export class SpoolSession {
  #state: State;
  #turn: Promise<unknown> = Promise.resolve();
  #signed: string | undefined; // what has a place and is not in the spool
  readonly #ids = new FurtherIDs();
  #asked = false; // for the log
  #left: State | undefined; // where it was before it moved to another ID

  /** @internal */
  constructor(readonly client: Client, readonly agent: Agent, readonly kid: string, state: State, readonly disk: Disk) {
    this.#state = state;
  }

  /** The ID of the session. It changes where the service has other statements of that ID. */
  get id(): string {
    return this.#state.sid;
  }

  /** The last statement, which a further session can go on from; undefined before the first. */
  get last(): Continuation | undefined {
    const { sid, previous } = this.#state;
    return previous === undefined ? undefined : { sid, kid: this.kid, hash: previous };
  }

  /** Signs an attestation at the next place. It resolves when it is synced; a flush sends it. */
  async add(attestation: OwnAttestation): Promise<void> {
    await this.#next(attestation, false);
  }

  /**
   * As add, and sends it: without an answer it waits on disk. It throws what is refused, which
   * is in the folder refused then. After a RecordMismatchError or an OtherLogError it waits on
   * disk, too.
   */
  async attest(attestation: OwnAttestation, end = false): Promise<Attested> {
    if (!this.#asked) await this.client.learnLog();
    this.#asked = true;
    const { sid } = this.#state;
    try {
      return await this.#attest(attestation, end, true);
    } catch (error) {
      if (!isReused(error) || this.#state.sid === sid) throw error;
    }
    // Another statement has the place or the jti. Only the jti is the same elsewhere.
    return this.#attest(attestation, end, false);
  }

  async #attest(attestation: OwnAttestation, end: boolean, moves: boolean): Promise<Attested> {
    const { signed, name } = await this.#next(attestation, end);
    try {
      const record = await this.client.sendPrepared(signed);
      await this.disk.remove(name);
      return { queued: false, record };
    } catch (error) {
      if (error instanceof RecordMismatchError || error instanceof OtherLogError) throw error;
      if (!isRefused(error)) return { queued: true, idempotencyKey: "" };
      const refusal = await refusalOf(signed.statement, error);
      await this.#inTurn(async () => {
        await this.#addSigned();
        if (refusal && refusal.sid !== this.#state.sid) await this.disk.refused(refusal);
        else if (refusal) await this.disk.place(this.#refused(refusal, moves));
        await this.disk.setApart(name, error.message);
      });
      throw error;
    }
  }

  /** As attest, of the last one of the session. */
  end(attestation: OwnAttestation): Promise<Attested> {
    return this.attest(attestation, true);
  }

  #next(attestation: OwnAttestation, end: boolean): Promise<{ signed: Prepared & { statement: string }; name: string }> {
    return this.#inTurn(async () => {
      await this.#addSigned();
      const prepared = prepare({ ...attestation, agentId: attestation.agentId ?? this.agent.agentId });
      const refusals = await this.disk.refusals(this.#state.sid); // what a flush has found
      for (const { refusal } of refusals) if (refusal) this.#refused(refusal, true);
      const id = await idOfNext(this.#state, prepared);
      const waiting = id === undefined ? undefined : await this.disk.waiting(`${this.kid} ${id}`);
      if (waiting) {
        const { name, text, statement } = waiting;
        if (!await this.agent.says(statement, prepared, end)) throw new AttestdError("the idempotency key is that of another action, which waits");
        return { signed: { text, key: "", made: false, statement }, name };
      }
      if (this.#state.end) throw new AttestdError("the session has ended");
      const signed = await this.agent.sign(prepared, placeOfNext(this.#state, end), id);
      this.#state = { ...await after(this.#state, signed.statement, end), item: signed.text, at: Date.now() };
      this.#signed = signed.text;
      const name = await this.#addSigned();
      for (const { name: file } of refusals) await this.disk.forget(file);
      return { signed, name: name! };
    });
  }

  // Puts on disk what was signed: first its place, so that this is never used again.
  async #addSigned(): Promise<string | undefined> {
    if (!this.#signed) return undefined;
    await this.disk.place(this.#state);
    const name = await this.disk.add(this.#signed);
    this.#signed = undefined;
    return name;
  }

  // Where the session is after a refusal. Where another statement has the place, or the jti, it
  // moves to another ID; when it is the jti, it comes back.
  #refused(refusal: Refusal, moves: boolean): State {
    const { item, at = Date.now(), ...next } = this.#state;
    const kept = { ...(refusal.hash !== next.previous && { item }), at };
    const here = { ...afterRefusal(next, refusal), ...kept };
    const back = this.#left;
    this.#left = undefined;
    if (refusal.code !== STATEMENT_REUSED) return this.#state = here;
    if (!moves && back) return this.#state = { ...back, at };
    this.#left = here;
    return this.#state = { ...elsewhere(next, refusal, this.#ids.of(next.sid)), ...kept };
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

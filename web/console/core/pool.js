// @ts-check
// Hands records to the workers that check them (check_worker.js), each text to the one that has
// least to do.

export class Pool {
  /** @type {PoolWorker[]} */
  #workers;
  #sent = 0;

  /**
   * ports: workers, or ports to workers.
   * @param {(Worker | MessagePort)[]} ports
   */
  constructor(ports) {
    this.#workers = ports.map((port) => {
      const worker = { port, waiting: new Map() };
      port.onmessage = ({ data: { id, error, ...answer } }) => {
        const { resolve, reject } = worker.waiting.get(id);
        worker.waiting.delete(id);
        if (error) reject(new Error(error));
        else resolve(answer);
      };
      return worker;
    });
  }

  get size() {
    return this.#workers.length;
  }

  /**
   * Checks the texts of records of a log with a company's key as of plain: {engine, results}, and
   * in results for each text what checkRecord says with the record's index and hash, or {error}
   * where it is no record.
   * @param {string[]} texts
   * @param {PlainKey} key
   * @param {LogName} log
   * @returns {Promise<PoolAnswer>}
   */
  check(texts, key, log) {
    const worker = this.#workers.reduce((a, b) => (b.waiting.size < a.waiting.size ? b : a));
    const id = this.#sent++;
    return new Promise((resolve, reject) => {
      worker.waiting.set(id, { resolve, reject });
      worker.port.postMessage({ id, texts, log, key });
    });
  }

  /**
   * Ends all that waits: no worker will answer it.
   * @param {Error} err
   */
  fail(err) {
    for (const { waiting } of this.#workers) {
      for (const { reject } of waiting.values()) reject(err);
      waiting.clear();
    }
  }
}

/**
 * What of a company's key goes to a worker: {companyId, keys}, the raw keys with their first
 * records.
 * @param {{companyId: string, raw: Bytes, ring?: {raw: Bytes, fromIndex?: number}[]}} key
 * @returns {PlainKey}
 */
export const plain = ({ companyId, raw, ring = [{ raw, fromIndex: 0 }] }) =>
  ({ companyId, keys: ring.map((one) => ({ raw: one.raw, fromIndex: one.fromIndex })) });

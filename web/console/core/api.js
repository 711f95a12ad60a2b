// @ts-check
// The service's HTTP API. The credential lives in this module's memory, in a header, and never in a
// URL; the session of a person is a cookie that no page can read.
import { text } from '../lib/bytes.js';
import { FormError, having, json, list, read } from '../lib/form.js';
import { recordForm } from '../lib/record.js';
import { failure } from './answers.js';
import { NOTHING, mustName } from './asked.js';
import { rest } from './pause.js';

const ATTEMPTS = 5; // of one read that the server puts off
const LONGEST = 300; // seconds of a pause that is worth waiting for

/** In place of a key: the person of the browser's session. No key has spaces. */
export const PERSON = 'signed in as a person';

let credential = '';
/** @param {string} key */
export const setCredential = (key) => { credential = key; };
export const getCredential = () => credential;

// What the page wants to hear of: refused({message}), when the server no longer takes the
// credential; clock(offset), after each answer; reauthenticate(), before a change is
// asked for again.
const listeners = {
  /** @param {{message: string}} why */
  refused(why) {},
  /** @param {{offset: number, error: number}} now */
  clock(now) {},
  // a person has to use a passkey before this is done
  reauthenticate: async () => {},
};
/** @param {Partial<typeof listeners>} more */
export const setListeners = (more) => Object.assign(listeners, more);

/**
 * To be called where a worker found that a credential is no longer taken. A report about another
 * one than the present is of the past.
 * @param {string} used
 * @param {string} message
 */
export const refused = (used, message) => used && used === credential && listeners.refused({ message });

/**
 * What came instead of success. status is 0 when nothing came from the server at all. code: the
 * server's own, or AWAY where nothing answered, ELSEWHERE where something else answered in its
 * place. retryAt: the time, in milliseconds, before which it is no use to try again.
 */
export class APIError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {string} [code]
   * @param {number} [retryAt]
   */
  constructor(status, message, code = '', retryAt = 0) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAt = retryAt;
  }
}

/**
 * A GET that the server puts off (429) waits as long as the server says, and asks again. What
 * changes something is never repeated here.
 * @param {string} method
 * @param {string} path
 * @param {CallOptions} [options]
 */
export async function send(method, path, options = {}) {
  for (let attempt = 1; ; attempt++) {
    const used = credential;
    const response = await ask(method, path, options);
    if (response.ok && !isPage(response)) return response;
    const err = await refusal(response, used);
    if (err.code === 'REAUTHENTICATE' && attempt === 1) { // nothing was done
      await listeners.reauthenticate();
      continue;
    }
    const wait = (err.retryAt - Date.now()) / 1000;
    if (method !== 'GET' || err.status !== 429 || !err.retryAt || wait > LONGEST || attempt === ATTEMPTS) {
      if (err.status === 401 && (!err.code || err.code === 'ELSEWHERE')) refused(used, err.message);
      throw err;
    }
    await rest(err.retryAt, options.signal);
    if (used !== credential) throw new APIError(401, 'You signed out before the server answered.', 'SIGNED_OUT');
  }
}

/**
 * @param {string} method
 * @param {string} path
 * @param {CallOptions} options
 */
async function ask(method, path, { body, headers = {}, signal, accept = 'application/json', person }) {
  /** @type {Record<string, string>} */
  const all = { Accept: accept, ...headers };
  const cookie = person || credential === PERSON;
  if (cookie) all['X-Attestd-Console'] = '1'; // without it the server ignores the cookie
  else if (credential) all.Authorization = `Bearer ${credential}`;
  if (body !== undefined) all['Content-Type'] = 'application/json';
  const request = new Request(path, {
    method, signal, headers: all, body: body === undefined ? undefined : JSON.stringify(body),
    cache: 'no-store', credentials: cookie ? 'same-origin' : 'omit', redirect: 'manual', referrerPolicy: 'no-referrer',
  });
  const sent = Date.now();
  let response;
  try {
    response = await fetch(request);
  } catch (err) {
    if (err.name === 'AbortError') throw err;
    throw new APIError(
      0,
      navigator.onLine === false ? 'This computer is offline.' : 'The server does not answer.',
      'AWAY',
    );
  }
  reportClock(response.headers, sent, Date.now());
  return response;
}

/**
 * The Date of an answer is the server's clock in whole seconds, taken somewhere between sent and
 * answered. A cache's is not: it has an Age.
 * @param {Headers} headers
 * @param {number} sent
 * @param {number} answered
 */
function reportClock(headers, sent, answered) {
  const date = Date.parse(headers.get('Date') ?? '');
  if (!Number.isNaN(date) && !headers.has('Age'))
    listeners.clock({ offset: (date + 500 - (sent + answered) / 2) / 1000,
      error: (500 + (answered - sent) / 2) / 1000 });
}

/** @param {Response} response */
const isPage = (response) => /^text\/html/i.test(response.headers.get('Content-Type') ?? ''); // the API has none

/**
 * An answer that did not come from the server: a proxy may refuse, fail, or ask for a sign-in of
 * its own.
 * @param {Response} response
 */
function fromElsewhere(response) {
  const what =
    response.type === 'opaqueredirect'
      ? 'a redirect to somewhere else'
      : response.ok
        ? 'something that is not JSON'
        : `status ${response.status}, and not in the server’s form`;
  return new APIError(
    response.status,
    `Something else answered in place of the server, perhaps a proxy: ${what}.`,
    'ELSEWHERE',
  );
}

/**
 * @param {Response} response
 * @param {string} used
 */
async function refusal(response, used) {
  let answer;
  try {
    if (!response.ok && !isPage(response)) answer = read(failure, await response.text(), 'answer');
  } catch { /* not from the service itself */ }
  const { status } = response;
  const seconds = Number(response.headers.get('Retry-After') ?? NaN);
  const retryAt = seconds > 0 ? Date.now() + seconds * 1000 : 0;
  if (status === 401 && answer && used && !answer.code)
    return new APIError(401, used === PERSON ? 'Your session has ended.'
      : 'The server no longer accepts this key: it was deleted or revoked, or it has expired.');
  if (status === 429)
    return new APIError(429, 'Rate limit reached: the server has received too many requests.', answer?.code, retryAt);
  if (!answer) return fromElsewhere(response);
  const { error, code, line, column } = answer;
  return Object.assign(new APIError(status, error ?? `status ${status}`, code, retryAt), { line, column });
}

const brokenOff = () => new APIError(0, 'The response ended early.', 'AWAY');

/** @param {Response} response */
async function textOf(response) {
  let bytes;
  try {
    bytes = await response.arrayBuffer();
  } catch (err) {
    throw err.name === 'AbortError' ? err : brokenOff();
  }
  return text(new Uint8Array(bytes));
}

/**
 * The text of an answer, exactly as it came: what is signed in it can be checked.
 * @param {string} method
 * @param {string} path
 * @param {CallOptions} [options]
 */
export const callText = async (method, path, options) => textOf(await send(method, path, options));

/**
 * A call whose answer has a form of answers.js; it returns what the form makes of it. asked: what
 * the answer must name, as of mustName, or a function that throws where the answer is to another
 * question; a call cannot be made without it.
 * @template T
 * @param {Form<T>} form
 * @param {string} method
 * @param {string} path
 * @param {CallOptions & {asked: Asked<T>}} options
 * @returns {Promise<T>}
 */
export async function call(form, method, path, { asked, ...options }) {
  if (!asked) throw new TypeError(`it is not said what an answer of ${path} must name`);
  const response = await send(method, path, options);
  if (!/\bjson\b/i.test(response.headers.get('Content-Type') ?? '')) throw fromElsewhere(response);
  const answer = await textOf(response);
  let found;
  try {
    found = read(form, answer, 'answer');
  } catch (err) {
    throw new FormError(`The server’s answer is not what it must be: ${err.message}`);
  }
  if (typeof asked === 'function') asked(found);
  else mustName(asked, /** @type {object | undefined} */ (found));
  return found;
}

/**
 * The record that must have an index. The error names the index, so that a page can say where a
 * chain fails.
 * @param {number} index
 * @param {JSONNode} node
 * @param {string} source
 */
function recordAt(index, node, source) {
  try {
    const record = recordForm(node, source, 'it');
    if (record.index !== index) throw new FormError(`record ${record.index} is in its place`);
    return record;
  } catch (err) {
    throw Object.assign(new FormError(`Record ${index} is none: ${err.message}`), { index });
  }
}

/**
 * The records [from, from + limit) as far as they exist.
 * @param {number} from
 * @param {number} limit
 * @param {CallOptions} [options]
 */
export async function records(from, limit, options) {
  const found = await call(having({ records: list(json, limit) }), 'GET', `/v1/chain?from=${from}&limit=${limit}`, {
    ...options,
    asked: NOTHING,
  }); // each record is compared below
  return found.records.map(({ node, source }, i) => recordAt(from + i, node, source));
}

/**
 * The lines of an answer that is streamed; memory stays constant at any length.
 * @param {string} path
 * @param {string} accept
 * @param {CallOptions} [options]
 */
export async function* lines(path, accept, options) {
  const response = await send('GET', path, { accept, ...options });
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read().catch((err) => {
      throw err.name === 'AbortError' ? err : brokenOff();
    });
    rest += decoder.decode(value, { stream: !done });
    const whole = rest.split('\n');
    rest = /** @type {string} */ (whole.pop());
    yield* whole;
    if (done) break;
  }
  if (rest) yield rest;
}

/**
 * The JSON texts of an answer that has one a line.
 * @param {string} path
 * @param {CallOptions} [options]
 */
export async function* jsonLines(path, options) {
  for await (const line of lines(path, 'application/x-ndjson', options)) if (line) yield line;
}

/**
 * The texts of all records from an index on.
 * @param {number} from
 * @param {CallOptions} [options]
 */
export const recordLines = (from, options) => jsonLines(`/v1/chain?from=${from}`, options);

/**
 * The body of an answer as it streams in.
 * @param {string} path
 * @param {CallOptions} [options]
 */
export const callStream = async (path, options) =>
  (await send('GET', path, options)).body ?? new Blob([]).stream();

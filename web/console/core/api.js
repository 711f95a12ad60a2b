// The service's HTTP API. The credential lives in this module's memory, in a header, and never in a URL.
import { text } from '../lib/bytes.js';
import { FormError, having, json, list, read } from '../lib/form.js';
import { recordForm } from '../lib/record.js';
import { failure, inclusionProof } from './answers.js';

let credential = '';
export const setCredential = (key) => { credential = key; };
export const getCredential = () => credential;

/** What the service answered instead of success. status is 0 when there was no answer at all. */
export class APIError extends Error {
  constructor(status, message, code = '') {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export async function send(method, path, { body, headers = {}, signal, accept = 'application/json' } = {}) {
  const all = { Accept: accept, ...headers };
  if (credential) all.Authorization = `Bearer ${credential}`;
  if (body !== undefined) all['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(path, {
      method, signal, headers: all, body: body === undefined ? undefined : JSON.stringify(body),
      cache: 'no-store', credentials: 'omit', redirect: 'error', referrerPolicy: 'no-referrer',
    });
  } catch (err) {
    if (err.name === 'AbortError') throw err;
    throw new APIError(0, 'The server does not answer.');
  }
  if (response.ok) return response;
  throw await refusal(response);
}

async function refusal(response) {
  let answer = {};
  try {
    answer = read(failure, await response.text(), 'answer');
  } catch { /* not from the service itself: a proxy, perhaps */ }
  let message = answer.error ?? `status ${response.status}`;
  if (response.status === 401) message = 'The server does not accept this key any more. Sign in again.';
  const wait = response.headers.get('Retry-After');
  if (response.status === 429 && wait) message += `; try again in ${wait} s`;
  return new APIError(response.status, message, answer.code);
}

/** The text of an answer, exactly as it came: what is signed in it can be checked. */
export const callText = async (method, path, options) => text(new Uint8Array(await (await send(method, path, options)).arrayBuffer()));

/** A call whose answer has a form of answers.js; it returns what the form makes of it. */
export async function call(form, method, path, options) {
  const answer = await callText(method, path, options);
  try {
    return read(form, answer, 'answer');
  } catch (err) {
    throw new FormError(`The server’s answer is not what it must be: ${err.message}`);
  }
}

// The record that must have an index. The error names the index, so that a page can say where a chain fails.
function recordAt(index, node, source) {
  try {
    const record = recordForm(node, source, 'it');
    if (record.index !== index) throw new FormError(`record ${record.index} stands in its place`);
    return record;
  } catch (err) {
    throw Object.assign(new FormError(`Record ${index} is none: ${err.message}`), { index });
  }
}

/** The records [from, from + limit) as far as they exist. */
export async function records(from, limit, options) {
  const found = await call(having({ records: list(json, limit) }), 'GET', `/v1/chain?from=${from}&limit=${limit}`, options);
  return found.records.map(({ node, source }, i) => recordAt(from + i, node, source));
}

export async function proofOf(index, options) {
  const found = await call(inclusionProof, 'GET', `/v1/proof/${index}`, options);
  if (found.record.index !== index) throw new FormError(`The server proves record ${found.record.index} instead.`);
  return found;
}

/** The lines of an answer that is streamed; memory stays constant at any length. */
export async function* lines(path, accept, options) {
  const response = await send('GET', path, { accept, ...options });
  const reader = response.body.getReader();
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    rest += decoder.decode(value, { stream: !done });
    const whole = rest.split('\n');
    rest = whole.pop();
    yield* whole;
    if (done) break;
  }
  if (rest) yield rest;
}

const STRING = /"(?:[^"\\]|\\.)*"/g;

/** The JSON texts of an answer that has one after the other. Each takes one line, or more: a payload is kept with its line feeds. */
export async function* jsonTexts(path, options) {
  let text = '';
  let depth = 0;
  for await (const line of lines(path, 'application/x-ndjson', options)) {
    if (!line && !text) continue;
    text += text ? `\n${line}` : line;
    for (const c of line.replace(STRING, '')) depth += c === '{' || c === '[' ? 1 : c === '}' || c === ']' ? -1 : 0;
    if (depth > 0) continue;
    yield text;
    text = '';
    depth = 0;
  }
  if (text) yield text;
}

/** The texts of all records from an index on. */
export const recordLines = (from, options) => jsonTexts(`/v1/chain?from=${from}`, options);

/** The body of an answer as it streams in. */
export const callStream = async (path, options) => (await send('GET', path, options)).body;

// The service's HTTP API. The credential lives in this module's memory, in a header, and never in a URL.
import { text } from '../lib/bytes.js';
import { member, parse } from '../lib/json.js';
import { readRecord } from '../lib/record.js';

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

async function send(method, path, { body, headers = {}, signal, accept = 'application/json' } = {}) {
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
  throw await failure(response);
}

async function failure(response) {
  let answer = {};
  try {
    answer = await response.json();
  } catch { /* not from the service itself: a proxy, perhaps */ }
  let message = String(answer?.error ?? `status ${response.status}`);
  if (response.status === 401) message = 'The server does not accept this key any more. Sign in again.';
  const wait = response.headers.get('Retry-After');
  if (response.status === 429 && wait) message += `; try again in ${wait} s`;
  return new APIError(response.status, message, String(answer?.code ?? ''));
}

/** A call whose answer is ordinary JSON. */
export const call = async (method, path, options) => (await send(method, path, options)).json();

/** A call whose answer holds records: the node of json.js and its source. */
async function callExact(path, options) {
  const source = text(new Uint8Array(await (await send('GET', path, options)).arrayBuffer()));
  return { node: parse(source), source };
}

/** The records [from, from + limit) as far as they exist. */
export async function records(from, limit, options) {
  const { node, source } = await callExact(`/v1/chain?from=${from}&limit=${limit}`, options);
  return member(node, 'records').items.map((item) => readRecord(item, source));
}

export async function proofOf(index, options) {
  const { node, source } = await callExact(`/v1/proof/${index}`, options);
  return {
    record: readRecord(member(node, 'record'), source),
    proof: JSON.parse(source.slice(member(node, 'proof').start, member(node, 'proof').end)),
    root: member(node, 'root').value,
  };
}

/** The texts of all records from an index on, streamed; memory stays constant at any length. */
export async function* recordLines(from, options) {
  const response = await send('GET', `/v1/chain?from=${from}`, { accept: 'application/x-ndjson', ...options });
  const reader = response.body.getReader();
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    rest += decoder.decode(value, { stream: !done });
    const lines = rest.split('\n');
    rest = lines.pop();
    for (const line of lines) if (line) yield line;
    if (done) break;
  }
  if (rest) yield rest;
}

/**
 * How many records the chain has. The API has no count, so this asks for single records: doubling from what is
 * known, then halving; one request when nothing has changed since.
 */
export async function chainLength(known = 0, options) {
  const exists = async (index) => (await records(index, 1, options)).length > 0;
  let low = known;
  let step = 1;
  while (await exists(low + step - 1)) {
    low += step;
    step *= 2;
  }
  let high = low + step - 1; // record high does not exist, record low - 1 does
  while (low < high) {
    const middle = low + Math.floor((high - low) / 2);
    if (await exists(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

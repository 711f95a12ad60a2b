// @ts-check
// Requests of a person's own making, from the reference: whatever comes back is text to be read,
// not data to work with.
import { PERSON, getCredential } from './api.js';

const MOST = 256 * 1024; // bytes of an answer that are read

/** @param {Bytes[]} chunks */
const joined = async (chunks) => new Uint8Array(await new Blob(chunks).arrayBuffer());

/**
 * The beginning of a body, at most so many bytes; the rest is not waited for.
 * @param {Response} response
 * @param {AbortController} abort
 */
async function beginning(response, abort) {
  const chunks = [];
  let size = 0;
  const reader = response.body?.getReader();
  while (reader && size < MOST) {
    const { done, value } = await reader.read();
    if (done) return { bytes: await joined(chunks), cut: false };
    chunks.push(value.subarray(0, MOST - size));
    size += value.length;
  }
  abort.abort();
  return { bytes: await joined(chunks), cut: Boolean(reader) };
}

/** @param {string} type */
const isText = (type) => /^(text\/|application\/(json|x-ndjson|problem\+json))/.test(type) || type === '';

/** @param {Bytes} bytes */
const dump = (bytes) =>
  Array.from(bytes.subarray(0, 512), (b, i) => b.toString(16).padStart(2, '0') + ((i + 1) % 16 ? ' ' : '\n'))
    .join('')
    .trim();

/**
 * Sends {method, url, headers, body, credential} to this server and returns {status, type, headers,
 * text, size, cut, ms}. The credential of the session goes with it only where the operation needs
 * one, and only in a header. Ends early with abort, an AbortController.
 * @param {{method: string, url: string, headers: [string, string][], body?: BodyInit,
 *   credential?: boolean}} request
 * @param {AbortController} abort
 */
export async function sendRequest({ method, url, headers, body, credential }, abort) {
  if (new URL(url).origin !== location.origin) throw new Error('Requests go to this server alone.');
  const all = new Headers(headers);
  const person = credential && getCredential() === PERSON;
  if (person) all.set('X-Attestd-Console', '1');
  else if (credential && getCredential()) all.set('Authorization', `Bearer ${getCredential()}`);
  const began = performance.now();
  let response;
  try {
    response = await fetch(url, {
      method,
      body,
      headers: all,
      signal: abort.signal,
      cache: 'no-store',
      credentials: person ? 'same-origin' : 'omit',
      redirect: 'error',
      referrerPolicy: 'no-referrer',
    });
  } catch (err) {
    throw err.name === 'AbortError' ? err : new Error('The server does not answer.');
  }
  const type = (response.headers.get('Content-Type') ?? '').split(';')[0];
  const { bytes, cut } = await beginning(response, abort);
  return {
    status: response.status,
    type,
    headers: [...response.headers],
    size: bytes.length,
    cut,
    ms: Math.round(performance.now() - began),
    text: isText(type) ? new TextDecoder().decode(bytes) : dump(bytes),
  };
}

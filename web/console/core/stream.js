// @ts-check
// The connection on which the server sends records as they are written: opened, and opened again
// whenever it is lost.
import { company } from './answers.js';
import { PERSON, call, getCredential } from './api.js';
import { NOTHING } from './asked.js';

const REFUSED = 1008; // the code with which the server ends a stream whose credential is gone
const FIRST = 400; // ms until the first attempt after a loss; each further one takes twice as long, up to LONGEST
const LONGEST = 15000;

/** @type {WebSocket | null} */
let socket = null;
let attempts = 0;
let timer = 0;

/**
 * Connects, and again whenever the connection is lost, until closeStream. on: {connecting(),
 * opened(), message(data), lost(refused)}; refused is whether the server ended or never opened it,
 * and not the network.
 * @param {StreamListener} on
 */
export function openStream(on) {
  clearTimeout(timer);
  if (!getCredential()) return; // signed out before this came to run
  on.connecting();
  // A WebSocket cannot carry an Authorization header; the key travels as a subprotocol, never in
  // the URL. A person's cookie comes by itself.
  const ws = new WebSocket(`${location.origin.replace(/^http/, 'ws')}/v1/ws`,
    getCredential() === PERSON ? [] : ['attestd.bearer', getCredential()]);
  socket = ws;
  let opened = false;
  ws.onopen = () => {
    if (socket !== ws) return;
    attempts = 0;
    opened = true;
    on.opened();
  };
  ws.onmessage = ({ data }) => socket === ws && on.message(data);
  ws.onclose = ({ code }) => {
    if (socket !== ws) return;
    on.lost(!opened || code === REFUSED);
    timer = setTimeout(openStream, Math.min(LONGEST, FIRST * 2 ** attempts++) * (0.75 + Math.random() / 2), on);
  };
}

export function closeStream() {
  clearTimeout(timer);
  const old = socket;
  socket = null;
  attempts = 0;
  old?.close();
}

/** Whether an attempt is under way: another one would not come sooner. */
export const isConnecting = () => socket?.readyState === WebSocket.CONNECTING;

/**
 * Why a stream was refused, which a browser does not say. A plain request is answered; where it is
 * that the credential is gone, that ends the session. Like a stream, and unlike a GET, a POST names
 * the address of the page: there is none on this path, so it changes nothing.
 */
export async function whyRefused() {
  try {
    await call(company, 'GET', '/v1/company', { asked: NOTHING });
    await call(company, 'POST', '/v1/ws', { asked: NOTHING }).catch((err) => { if (err.status === 403) throw err; });
    return 'The server answers, but the stream is refused, by the server or by a proxy.';
  } catch (err) {
    return err.message;
  }
}

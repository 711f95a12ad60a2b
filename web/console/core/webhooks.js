// @ts-check
// Webhooks: where the service sends the company's records, how far each has come, and how to change
// one.
import { boolean, having, integer, list, string, timestamp } from '../lib/form.js';
import { sha256hex } from '../lib/sha256.js';
import { call } from './api.js';
import { NOTHING } from './asked.js';

const required = {
  webhookId: string,
  url: string,
  createdAt: timestamp,
  publicKey: string,
  fingerprint: string,
  nextIndex: integer,
  failedAttempts: integer,
};
const optional = {
  agents: list(string),
  actions: list(string),
  description: string,
  nextAttemptAt: timestamp,
  disabledAt: timestamp,
  disabledReason: string,
};
/** @type {Form<Webhook>} */
const webhook = having(required, optional);
const withSecret = having({ ...required, secret: string }, optional);
const tested = having({ delivered: boolean, messageId: string }, { status: integer, failure: string });

/** @param {string} id */
const at = (id) => `/v1/webhooks/${encodeURIComponent(id)}`;

export const readWebhooks = async () =>
  (await call(having({ webhooks: list(webhook) }), 'GET', '/v1/webhooks', { asked: NOTHING })).webhooks;

/**
 * It as the control log, which has the hash of its URL, is held against it.
 * @param {Webhook} webhook
 * @returns {Promise<ListedItem>}
 */
export async function listedWebhook({ agents, actions, disabledAt, disabledReason, ...lists }) {
  const url = await sha256hex(lists.url);
  return {
    subject: `webhook:${lists.webhookId}`,
    lists: { ...lists, url, agents, actions, disabledAt, disabledReason },
  };
}

/** @param {{url: string, agents?: string[], actions?: string[], description?: string}} body */
export const createWebhook = (body) =>
  call(withSecret, 'POST', '/v1/webhooks', { asked: { url: body.url }, body });

/** @param {string} id */
export const deleteWebhook = (id) => call(having({ deleted: boolean }), 'DELETE', at(id), { asked: NOTHING });

/**
 * @param {string} id
 * @param {'enable' | 'disable'} action
 */
export const switchWebhook = (id, action) =>
  call(webhook, 'POST', `${at(id)}/${action}`, { asked: { webhookId: id } });

/** @param {string} id */
export const rotateSecret = (id) =>
  call(withSecret, 'POST', `${at(id)}/rotate-secret`, { asked: { webhookId: id } });

/** @param {string} id */
export const testWebhook = (id) => call(tested, 'POST', `${at(id)}/test`, { asked: NOTHING });

/**
 * The names in a text of one name a line, or separated by commas.
 * @param {string} text
 */
export const names = (text) => text.split(/[\n,]/).map((name) => name.trim()).filter(Boolean);

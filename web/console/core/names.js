// @ts-check
// The labels that people gave to API keys and OAuth clients, by fingerprint: a person knows
// "ci-deploy", and not eb2f1c. They are those of the control log, whose records are checked; a
// fingerprint without a label in it stays one.
import { having, nullable, string } from '../lib/form.js';
import { session } from './session.js';
import { store } from './store.js';

/** @type {Store<{of: string, names: Map<string, string>}>} */
export const names = store({ of: '', names: new Map() });

const made = having({ fingerprint: string }, { label: nullable(string), clientId: string });

/** Reads the labels of the company that is signed in; once, as labels do not change. */
export async function readNames() {
  const { company } = session.get();
  if (!company || names.get().of === company.companyId) return;
  names.set({ of: company.companyId, names: new Map() });
  const { allChanges } = await import('./control_log.js'); // no part of the first visit
  const changes = await Promise.all(
    ['api-key.created', 'oauth-client.created'].map((action) => allChanges({ action })));
  const found = new Map(changes.flat().map(({ record: { inner, source } }) => {
    const { fingerprint, label, clientId } = made(inner, source, 'it');
    return [fingerprint, label || clientId || ''];
  }));
  if (session.get().company?.companyId === company.companyId) names.set({ of: company.companyId, names: found });
}

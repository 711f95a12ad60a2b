// @ts-check
// The labels that people gave to API keys and OAuth clients, by fingerprint: a person knows
// "ci-deploy", and not eb2f1c. They are those of the control log, whose records are checked; a
// fingerprint without a label among the newest ones stays one.
import { having, nullable, string } from '../lib/form.js';
import { newestOf } from './control_log.js';
import { session } from './session.js';
import { store } from './store.js';

/** @type {Store<{of: string, names: Map<string, string>}>} */
export const names = store({ of: '', names: new Map() });

const MOST = 1000; // keys, and clients, that are read

const made = having({ fingerprint: string }, { label: nullable(string), clientId: string });

/** Reads the labels of the company that is signed in; once, for labels do not change. */
export async function readNames() {
  const { company } = session.get();
  if (!company || names.get().of === company.companyId) return;
  names.set({ of: company.companyId, names: new Map() });
  try {
    const changes = await Promise.all(
      ['api-key.created', 'oauth-client.created'].map((action) => newestOf(action, '', MOST)));
    keep(company.companyId, changes.flat());
  } catch (err) {
    names.set({ of: '', names: new Map() }); // it is tried again with the next name that is shown
    throw err;
  }
}

/**
 * @param {string} companyId
 * @param {ControlChange[]} changes
 */
function keep(companyId, changes) {
  const found = new Map(changes.map(({ record: { inner, source } }) => {
    const { fingerprint, label, clientId } = made(inner, source, 'it');
    return [fingerprint, label || clientId || ''];
  }));
  if (session.get().company?.companyId === companyId) names.set({ of: companyId, names: found });
}

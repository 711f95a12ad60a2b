// @ts-check
// A page that checks evidence files from disk, with no server: what the person trusts, the file,
// and the verdict.
import { html, render, useState } from '../console/vendor/preact-htm.js';
import { giveUpOnFailure } from '../console/core/broken.js';
import { Field, Notice, useResult } from '../console/parts/basic.js';
import { Drop } from '../console/parts/drop.js';
import { Text } from '../console/parts/text.js';
import { hex } from '../console/lib/bytes.js';
import { sha256 } from '../console/lib/sha256.js';
import { checkFile } from '../console/lib/evidence/session.js';
import { readPolicy } from '../console/lib/policy.js';
import { isThumbprint } from '../console/lib/statement.js';
import { Result } from './result.js';

const LARGEST = 64 << 20;

/**
 * What was entered as {fingerprint} or {policy}, with {agentKey} and {approvers}, or {error}.
 * @param {string} typed
 * @param {string} policyText
 * @param {string} pin
 * @param {string} approvers
 * @returns {Promise<Trust>}
 */
async function trustOf(typed, policyText, pin, approvers) {
  const trust = await companyTrustOf(typed, policyText);
  const keys = approvers.split(/\s+/).filter(Boolean).map(bare);
  if (keys.length && !trust.error) {
    if (!keys.every(isBare)) return { error: NO_FINGERPRINT };
    trust.approvers = keys.map((key) => `SHA256:${key}`);
  }
  if (trust.error || !pin.trim()) return trust;
  return isThumbprint(pin.trim()) ? { ...trust, agentKey: pin.trim() }
    : { error: 'The thumbprint of an agent’s key is 43 letters, digits, - and _.' };
}

const NO_FINGERPRINT = 'A fingerprint is SHA256: and 43 letters, digits, - and _.';

/**
 * A fingerprint without its prefix.
 * @param {string} typed
 */
const bare = (typed) => typed.trim().replace(/^SHA256:/, '').replace(/=+$/, '');

/** @param {string} fingerprint */
const isBare = (fingerprint) => /^[A-Za-z0-9_-]{43}$/.test(fingerprint);

/**
 * A fingerprint may lack its prefix.
 * @param {string} typed
 * @param {string} policyText
 * @returns {Promise<Trust>}
 */
async function companyTrustOf(typed, policyText) {
  const fingerprint = bare(typed);
  if (fingerprint && policyText.trim()) return { error: 'Enter a fingerprint or a policy, not both.' };
  if (fingerprint) return isBare(fingerprint) ? { fingerprint: `SHA256:${fingerprint}` } : { error: NO_FINGERPRINT };
  if (!policyText.trim()) return {};
  try {
    return { policy: await readPolicy(policyText.endsWith('\n') ? policyText : `${policyText}\n`) };
  } catch (err) {
    return { error: err.message };
  }
}

/**
 * @param {{bytes: Bytes} | null} file
 * @param {string} typed
 * @param {string} policyText
 * @param {string} pin
 * @param {string} approvers
 */
async function verify(file, typed, policyText, pin, approvers) {
  const trust = await trustOf(typed, policyText, pin, approvers);
  if (!file || trust.error) return { trust, found: null };
  const company = trust.fingerprint ?? (trust.policy ? policyText.trim() : '');
  const trusted = [
    company, trust.agentKey ? `agent’s key ${trust.agentKey}` : '',
    ...(trust.approvers ?? []).map((key) => `approver’s passkey ${key}`),
  ].filter(Boolean).join('\n');
  return { trust, trusted, digest: hex(await sha256(file.bytes)), found: await checkFile(file.bytes, trust) };
}

function Page() {
  const [file, setFile] = useState(/** @type {{bytes: Bytes, name: string} | null} */ (null));
  /**
   * @param {Bytes} bytes
   * @param {string} name
   */
  const onBytes = (bytes, name) => setFile({ bytes, name });
  const [fingerprint, setFingerprint] = useState('');
  const [policy, setPolicy] = useState('');
  const [pin, setPin] = useState('');
  const [approvers, setApprovers] = useState('');
  const entered = [file, fingerprint, policy, pin, approvers];
  const result = useResult(() => verify(file, fingerprint, policy, pin, approvers), entered);
  return html`
    <main class="verifier">
      <div class="page-head">
        <h1>Check evidence</h1>
        <p class="lead">Drop an evidence file from attestd, or the file of a session. This page checks it and sends
          nothing anywhere. Save the page to use it offline.</p>
      </div>
      <div class="columns ask">
        <${Drop} what="an evidence file" reads=${['evidence', 'session']} largest=${LARGEST} onBytes=${onBytes}
          onOther=${() => setFile(null)}>
          <h2>The file</h2>
          <p class="muted"><${Text} of=${file ? file.name : 'Drop it here, or choose it.'} /></p>
        <//>
        <section class="card">
          <h2>What you trust</h2>
          <p class="muted small">Get it from another source than the file: a contract, the company’s website, a policy
            of your own. Without it, the file can only be checked against itself.</p>
          <${Field} label="Fingerprint of a key of the company">
            ${(p) => html`<input ...${p} class="input" name="fingerprint" autocomplete="off" spellcheck="false"
              placeholder="SHA256:…" value=${fingerprint} onInput=${(e) => setFingerprint(e.target.value)} />`}<//>
          <${Field} label="or a policy" hint="Lines of c2sp.org/tlog-policy: log, witness, group, quorum.">
            ${(p) => html`<textarea ...${p} class="input" name="policy" spellcheck="false" value=${policy}
              onInput=${(e) => setPolicy(e.target.value)}></textarea>`}<//>
          <${Field} label="Thumbprint of the agent’s key"
            hint="Optional. Get it from the agent: the company can enrol a key for any agent.">
            ${(p) => html`<input ...${p} class="input" name="agentKey" autocomplete="off" spellcheck="false"
              value=${pin} onInput=${(e) => setPin(e.target.value)} />`}<//>
          <${Field} label="Fingerprints of the passkeys of approvers"
            hint="Optional, one a line. Get them from the people: the company can enrol a passkey for anybody.">
            ${(p) => html`<textarea ...${p} class="input" name="approvers" spellcheck="false" value=${approvers}
              onInput=${(e) => setApprovers(e.target.value)}></textarea>`}<//>
          ${result?.trust.error && html`<div data-invalid><${Notice} kind="bad">${result.trust.error}<//></div>`}
        </section>
      </div>
      ${file && !result && html`<p class="muted" role="status">Checking …</p>`}
      ${result?.found && html`<${Result} ...${{ file, ...result }} />`}
    </main>`;
}

giveUpOnFailure();
render(html`<${Page} />`, document.getElementById('app'));

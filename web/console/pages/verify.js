// Verify: the whole chain, recomputed in a worker of this browser and compared with what the server says.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { chainLength, getCredential } from '../core/api.js';
import { count, plural } from '../core/format.js';
import { live } from '../core/live.js';
import { href } from '../core/router.js';
import { refreshKey, session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { toneOf } from '../core/trust.js';
import { startWorker } from '../core/worker.js';
import { Badge, Notice, Page } from '../parts/basic.js';
import { KeyBadge, KeyHint, useStanding } from '../parts/key_trust.js';

// Both verdicts in words: ours, the server's, and whether they are one.
function compare({ failures, root, server }) {
  const ours = failures.first;
  if (!ours && server.valid) {
    return server.merkleRoot === root
      ? { ok: true, text: 'Your browser and the server agree: every record verifies, and the roots are equal.' }
      : { ok: false, text: 'Every record verifies, but the server names another root.' };
  }
  if (ours && !server.valid && ours.index === server.failedAtIndex) return { ok: false, text: `Your browser and the server agree: the chain fails at record ${ours.index}.` };
  if (!ours) return { ok: false, text: `Every record that the server sent verifies, but the server says that the chain fails at ${server.failedAtIndex}: ${server.error}` };
  return { ok: false, text: `Your browser finds that the chain fails at record ${ours.index}; the server ${server.valid ? 'says that it is valid' : `says that it fails at ${server.failedAtIndex}`}.` };
}

function Outcome({ result, companyKey }) {
  const verdict = compare(result);
  const tone = toneOf(verdict.ok, useStanding(companyKey));
  const failedAt = result.failures.first?.index ?? result.server.failedAtIndex;
  return html`
    <section class="card" data-verdict=${verdict.ok ? 'valid' : 'failed'} data-tone=${tone} data-failed-at=${failedAt}>
      <h2 class="verdict-word ${tone}">${!verdict.ok ? `fails at ${failedAt ?? 'the root'}` : tone === 'bad' ? 'signed by another key' : 'valid'}</h2>
      <${Notice} kind=${tone}>${verdict.text}<//>
      <${KeyHint} keyOf=${companyKey} />
      <dl class="facts">
        <dt>checked here</dt><dd>${plural(result.count, 'record')} in ${result.seconds.toFixed(1)} s, with ${result.engine}</dd>
        <dt>root here</dt><dd><code>${result.root}</code></dd>
        <dt>server</dt><dd><${Badge} tone=${result.server.valid ? '' : 'bad'}>${result.server.valid ? 'says valid' : `says it fails at ${result.server.failedAtIndex}`}<//></dd>
        ${result.server.merkleRoot && html`<dt>server’s root</dt><dd><code>${result.server.merkleRoot}</code></dd>`}
      </dl>
      ${result.failures.count > 0 && html`
        <h3>${plural(result.failures.count, 'failure')}</h3>
        <ul class="stack tight small">${result.failures.list.map((f) => html`<li><a href=${href('chain', f.index)}>Record ${f.index}</a>: ${f.reason}</li>`)}</ul>`}
    </section>`;
}

export function Verify() {
  const { key } = useStore(session);
  const [state, setState] = useState({ phase: 'ready' });
  const worker = useRef(null);
  useEffect(() => () => worker.current?.terminate(), []);

  const stop = () => {
    worker.current?.terminate();
    worker.current = null;
  };
  const start = async () => {
    stop();
    setState({ phase: 'running', done: 0, total: 0, failures: 0 });
    const mine = startWorker();
    worker.current = mine;
    const patch = (more) => worker.current === mine && setState((s) => ({ ...s, ...more }));
    mine.onmessage = ({ data }) => {
      if (data.type === 'progress') patch({ done: data.done, failures: data.failures, first: data.first });
      else if (data.type === 'done') patch({ phase: 'done', result: data, done: data.count });
      else patch({ phase: 'error', message: data.message });
    };
    mine.onerror = () => patch({ phase: 'error', message: 'The verification worker did not start.' });
    const { companyId, raw, ring = [{ raw, fromIndex: 0 }] } = await refreshKey(key.companyId);
    mine.postMessage({ credential: getCredential(), keys: ring.map((one) => ({ raw: one.raw, fromIndex: one.fromIndex })), companyId });
    // Only for the bar: without it the count goes up just the same.
    chainLength(live.get().length).then((total) => patch({ total }), () => {});
  };
  const { phase, done = 0, total = 0 } = state;
  const share = phase === 'done' ? 1 : total ? Math.min(1, done / total) : 0;
  return html`
    <${Page} title="Verify" lead="Streams the whole chain into this browser and recomputes all of it: every hash, every signature, the tree and its root. Then asks the server for its verdict, and compares.">
      <section class="card">
        <div class="buttons">
          ${phase === 'running'
            ? html`<button type="button" class="button" onClick=${() => { stop(); setState({ phase: 'ready' }); }}>Stop</button>`
            : html`<button type="button" class="button primary" onClick=${start}>${phase === 'ready' ? 'Verify the whole chain' : 'Verify again'}</button>`}
        </div>
        ${phase !== 'ready' && html`
          <div class="stack tight">
            <div class="progress ${state.failures ? 'bad' : ''}" role="progressbar" aria-label="Records checked" aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(share * 100)}>
              <div style=${{ width: `${share * 100}%` }}></div></div>
            <p class="small muted">${count(done)}${total ? ` of ${count(Math.max(total, done))}` : ''} checked${state.failures ? `, ${plural(state.failures, 'failure')}, the first at ${state.first?.index ?? state.result?.failures.first.index}` : ''}</p>
          </div>`}
        <p class="small muted">Key: <code>${key.fingerprint}</code> <${KeyBadge} keyOf=${key} /></p>
      </section>
      ${phase === 'error' && html`<${Notice} kind="bad">${state.message}<//>`}
      ${phase === 'done' && html`<${Outcome} result=${state.result} companyKey=${key} />`}
    <//>`;
}

// @ts-check
// What attestd is, in a picture, and the shortest ways to see it at work: before signing in.
import { html, useState } from '../vendor/preact-htm.js';
import { CopyButton, Failure, useTask } from './basic.js';
import { Text } from './text.js';

const STEPS = [
  { title: 'Your agent', line: 'acts, and signs what it did' },
  { title: 'attestd', line: 'signs a record and appends it to a log' },
  { title: 'Anyone', line: 'checks the log, without trusting the server' },
];

const Picture = () => html`
  <ol class="welcome-picture">${STEPS.map(({ title, line }) => html`
    <li><strong>${title}</strong><span>${line}</span></li>`)}</ol>`;

/** @param {{onKey: (key: string) => void}} props */
function Demo({ onKey }) {
  const [step, setStep] = useState('');
  const [run, busy, error] = useTask();
  const play = () => run(async () => onKey(await (await import('../core/demo.js')).playDemo(setStep)));
  return html`
    <section class="card no-print" aria-label="Demo">
      <h2>Just look around</h2>
      <p class="muted">Registers the company <code>demo</code> with a week of five agents: a ticket, a fix that is
        signed step by step, a release, and an incident in which a refused call ran all the same. Records are never
        deleted.</p>
      <${Failure} error=${error} />
      <p role="status" class="small muted">${busy && step && html`The demo <${Text} of=${step} /> …`}</p>
      <div><button type="button" class="button" disabled=${busy} onClick=${play}>Fill a demo company</button></div>
    </section>`;
}

function Watch() {
  const line = `attestd init claude-code --write --url ${location.origin}`;
  return html`
    <section class="card" aria-label="Watch Claude Code">
      <div class="card-head"><h2>Watch Claude Code</h2><${CopyButton} text=${line} what="the command" /></div>
      <p class="muted">Run this in a folder in which you use Claude Code, on a machine where <code>attestd</code> is
        installed. It registers a company, or uses yours if <code>ATTESTD_KEY</code> holds its key. From then on every
        tool call is on record, signed by the agent. Then sign in here with the admin key that it prints.</p>
      <pre class="code" tabindex="0" aria-label="Command that puts Claude Code on record">${line}</pre>
    </section>`;
}

/** @param {{onKey: (key: string) => void}} props */
export const Welcome = ({ onKey }) => html`
  <${Picture} />
  <div class="columns uneven"><${Watch} /><${Demo} onKey=${onKey} /></div>`;

// @ts-check
// What attestd is, in a picture, and the shortest way to see it at work: before signing in.
import { html } from '../vendor/preact-htm.js';
import { CopyButton } from './basic.js';

const STEPS = [
  { x: 8, title: 'Your agent', line: 'acts, and signs' },
  { x: 208, title: 'attestd', line: 'signs and appends' },
  { x: 408, title: 'Anyone', line: 'checks it, without us' },
];

const Picture = () => html`
  <svg class="welcome-picture" viewBox="0 0 592 84" role="img"
    aria-label="Your agent acts and signs; attestd signs a record and appends it; anyone checks it, without us.">
    ${STEPS.map(({ x, title, line }, i) => html`
      <g>
        <rect x=${x} y="6" width="176" height="72" rx="10" />
        <text x=${x + 88} y="36" class="name">${title}</text><text x=${x + 88} y="58">${line}</text>
        ${i > 0 && html`<path d=${`M${x - 22} 42h16m-6-5l6 5-6 5`} />`}
      </g>`)}
  </svg>`;

export function Welcome() {
  const line = `attestd init claude-code --write --url ${location.origin}`;
  return html`
    <${Picture} />
    <section class="card" aria-label="Watch Claude Code">
      <div class="card-head"><h2>Watch Claude Code</h2><${CopyButton} text=${line} what="the command" /></div>
      <p class="muted">In a folder where you work with it, on the machine where <code>attestd</code> is installed. It
        registers a company, or takes yours by <code>ATTESTD_KEY</code>. Every tool call is then on record, signed by
        the agent. Sign in with the admin key that it prints.</p>
      <pre class="code" tabindex="0" aria-label="Command that puts Claude Code on record">${line}</pre>
    </section>`;
}

// @ts-check
// Walks the path of a proof step by step, and shows what one flipped bit does to everything above
// it.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { climb } from '../lib/merkle.js';
import { hex, unhex } from '../lib/bytes.js';
import { Badge, Field } from '../parts/basic.js';
import { ProofPath } from './proof_path.js';

const PACE = 420; // ms a step

const still = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

/** @param {string} hash */
function flipped(hash) {
  const bytes = unhex(hash);
  bytes[0] ^= 1;
  return hex(bytes);
}

/**
 * The path as given, and as it is with the flipped bit.
 * @param {string} truth
 * @param {ProofStep[]} proof
 * @param {Flip} flip
 */
function usePaths(truth, proof, flip) {
  const [paths, setPaths] = useState(/** @type {WalkedPaths | null} */ (null));
  useEffect(() => {
    let current = true;
    const leaf = flip === 'leaf' ? flipped(truth) : truth;
    const changed = proof.map((node, i) => (i === flip ? { ...node, sibling: flipped(node.sibling) } : node));
    Promise.all([climb(truth, proof), climb(leaf, changed)]).then(([given, now]) => {
      if (current)
        setPaths({ leaf, steps: now.steps, root: now.root, truth: { leaf: truth, steps: given.steps }, proof });
    });
    return () => { current = false; };
  }, [truth, proof, flip]);
  return paths?.proof === proof ? paths : null; // never the path of another record
}

/** @param {{paths: WalkedPaths, lit: number}} props */
function StepText({ paths, lit }) {
  if (lit === 0 || !paths.steps.length) return html`<p class="muted">The path starts at the record’s hash.</p>`;
  const { left, right, position, parent } = paths.steps[lit - 1];
  return html`
    <dl class="facts">
      <dt>left</dt><dd><code>${left}</code>${position === 'left' && html` <span class="muted">sibling</span>`}</dd>
      <dt>right</dt><dd><code>${right}</code>${position === 'right' && html` <span class="muted">sibling</span>`}</dd>
      <dt>SHA-256(left right)</dt><dd><code>${parent}</code></dd>
    </dl>`;
}

/**
 * leaf is the record’s hash as it was computed here. tone is how much what holds is worth: ok, warn
 * or bad.
 * @param {{subject: {proof: ProofStep[], root: string}, leaf: string, tone: Tone}} props
 */
export function ProofWalk({ subject, leaf, tone }) {
  const levels = subject.proof.length;
  const [flip, setFlip] = useState(/** @type {Flip} */ (null));
  const [place, setPlace] = useState(/** @type {'leaf' | number} */ ('leaf'));
  const [lit, setLit] = useState(0);
  const [playing, setPlaying] = useState(true);
  const paths = usePaths(leaf, subject.proof, flip);

  useEffect(() => {
    setFlip(null);
    setPlace('leaf');
    setLit(still() ? levels : 0);
    setPlaying(true);
  }, [subject]);
  useEffect(() => {
    if (!playing) return;
    if (lit >= levels) return setPlaying(false);
    const timer = setTimeout(() => setLit(lit + 1), PACE);
    return () => clearTimeout(timer);
  }, [playing, lit, levels]);

  if (!paths) return null;
  /** @param {'leaf' | number} at */
  const toggle = (at) => {
    setFlip(flip === at ? null : at);
    setPlace(at);
    setLit(levels);
    setPlaying(false);
  };
  const done = lit >= levels;
  const holds = paths.root === subject.root;
  return html`
    <section class="card walk aside" aria-label="Path to the chain root"
      data-walk=${done ? (holds ? tone : 'bad') : 'walking'}>
      <div class="walk-picture ${tone}">
        <${ProofPath} ...${paths} lit=${lit} root=${subject.root} picked=${flip} onPick=${toggle} />
      </div>
      <div class="stack walk-side">
        <div class="buttons">
          <button type="button" class="button" onClick=${() => {
            setLit(0);
            setPlaying(true);
          }}>Replay</button>
          <button type="button" class="button" onClick=${() => {
            setPlaying(false);
            setLit(done ? 0 : lit + 1);
          }}>Next step</button>
        </div>
        <p role="status">${
          done
            ? html`<${Badge} tone=${!holds ? 'bad' : tone === 'bad' ? '' : tone}>
            ${holds ? 'leads to the chain root' : 'does not lead to the chain root'}<//>`
            : html`<span class="muted">Step ${lit} of ${levels}</span>`
        }</p>
        <${StepText} paths=${paths} lit=${lit} />
        <hr />
        <${Field} label="Flip one bit of" hint="Or click a box in the picture, or press Enter on it.">
          ${(p) => html`<select ...${p} class="input" value=${String(place)} onChange=${(e) => {
            setPlace(e.target.value === 'leaf' ? 'leaf' : Number(e.target.value));
            setFlip(null);
          }}>
            <option value="leaf">the record’s hash</option>
            ${subject.proof.map((_, i) => html`<option value=${String(i)}>sibling ${i + 1}</option>`)}
          </select>`}
        <//>
        <div><button type="button" class="button danger" aria-pressed=${flip === null ? 'false' : 'true'}
          onClick=${() => toggle(place)}>
          ${flip === null ? 'Flip one bit' : 'Flip it back'}</button></div>
        ${flip !== null && html`
          <p class="small muted">One bit of 256 is different, and so is every hash above it.</p>
          <dl class="facts"><dt>computed chain root</dt><dd><code class="bad-text">${paths.root}</code></dd>
            <dt>expected chain root</dt><dd><code>${subject.root}</code></dd></dl>`
        }
      </div>
    </section>`;
}

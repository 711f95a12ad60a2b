// @ts-check
// Small parts that every page uses.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { visible } from '../lib/visible.js';
import { Text, withText } from './text.js';
import { table } from '../lib/table.js';

/** @type {Record<string, string>} */
const ICONS = table({
  start: 'M4 11l8-7 8 7v9H4zM10 20v-6h4v6',
  live: 'M3 12h4l3-8 4 16 3-8h4',
  approvals: 'M4 12a8 8 0 1 0 16 0 8 8 0 0 0-16 0zM8.5 12l2.5 2.5 4.5-5',
  verify: 'M12 3l8 3v6c0 5-4 8-8 9-4-1-8-4-8-9V6zM8.5 12l2.5 2.5 4.5-5',
  agents: 'M5 9h14v10H5zM12 9V5M9 13h.01M15 13h.01M10 16.5h4M12 4h.01',
  keys: 'M8.5 19a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM11.4 12.2L20 4M15.5 8.2l3 3',
  ok: 'M5 12.5l4.5 4.5L19 7.5',
  warn: 'M12 4L2.5 20h19zM12 10v4M12 17h.01',
  bad: 'M6 6l12 12M18 6L6 18',
  info: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 11v5M12 8h.01',
  signed: 'M4 20l4-1L19 8l-3-3L5 16zM13 20h7',
  menu: 'M4 7h16M4 12h16M4 17h16',
  theme: 'M12 3a9 9 0 1 0 9 9 7 7 0 0 1-9-9z',
});

/** @param {{name: string}} props */
export const Icon = ({ name }) =>
  html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${ICONS[name]} /></svg>`;

/** @param {{title: string, lead?: Child, children?: Child}} props */
export function Page({ title, lead, children }) {
  return html`
    <div class="page-head">
      <h1 tabindex="-1">${withText(title)}</h1>
      ${lead && html`<p class="lead">${lead}</p>`}
    </div>
    ${children}`;
}

/**
 * kind: a tone as of Badge. What is bad is announced at once.
 * @param {{kind?: Tone, children?: Child, actions?: Child}} props
 */
export function Notice({ kind = '', children, actions }) {
  return html`
    <div class="notice ${kind}" role=${kind === 'bad' ? 'alert' : 'status'}>
      <${Icon} name=${kind || 'info'} />
      <div>${withText(children)}</div>
      ${actions}
    </div>`;
}

/**
 * tone: ok is for what was checked in this page with a key that the person confirmed, and for
 * nothing else; warn for what was checked with a key that is not confirmed; bad for what failed;
 * none for all that is only said.
 * @param {{tone?: Tone, children?: Child}} props
 */
export const Badge = ({ tone = '', children }) =>
  html`<span class="badge ${tone}">${tone && html`<${Icon} name=${tone} />`}${withText(children)}</span>`;

let fields = 0;
/**
 * A labelled input: children is a function that gets the id (and that of the hint) to use.
 * @param {{label: string, hint?: string, children: (props: FieldProps) => Child}} props
 */
export function Field({ label, hint, children }) {
  const [id] = useState(() => `f${++fields}`);
  const props = { id, 'aria-describedby': hint ? `${id}h` : undefined };
  return html`
    <div class="field">
      <label for=${id}>${label}</label>
      ${children(props)}
      ${hint && html`<span class="hint" id="${id}h">${hint}</span>`}
    </div>`;
}

/** @param {string} text */
async function toClipboard(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Outside a secure context there is only the old way, over a selection.
  const area = document.createElement('textarea');
  area.value = text;
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

/** @param {{text: string, what?: string, label?: string}} props */
export function CopyButton({ text, what = 'value', label = 'Copy' }) {
  const [said, say] = useState('');
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    try {
      await toClipboard(text);
      say('Copied');
    } catch {
      say('Copy failed');
    }
    clearTimeout(timer.current);
    timer.current = setTimeout(() => say(''), 1600);
  };
  return html`
    <button type="button" class="button quiet small" onClick=${copy} aria-label=${visible(`${label} ${what}`)}>
      ${said || label}</button>
    <span class="visually-hidden" role="status">${said && visible(`${said}: ${what}`)}</span>`;
}

/**
 * A long value in full, with a button that copies it.
 * @param {{value: string, what: string}} props
 */
export const Value = ({ value, what }) =>
  html`<div class="value"><code><${Text} of=${value} /></code>
  <span><${CopyButton} text=${value} what=${what} /></span></div>`;

/**
 * Runs async work for a button or form: [run, busy, error, retry]. A newer run makes the answer of
 * an older one void. retry does again what was run last, and is for work that only reads.
 * @returns {[<T>(work: () => T | Promise<T>) => Promise<T | undefined>, boolean,
 *   TaskError | null, () => void]}
 */
export function useTask() {
  const [state, set] = useState(/** @type {{busy: boolean, error: TaskError | null}} */ ({ busy: false, error: null }));
  const latest = useRef(0);
  const last = useRef(/** @type {(() => unknown) | null} */ (null));
  const held = useRef(null);
  useEffect(() => () => { latest.current = -1; }, []);
  // A button that is disabled while its work is done loses the focus.
  useEffect(() => {
    if (!state.busy && document.activeElement === document.body) held.current?.focus({ preventScroll: true });
  }, [state.busy]);
  /**
   * @template T
   * @param {() => T | Promise<T>} work
   */
  const run = async (work) => {
    held.current = document.activeElement;
    last.current = work;
    const mine = ++latest.current;
    set({ busy: true, error: null });
    try {
      const result = await work();
      if (latest.current === mine) set({ busy: false, error: null });
      return result;
    } catch (err) {
      if (latest.current === mine) set({ busy: false, error: err });
    }
  };
  return [run, state.busy, state.error, () => { if (last.current) run(last.current); }];
}

/**
 * What work() resolves to for these inputs, and null before that. Never what it gave for other
 * inputs, not for a moment: a verdict must not be shown with something that it is not about.
 * @template T
 * @param {() => Promise<T>} work
 * @param {unknown[]} inputs
 * @returns {T | null}
 */
export function useResult(work, inputs) {
  const [found, set] = useState(/** @type {{inputs: unknown[], value: T | null}} */ ({ inputs: [], value: null }));
  useEffect(() => {
    let current = true;
    work().then((value) => current && set({ inputs, value }));
    return () => { current = false; };
  }, inputs);
  return inputs.every((input, i) => i in found.inputs && found.inputs[i] === input) ? found.value : null;
}

/**
 * What went wrong, or that it needs a payload which was pruned. retry tries again what only reads;
 * where a server tells when that is of use, the time is counted down.
 * @param {{error: TaskError | null, retry?: () => unknown}} props
 */
export const Failure = ({ error, retry }) => error && html`
  <${Notice} kind=${error.pruned ? 'warn' : 'bad'} actions=${retry && !error.pruned
    && html`<button type="button" class="button small retry" onClick=${() => retry()}>Retry</button>`}>
    ${error.message}${(error.retryAt ?? 0) > 0
      && html` <${Countdown} until=${error.retryAt} over="Try again now." />`}<//>`;

/**
 * The seconds left until a time in milliseconds, and then what over says. It is not read out each
 * second.
 * @param {{until: number, over?: string}} props
 */
export function Countdown({ until, over = '' }) {
  const left = Math.ceil(until / 1000 - useNow());
  return html`<span aria-hidden=${left > 0 ? 'true' : undefined} data-left=${Math.max(0, left)}>
  ${left > 0 ? `${left} s` : over}</span>`;
}

/**
 * Moves the focus to the heading of a list that is shown again after one of its things, which the
 * URL names in argument.
 * @param {string} argument
 */
export function useReturn(argument) {
  const before = useRef('');
  useEffect(() => {
    if (before.current && !argument) /** @type {HTMLElement | null} */ (document.querySelector('main h1'))?.focus();
    before.current = argument;
  }, [argument]);
}

/** The second now, for clocks; only while the component is shown. */
export function useNow() {
  const [now, set] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => set(Date.now() / 1000), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/**
 * Whether the details element of an event is open.
 * @param {Event} event
 */
export const isOpen = ({ currentTarget }) => /** @type {HTMLDetailsElement} */ (currentTarget).open;

// @ts-check
// The way from a record to the root as a picture: the record at the foot, its sibling next to each
// node of the path, the root on top.
import { html } from '../vendor/preact-htm.js';
import { short } from '../core/format.js';
import { table } from '../lib/table.js';

const WIDTH = 360;
const ROW = 92;
const BOX = { width: 152, height: 46 };
const COLUMN = table({ left: 90, right: 270, middle: 180 });

/**
 * What a box that can be picked is to a keyboard and a screen reader: a button that stays pressed.
 * @param {() => void} onPick
 * @param {boolean} picked
 */
function asButton(onPick, picked) {
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    onPick();
  };
  return { role: 'button', tabindex: '0', 'aria-pressed': picked ? 'true' : 'false', onClick: onPick, onKeyDown };
}

/**
 * @param {{x: number, y: number, hash: string, label: string, kind: string, onPick?: () => void,
 *   picked: boolean}} props
 */
function Node({ x, y, hash, label, kind, onPick, picked }) {
  const button = onPick ? asButton(onPick, picked) : {};
  return html`
    <g class="node ${kind} ${onPick ? 'pickable' : ''} ${picked ? 'picked' : ''}"
      transform="translate(${x - BOX.width / 2} ${y})" ...${button}>
      <rect width=${BOX.width} height=${BOX.height} rx="9" />
      <text class="node-label" x=${BOX.width / 2} y="18">${label}</text>${' '}
      <text class="node-hash" x=${BOX.width / 2} y="35">${short(hash, 8, 4)}</text>
    </g>`;
}

/** @param {{from: Point, to: Point, kind: string}} props */
function Edge({ from, to, kind }) {
  const y = to.y + BOX.height;
  const middle = (from.y + y) / 2;
  return html`<path class="edge ${kind}"
    d="M${from.x} ${from.y} C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${y}" />`;
}

/**
 * steps as of climb(), computed over what may have been flipped; truth the same over what was
 * given. lit says how many steps are drawn as done; picked is the flipped place: 'leaf', the number
 * of a step for its sibling, or null.
 * @param {ProofPathProps} props
 */
export function ProofPath({ leaf, steps, truth, lit, root, picked, onPick }) {
  const levels = steps.length;
  const height = levels * ROW + BOX.height + 8;
  /** @param {number} level */
  const yOf = (level) => 4 + (levels - level) * ROW;
  /**
   * @param {number} level
   * @returns {keyof typeof COLUMN}
   */
  const side = (level) => (level === levels ? 'middle' : steps[level].position === 'right' ? 'left' : 'right');
  /** @param {number} level */
  const valueAt = (level) => (level === 0 ? leaf : steps[level - 1].parent);
  /** @param {number} level */
  const truthAt = (level) => (level === 0 ? truth.leaf : truth.steps[level - 1].parent);
  /** @param {number} level */
  const kindAt = (level) => {
    if (level > lit) return '';
    const right = level === levels ? valueAt(level) === root : valueAt(level) === truthAt(level);
    return right ? 'lit' : 'bad';
  };
  const picture = [];
  for (let level = 0; level < levels; level++) {
    const at = { x: COLUMN[side(level)], y: yOf(level) };
    const beside = { x: COLUMN[side(level) === 'left' ? 'right' : 'left'], y: yOf(level) };
    const above = { x: COLUMN[side(level + 1)], y: yOf(level + 1) };
    const sibling = steps[level].position === 'right' ? steps[level].right : steps[level].left;
    picture.push(
      html`<${Edge} from=${at} to=${above} kind=${level < lit ? kindAt(level + 1) : ''} />`,
      html`<${Edge} from=${beside} to=${above} kind=${level < lit ? kindAt(level + 1) : ''} />`,
      html`<${Node} ...${beside} hash=${sibling} label="sibling ${level + 1}"
        kind=${picked === level ? 'bad sibling' : 'sibling'} picked=${picked === level}
          onPick=${() => onPick(level)} />`,
    );
  }
  for (let level = 0; level <= levels; level++) {
    const label = level === levels ? `${levels ? '' : 'record = '}chain root`
      : level === 0 ? 'record' : `step ${level}`;
    const kind = level === 0 && picked === 'leaf' && levels > 0 ? 'bad' : kindAt(level);
    picture.push(html`<${Node} x=${COLUMN[side(level)]} y=${yOf(level)} hash=${level <= lit ? valueAt(level) : '· · ·'}
      label=${label} kind=${kind}
      picked=${level === 0 && picked === 'leaf'} onPick=${level === 0 ? () => onPick('leaf') : undefined} />`);
  }
  const says =
    lit < levels
      ? `${lit} of ${levels} steps computed`
      : valueAt(levels) === root
        ? 'it leads to the chain root'
        : 'it does not lead to the chain root';
  return html`<svg class="path" viewBox="0 0 ${WIDTH} ${height}" role="group"
    aria-label="Merkle path of ${levels} steps from the record to the chain root: ${says}">${picture}</svg>`;
}

// @ts-check
// Who acted for whom, as a picture and as a list of the same edges.
import { html, useLayoutEffect, useRef, useState } from '../vendor/preact-htm.js';
import { count, plural } from '../core/format.js';
import { href } from '../core/router.js';
import { busiest, placed } from '../lib/delegations.js';
import { agentSPIFFE, isOfCompany } from '../lib/spiffe.js';
import { visible } from '../lib/visible.js';

/** @type {ReturnType<typeof placed>} */
export const NOTHING = { boxes: [], lines: [], height: 0 };
const MOST = 32; // boxes of the picture; the list has all

/**
 * A principal in few words: {name, kind, agentId}. Only what is the company's own is shortened, for
 * another's may look alike.
 * @param {string} id
 * @param {Company} company
 * @returns {{name: string, kind: string, agentId?: string}}
 */
export function principal(id, company) {
  if (id === company.spiffeId) return { name: company.companyId, kind: 'the company' };
  if (isOfCompany(id, company.spiffeId)) {
    const agentId = id.slice(agentSPIFFE(company.spiffeId, '').length);
    return { name: visible(agentId), kind: 'agent', agentId };
  }
  return { name: visible(id.replace(/^spiffe:\/\//, '')), kind: 'not of this company' };
}

/**
 * @param {string} text
 * @param {number} width
 * @param {number} wide
 */
const fits = (text, width, wide) => text.length * wide <= width - 8;

/**
 * @param {string} text
 * @param {number} width
 * @param {number} wide
 */
const clipped = (text, width, wide) => {
  const most = Math.max(4, Math.floor((width - 8) / wide));
  return text.length > most ? `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(-Math.floor(most / 2))}` : text;
};

/**
 * How many records have an agent, in as many words as there is room for: never a part of the
 * number.
 * @param {number} n
 * @param {number} width
 */
const inRecords = (n, width) =>
  [`in ${plural(n, 'record')}`, plural(n, 'record')].find((text) => fits(text, width, 6.2)) ?? count(n);

/** @returns {[any, number]} */
export function useWidth() {
  const ref = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setWidth(Math.floor(ref.current.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

/** @param {{box: GraphBox, company: Company, own: string}} props */
function Box({ box, company, own }) {
  const { name, kind, agentId } = principal(box.name, company);
  const [middle, centre] = [box.x + box.width / 2, box.y + box.height / 2];
  const shapes = html`
    <title>${visible(box.name)}</title>
    <rect x=${box.x} y=${box.y} width=${box.width} height=${box.height} rx="9" />
    <text class="box-name" x=${middle} y=${centre - 2}>${clipped(name, box.width, 8.6)}</text>
    <text class="box-kind" x=${middle} y=${centre + 14}>
      ${kind === 'agent' ? inRecords(box.count, box.width) : clipped(kind, box.width, 6.6)}</text>`;
  const props = { class: `principal-box${box.name === own ? ' own' : ''}`, 'data-principal': visible(box.name) };
  if (agentId === undefined || box.name === own) return html`<g ...${props}>${shapes}</g>`;
  return html`<a ...${props} href=${href('agents', agentId)}>${shapes}</a>`;
}

/**
 * Boxes and the numbers at the lines between them. The lines are the children; beside names what
 * says the same in words.
 * @param {{part: ReturnType<typeof busiest>, drawn: ReturnType<typeof placed>, width: number,
 *   company: Company, own: string, beside: string, children?: any}} props
 */
export function Drawing({ part, drawn, width, company, own, beside, children }) {
  const { boxes, lines, height } = drawn;
  return html`
    <svg width=${width} height=${height + 34} viewBox="-2 -24 ${width} ${height + 34}" role="group"
      aria-label="Who acted for whom: ${plural(part.nodes.length, 'principal')} and ${plural(part.edges.length,
        'delegation')} between them. The ${beside} below says the same.">
      <defs><marker id="acts" viewBox="0 0 8 8" refX="7.5" refY="4" markerUnits="userSpaceOnUse" markerWidth="10"
        markerHeight="10" orient="auto-start-reverse"><path d="M0 0.5L8 4L0 7.5z" /></marker></defs>
      ${children}
      ${boxes.map((box) => html`<${Box} key=${box.name} box=${box} company=${company} own=${own} />`)}
      ${lines.map(({ from, to, x, y, count: n }) => html`<text class="edge-count"
        key=${JSON.stringify([from, to, n])} x=${x} y=${y} aria-hidden="true">${count(n)}</text>`)}
    </svg>`;
}

/** @param {{graph: Graph, company: Company, own: string}} props */
function Picture({ graph, company, own }) {
  const [ref, width] = useWidth();
  const part = busiest(graph, MOST, own);
  const drawn = width ? placed(part, width - 4) : NOTHING;
  return html`
    <div class="delegations" ref=${ref}>
      ${drawn.boxes.length > 0 && html`
        <${Drawing} part=${part} drawn=${drawn} width=${width} company=${company} own=${own} beside="list">
          ${drawn.lines.map(({ from, to, d, count: n }) => html`
            <path class="acts" key=${JSON.stringify([from, to])} data-from=${visible(from)} data-to=${visible(to)}
              data-count=${n} d=${d} marker-end="url(#acts)"
              stroke-width=${1.2 + Math.min(3.4, Math.log10(n) * 1.3)}>
              <title>${visible(to)} acted for ${visible(from)} in ${plural(n, 'record')}</title></path>`,
          )}
        <//>`}
      ${part.left > 0
        && html`<p class="small muted">
        The picture shows the ${MOST} most frequent principals; the list has ${count(part.left)} more.</p>`}
    </div>`;
}

/** @param {{id: string, company: Company, own: string}} props */
function Name({ id, company, own }) {
  const { name, agentId } = principal(id, company);
  if (id === own || agentId === undefined) return html`<strong title=${visible(id)}>${name}</strong>`;
  return html`<a href=${href('agents', agentId)} title=${visible(id)}>${name}</a>`;
}

/**
 * graph: of graphOf; company: {companyId, spiffeId}; own: the principal that the page is about.
 * @param {{graph: Graph & {alone: GraphNode[]}, company: Company, own: string}} props
 */
export function DelegationPicture({ graph, company, own }) {
  const { edges, alone } = graph;
  return html`
    ${edges.length > 0 && html`<${Picture} graph=${graph} company=${company} own=${own} />`}
    <details class="steps" open=${!edges.length}><summary>As a list</summary>
      <ul class="acted" aria-label="Who acted for whom">
        ${edges.map(({ from, to, count: n, index }) => html`
          <li key=${JSON.stringify([from, to])} data-from=${visible(from)} data-to=${visible(to)}>
            <${Name} id=${to} company=${company} own=${own} /> acted
              for <${Name} id=${from} company=${company} own=${own} />
            <span class="muted"> in ${plural(n, 'record')}
              , most recently <a href=${href('records', index)}>#${index}</a></span></li>`,
        )}
        ${alone.map(
          ({ name, count: n }) => html`
          <li key=${name}><${Name} id=${name} company=${company} own=${own} /> <span class="muted">
            acted with its own token, on no one’s behalf, in ${plural(n, 'record')}</span></li>`,
        )}
      </ul>
    </details>`;
}

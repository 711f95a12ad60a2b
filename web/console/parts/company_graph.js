// @ts-check
// The delegations of a company as a picture, whose lines lead to their records, and as a table of
// the same lines.
import { html, useState } from '../vendor/preact-htm.js';
import { count, plural, timeText } from '../core/format.js';
import { href } from '../core/router.js';
import { busiest, placed } from '../lib/delegations.js';
import { visible } from '../lib/visible.js';
import { Badge } from './basic.js';
import { Drawing, NOTHING, principal, useWidth } from './delegation_picture.js';
import { table } from '../lib/table.js';

const BOXES = 32; // of the picture; the table has all
const ROWS = 100; // of the table, before more are asked for
const LIFETIME = 3600e3; // ms that a delegation token is valid at most

/** @type {Partial<Record<Tone, string>>} */
const SAYS = table({ warn: 'checked, with a caveat', bad: 'a record fails', '': 'not checked' });
/** @param {Tone} tone */
const saysOf = (tone) => SAYS[tone] ?? 'checked';

/** @param {CompanyEdge} edge */
export const edgeHref = ({ from, to }) => href('delegations', '', { from, to });

/**
 * Whether a delegation can still be in force: its token is valid for an hour at most, and its
 * newest use is later than its issue.
 * @param {CompanyEdge} edge
 * @param {number} now
 */
export const isRecent = ({ last }, now) => now - Date.parse(last) < LIFETIME;

/** @param {{edges: CompanyEdge[], nodes: GraphNode[], company: Company}} props */
export function CompanyPicture({ edges, nodes, company }) {
  const [ref, width] = useWidth();
  const part = busiest({ nodes, edges }, BOXES, company.spiffeId);
  const drawn = width ? placed(part, width - 4) : NOTHING;
  const toneOf = new Map(edges.map((edge) => [JSON.stringify([edge.from, edge.to]), edge]));
  /** @param {string} id */
  const nameOf = (id) => principal(id, company).name;
  return html`
    <div class="delegations company-graph" ref=${ref}>
      ${drawn.boxes.length > 0 && html`
        <${Drawing} part=${part} drawn=${drawn} width=${width} company=${company} own="" beside="table">
          ${drawn.lines.map(({ from, to, d, count: n }) => {
            const edge = /** @type {CompanyEdge} */ (toneOf.get(JSON.stringify([from, to])));
            const says = `${nameOf(to)} acted for ${nameOf(from)} in ${plural(n, 'record')}, ${saysOf(edge.tone)}`;
            return html`
            <a class="edge" key=${JSON.stringify([from, to])} href=${edgeHref(edge)} aria-label=${says}
              data-tone=${edge.tone || 'none'}>
              <path class="reach" d=${d} />
              <path class="acts ${edge.tone}" d=${d} marker-end="url(#acts)"
                stroke-width=${1.6 + Math.min(3.4, Math.log10(n) * 1.3)}><title>${says}</title></path></a>`;
          })}
        <//>`}
      ${part.left > 0 && html`<p class="small muted">The picture shows the ${BOXES} principals with the most records;
        the table has ${count(part.left)} more.</p>`}
    </div>`;
}

/** @param {{id: string, company: Company}} props */
function Name({ id, company }) {
  const { name, kind, agentId } = principal(id, company);
  if (agentId === undefined) return html`<span title=${visible(id)}><strong>${name}</strong>
    ${kind !== 'the company' && html`<span class="small muted"> ${kind}</span>`}</span>`;
  return html`<a href=${href('agents', agentId)} title=${visible(id)}>${name}</a>`;
}

/** @param {{edges: CompanyEdge[], company: Company, now: number}} props */
export function CompanyTable({ edges, company, now }) {
  const [most, setMost] = useState(ROWS);
  return html`
    <table class="table delegation-table" data-edges=${edges.length}>
      <caption class="visually-hidden">Who acted for whom</caption>
      <thead><tr><th>Acted</th><th>For</th><th>Records</th><th>Tokens</th><th>Last used</th><th>Verdict</th></tr>
      </thead>
      <tbody>${edges.slice(0, most).map((edge) => html`
        <tr key=${JSON.stringify([edge.from, edge.to])} data-from=${visible(edge.from)} data-to=${visible(edge.to)}
          data-tone=${edge.tone || 'none'}>
          <td data-label="Acted"><${Name} id=${edge.to} company=${company} /></td>
          <td data-label="For"><${Name} id=${edge.from} company=${company} /></td>
          <td data-label="Records"><a href=${edgeHref(edge)}>${plural(edge.count, 'record')}</a></td>
          <td data-label="Tokens">${count(edge.tokens)}</td>
          <td data-label="Last used"><span title=${edge.last}>${timeText(edge.last)}</span>
            <div class="small muted">${isRecent(edge, now) ? 'may be in force' : 'past'}</div></td>
          <td data-label="Verdict"><${Badge} tone=${edge.tone}>${saysOf(edge.tone)}<//></td>
        </tr>`)}</tbody>
    </table>
    ${edges.length > most && html`<div class="buttons"><button type="button" class="button"
      onClick=${() => setMost(most * 4)}>Show more</button>
      <span class="small muted">${count(most)} of ${plural(edges.length, 'delegation')}</span></div>`}`;
}

// @ts-check
// What lib/markdown.js reads, as elements.
import { parseMarkdown } from '../lib/markdown.js';
import { html, useMemo } from '../vendor/preact-htm.js';

/**
 * @param {{content: Inline[], refer?: Refer}} props
 * @returns {Child[]}
 */
function Content({ content, refer }) {
  return content.map((piece) => {
    if (typeof piece === 'string') return piece;
    const inner = piece.content && html`<${Content} content=${piece.content} refer=${refer} />`;
    const to = refer?.(piece.type, piece.text);
    switch (piece.type) {
      case 'code': return to ? html`<a href=${to}><code>${piece.text}</code></a>` : html`<code>${piece.text}</code>`;
      case 'em': return to ? html`<a href=${to}>${inner}</a>` : html`<em>${inner}</em>`;
      case 'strong': return html`<strong>${inner}</strong>`;
      default: return html`<a href=${piece.to} target="_blank" rel="noopener noreferrer">${inner}</a>`;
    }
  });
}

/** @param {{head: Inline[][], rows: Inline[][][], refer?: Refer}} props */
function Table({ head, rows, refer }) {
  return html`
    <div class="table-wrap" tabindex="0" role="group" aria-label="Table">
      <table class="prose-table">
        <thead><tr>${head.map((cell) => html`<th scope="col"><${Content} content=${cell} refer=${refer} /></th>`)}</tr>
          </thead>
        <tbody>${rows.map((row) => html`<tr>
          ${row.map((cell) => html`<td><${Content} content=${cell} refer=${refer} /></td>`)}</tr>`)}</tbody>
      </table>
    </div>`;
}

/** @param {{block: Block, refer?: Refer}} props */
function Block({ block, refer }) {
  const inner = 'content' in block && html`<${Content} content=${block.content} refer=${refer} />`;
  switch (block.type) {
    case 'heading': return html`<h2 id="at-${block.id}" tabindex="-1">${inner}</h2>`;
    case 'code': return html`<pre class="code" tabindex="0">${block.text}</pre>`;
    case 'table': return html`<${Table} ...${block} refer=${refer} />`;
    case 'list': {
      const items = block.items.map((item) => html`<li><${Blocks} blocks=${item} refer=${refer} /></li>`);
      return block.ordered ? html`<ol>${items}</ol>` : html`<ul>${items}</ul>`;
    }
    default: return html`<p>${inner}</p>`;
  }
}

/** @param {{blocks: Block[], refer?: Refer}} props */
const Blocks = ({ blocks, refer }) => blocks.map((block) => html`<${Block} block=${block} refer=${refer} />`);

/**
 * A Markdown text. refer(type, text) gives the URL that a piece of code or emphasis means, if it
 * means one.
 * @param {{text: string, refer?: Refer}} props
 */
export function Markdown({ text, refer }) {
  const blocks = useMemo(() => parseMarkdown(text), [text]);
  return html`<div class="prose"><${Blocks} blocks=${blocks} refer=${refer} /></div>`;
}

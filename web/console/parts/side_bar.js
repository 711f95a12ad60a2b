// @ts-check
// The sections of the console at its side, and the views of the one that is shown, above the page.
import { html } from '../vendor/preact-htm.js';
import { href } from '../core/router.js';
import { SECTIONS, sectionOf } from '../core/sections.js';
import { Icon } from './basic.js';

/**
 * open: whether it is shown where there is no room at the side.
 * @param {{page: string, open: boolean, children?: Child}} props
 */
export const SideBar = ({ page, open, children }) => html`
  <div class="side ${open ? 'open' : ''}" id="side">
    <nav class="nav" aria-label="Sections">
      ${SECTIONS.map((section) => html`
        <a href=${href(section.views[0])} aria-current=${section === sectionOf(page) ? 'page' : undefined}>
          <${Icon} name=${section.icon} />${section.name}</a>`)}
    </nav>
    ${children}
  </div>`;

/** @param {{page: string, names: Map<string, string>}} props */
export function Views({ page, names }) {
  const section = sectionOf(page);
  if (!section || section.views.length < 2) return null;
  return html`
    <nav class="views" aria-label="Views of ${section.name}">
      ${section.views.map((id) => html`
        <a href=${href(id)} aria-current=${id === page ? 'page' : undefined}>${names.get(id)}</a>`)}
    </nav>`;
}

// @ts-check
// Approvals: what waits for a person.
import { html } from '../vendor/preact-htm.js';
import { href } from '../core/router.js';
import { Page } from '../parts/basic.js';

export const Approvals = () => html`
  <${Page} title="Approvals" lead="What waits for a person to allow or refuse it.">
    <p class="empty">Nothing waits for approval: this service asks no one before an agent acts. What agents may do
      is decided by their <a href=${href('passports')}>passports</a> and by
      ${' '}<a href=${href('policy')}>policies</a>.</p><//>`;

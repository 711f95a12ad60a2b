// @ts-check
// Who asked for a change.
import { html } from '../vendor/preact-htm.js';
import { href } from '../core/router.js';
import { CredentialName } from './name.js';

/** What the filter of credentials takes for records without one. */
export const NOBODY = 'service';

/**
 * The credential that asked for a change, as a link to all that it changed; query is of the control
 * log's page.
 * @param {{by: string | null, query?: Query}} props
 */
export const By = ({ by, query = {} }) =>
  by === null
    ? html`<a href=${href('control', '', { ...query, by: NOBODY })} title="The command line, or the service itself">
    no credential</a>`
    : html`<a href=${href('control', '', { ...query, by })} title="All changes made with this credential">
    <${CredentialName} of=${by} /></a>`;

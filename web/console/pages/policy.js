// @ts-check
// What holds for all agents of the company: who may attest in their names, and for which audiences
// tokens of others are exchanged.
import { html } from '../vendor/preact-htm.js';
import { AttestPolicy } from '../parts/attest_policy.js';
import { Page } from '../parts/basic.js';
import { ExchangeAudiences } from '../parts/exchange_audiences.js';

export const Policy = () => html`
  <${Page} title="Policy" lead="What holds for every agent of the company. An agent’s page has its own policy.">
    <div class="columns"><${AttestPolicy} agentId="" onChange=${() => {}} /><${ExchangeAudiences} /></div><//>`;

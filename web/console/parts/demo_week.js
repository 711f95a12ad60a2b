// @ts-check
// The week of which the records of the demonstration tell, day by day, as their payloads have it:
// at is when something happened in the story, and summary what.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { records } from '../core/api.js';
import { checkActions } from '../core/check_actions.js';
import { verdictOn } from '../core/pruned.js';
import { plural, timeText } from '../core/format.js';
import { href } from '../core/router.js';
import { toneOfSet } from '../core/verdict.js';
import { textIn } from '../lib/json.js';
import { visible } from '../lib/visible.js';
import { Badge, Failure, useTask } from './basic.js';
import { useAssess } from './key_trust.js';
import { Text } from './text.js';

const MOST = 100; // records, the first of the log

/** The records with their verdicts, those that tell something by day in the order of the log. */
async function readWeek() {
  const found = await records(0, MOST);
  const checks = await checkActions(found);
  /** @type {Map<string, DemoEvent[]>} */
  const days = new Map();
  for (const [i, record] of found.entries()) {
    const [at, summary] = [textIn(record.inner, 'at'), textIn(record.inner, 'summary')];
    const date = new Date(at);
    if (Number.isNaN(date.getTime()) || !summary) continue;
    const day = date.toLocaleDateString('en', { weekday: 'short', day: 'numeric', month: 'short', timeZone: 'UTC' });
    const { index, agentId } = record;
    days.set(day, [...(days.get(day) ?? []), { index, at, agentId, summary, check: checks[i] }]);
  }
  return {
    days,
    since: found[0]?.timestamp ?? '',
    checks: checks.map((check, i) => ({ ...check, index: found[i].index })),
  };
}

/** @param {{event: DemoEvent, assess: Assess}} props */
function Event({ event: { index, at, agentId, summary, check }, assess }) {
  const { tone, is } = verdictOn(assess, index, check);
  return html`
    <li data-event=${index} data-check=${tone}>
      <a href=${href('records', index)} title=${visible(`record ${index}: ${is}`)}>${at.slice(11, 16)}</a>
      ${' '}<strong><${Text} of=${agentId} /></strong> <${Text} of=${summary} /></li>`;
}

/** @param {{companyKey: CompanyKey}} props */
export function DemoWeek({ companyKey }) {
  const assess = useAssess(companyKey);
  const [found, setFound] = useState(/** @type {Awaited<ReturnType<typeof readWeek>> | null} */ (null));
  const [run, , error, retry] = useTask();
  useEffect(() => { run(async () => setFound(await readWeek())); }, [companyKey.fingerprint]);
  if (!found) return html`<${Failure} error=${error} retry=${retry} />`;
  const verdicts = found.checks.map((check) => verdictOn(assess, check.index, check));
  const tone = toneOfSet(verdicts.map((one) => one.tone));
  return html`
    <section class="card across" aria-label="The week" data-week=${tone}>
      <div class="card-head"><h2>The story</h2>
        <${Badge} tone=${tone}>${plural(found.checks.length, 'record')} checked here<//></div>
      <div class="week">${[...found.days].map(([day, events]) => html`
        <section key=${day}><h3>${day}</h3>
          <ol>${events.map((event) => html`<${Event} key=${event.index} event=${event} assess=${assess} />`)}</ol>
        </section>`)}</div>
      <p class="small muted">Days and times are those of the payloads, in UTC. The log received all of it at
        ${' '}${timeText(found.since, 16)}.</p>
    </section>`;
}

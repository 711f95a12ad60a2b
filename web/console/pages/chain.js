// Chain: every record of the company, of which only the visible rows exist in the page.
import { html, useEffect, useMemo, useRef, useState } from '../vendor/preact-htm.js';
import { recordLines, records } from '../core/api.js';
import { count, localTime, plural, short } from '../core/format.js';
import { go } from '../core/router.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { parseRecord } from '../lib/record.js';
import { Badge, Failure, Field, Page, useTask } from '../parts/basic.js';
import { Drawer } from '../parts/dialogs.js';
import { RecordView } from '../parts/record_view.js';
import { Text } from '../parts/text.js';
import { VirtualList } from '../parts/virtual_list.js';

const MOST = 200000; // rows held in memory; the field "from" leads past them
const ROW = 44;

// What the list shows of a line. One that is no record, or not the one that belongs here, is a row that says so.
function rowOf(line, expected) {
  try {
    const { index, timestamp, agentId, actionType, hash, delegation } = parseRecord(line);
    if (index !== expected) throw new Error(`record ${index} stands in its place`);
    return { index, timestamp, agentId, actionType, hash, delegated: Boolean(delegation) };
  } catch (err) {
    return { index: expected, timestamp: '', agentId: '', actionType: err.message, hash: '', broken: true };
  }
}

// Loads the rows from an index on. A row holds what the list shows; the record itself is fetched when it is opened.
function useRows(from) {
  const [state, setState] = useState({ rows: [], done: false, error: null });
  useEffect(() => {
    const abort = new AbortController();
    const rows = [];
    const show = (more) => setState({ rows: rows.slice(), done: false, error: null, ...more });
    (async () => {
      let shown = 0;
      setState({ rows: [], done: false, error: null });
      try {
        for await (const line of recordLines(from, { signal: abort.signal })) {
          rows.push(rowOf(line, from + rows.length));
          if (rows.length === MOST) break;
          if (performance.now() - shown > 150) {
            show();
            shown = performance.now();
            await new Promise((resolve) => setTimeout(resolve)); // lets the page scroll while it loads
          }
        }
        show({ done: true });
      } catch (error) {
        if (error.name !== 'AbortError') show({ error, done: true });
      } finally {
        if (rows.length === MOST) abort.abort();
      }
    })();
    return () => abort.abort();
  }, [from]);
  return state;
}

function Row({ row }) {
  return html`
    <span class="row-index">${row.index}</span>
    <span class="row-action ${row.broken ? 'bad-text' : ''}"><${Text} of=${row.actionType} /></span>
    <span class="row-agent"><${Text} of=${row.agentId} /></span>
    <span class="row-time">${row.timestamp && localTime(row.timestamp)}</span>
    <code class="row-hash">${short(row.hash)}</code>
    <span class="row-mark">${row.broken && html`<${Badge} tone="bad">no record<//>`}${row.delegated && html`<span class="badge">delegated</span>`}</span>`;
}

function OpenRecord({ index, onClose }) {
  const { key } = useStore(session);
  const [record, setRecord] = useState(null);
  const [run, , error] = useTask();
  useEffect(() => {
    run(async () => {
      const [found] = await records(index, 1);
      if (!found) throw new Error(`There is no record ${index}.`);
      setRecord(found);
    });
  }, [index]);
  return html`
    <${Drawer} title="Record ${index}" onClose=${onClose}>
      <${Failure} error=${error} />
      ${record && html`<${RecordView} record=${record} companyKey=${key} />`}
    <//>`;
}

export function Chain({ argument }) {
  const [from, setFrom] = useState(0);
  const [filter, setFilter] = useState('');
  const { rows, done, error } = useRows(from);
  const jump = useRef(null);
  const [target, setTarget] = useState(null);

  const shown = useMemo(() => {
    const wanted = filter.trim().toLowerCase();
    if (!wanted) return rows;
    return rows.filter((r) => `${r.index} ${r.actionType} ${r.agentId} ${r.hash}`.toLowerCase().includes(wanted));
  }, [rows, filter]);
  const submit = (event) => {
    event.preventDefault();
    const index = Number(jump.current.value || 0);
    const at = shown.findIndex((r) => r.index >= index);
    if (at >= 0) setTarget({ row: at });
    else if (index >= from + MOST || index < from) setFrom(index);
    else setTarget({ row: Math.max(0, shown.length - 1) });
  };
  const opened = /^[0-9]{1,15}$/.test(argument) ? Number(argument) : null;
  const state = `${filter ? `${count(shown.length)} of ` : ''}${plural(rows.length, 'record')}${done ? '' : ' so far …'}`;
  return html`
    <${Page} title="Chain" lead="All records in their order. The list is as the server sends it; opening a record checks it.">
      <div class="filters">
        <${Field} label="Filter">${(p) => html`<input ...${p} class="input" type="search" placeholder="action, agent or hash" value=${filter} onInput=${(e) => setFilter(e.target.value)} />`}<//>
        <form class="filters jump" onSubmit=${submit}>
          <${Field} label="Index">${(p) => html`<input ...${p} ref=${jump} class="input" inputmode="numeric" pattern="[0-9]*" size="8" />`}<//>
          <button class="button">Go</button>
        </form>
        <p class="muted small chain-count" role="status" data-done=${done ? 'yes' : 'no'}>${state}</p>
      </div>
      <${Failure} error=${error} />
      ${rows.length === MOST && html`<p class="muted small">Records ${count(from)} to ${count(from + MOST - 1)} are shown; ask for a later index to go on from there.</p>`}
      ${rows.length || !done
        ? html`<${VirtualList} label="Records" count=${shown.length} rowHeight=${ROW} scrollTo=${target}
            row=${(i) => html`<${Row} row=${shown[i]} />`}
            onOpen=${(i) => go('chain', shown[i].index)} />`
        : !error && html`<p class="empty">Nothing attested yet.</p>`}
      ${opened !== null && html`<${OpenRecord} key=${opened} index=${opened} onClose=${() => go('chain')} />`}
    <//>`;
}

// @ts-check
// What a report says, counted while its records come. Of what was done only times, names and
// numbers are held, of what was changed the records themselves.
const MOST = 5000; // changes and failures that are held; all are counted
const DEEDS = 10_000; // names of agents and actions: they are free text
const OTHERS = '(others)';
const FAILED = /(^|[._-])(failed|denied|error)$/; // tool.failed and tool.denied are ours (package action)

const DAY = 86400; // seconds
const WIDTHS = [1, 5, 15, 60, 300, 900, 3600, 3 * 3600, DAY / 2, DAY, 7 * DAY, 30 * DAY, 90 * DAY, 365 * DAY].map(
  (seconds) => seconds * 1000,
);
const BARS = 60;

/**
 * @param {string} a
 * @param {string} b
 */
const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
/** @param {{agent: string, action: string, delegated: boolean}} deed */
const nameOf = ({ agent, action, delegated }) => JSON.stringify([agent, action, delegated]);
/**
 * @param {Map<string, number>} map
 * @param {string} name
 */
const add = (map, name) => map.set(name, (map.get(name) ?? 0) + 1);

export class Tally {
  /** @type {ReportTally['actions'] & {deeds: Map<string, Deed>}} */
  actions = { total: 0, times: [], agents: new Map(), kinds: new Map(), deeds: new Map() };

  /** @type {ReportTally['failures']} */
  failures = { total: 0, times: [], list: [] };

  /** @type {ReportTally['changes']} */
  changes = { total: 0, times: [], kinds: new Map(), list: [] };

  /** @type {{from: string, to: string}[]} */
  alone = []; // {from, to}: times in which no witness was asked; to is '' for the end of the period

  /** @type {string | null} */
  witnesses = null; // that are asked, null before the report says it

  /** @param {string} from */
  constructor(from) {
    this.from = from;
  }

  /**
   * Takes the events of some records, as checkReport gives them.
   * @param {ReportEvent[]} events
   */
  addEvents(events) {
    for (const event of events) {
      if (event.log === 'control') this.change(event);
      else this.action(event);
    }
  }

  /** @param {ReportEvent} event */
  action({ index, timestamp, agentId, action, delegated = false }) {
    const { actions, failures } = this;
    const time = Date.parse(timestamp);
    actions.total++;
    actions.times.push(time);
    let deed = { agent: agentId, action, delegated, times: 0 };
    if (actions.deeds.size >= DEEDS && !actions.deeds.has(nameOf(deed)))
      deed = { agent: OTHERS, action: OTHERS, delegated: false, times: 0 };
    const known = actions.deeds.get(nameOf(deed)) ?? deed;
    actions.deeds.set(nameOf(deed), known);
    known.times++;
    add(actions.agents, deed.agent);
    add(actions.kinds, deed.action);
    if (!FAILED.test(action)) return;
    failures.total++;
    failures.times.push(time);
    if (failures.list.length < MOST) failures.list.push({ index, timestamp, agentId, action });
  }

  /** @param {ReportEvent} event */
  change(event) {
    const { changes } = this;
    changes.total++;
    changes.times.push(Date.parse(event.timestamp));
    add(changes.kinds, event.action);
    if (changes.list.length < MOST) changes.list.push(event);
    const { timestamp, before, witnesses } = event;
    if (typeof witnesses === 'string') this.asked({ timestamp, before, witnesses });
  }

  /**
   * From when to when no witness is asked, as attestd report says it.
   * @param {{timestamp: string, before?: string | null, witnesses: string}} event
   */
  asked({ timestamp, before, witnesses }) {
    let was = this.witnesses;
    if (was === null && before === '') { // since the beginning of the period
      this.alone.push({ from: this.from, to: '' });
      was = '';
    }
    if (was === '' && witnesses !== '') this.alone[this.alone.length - 1].to = timestamp;
    else if (was !== '' && witnesses === '') this.alone.push({ from: timestamp, to: '' });
    this.witnesses = witnesses;
  }

  /**
   * All that was counted, as plain values. deeds: who did what and how often, in the order of
   * agents; span: the first and the last time of a record, in ms, or null where there is none.
   */
  result() {
    const { actions: { deeds, ...actions }, failures, changes, alone, witnesses } = this;
    const ends = [actions.times, changes.times].filter(({ length }) => length).map((times) =>
      [times[0], times[times.length - 1]]);
    return {
      actions, failures, changes, alone, witnesses,
      deeds: [...deeds.values()].sort((a, b) => order(a.agent, b.agent) || order(a.action, b.action)),
      span: ends.length ? [Math.min(...ends.map(([first]) => first)), Math.max(...ends.map(([, last]) => last))] : null,
    };
  }
}

/**
 * The names with the greatest numbers, [[name, number]], and the rest as one.
 * @param {Map<string, number>} map
 * @param {number} most
 * @returns {[string, number][]}
 */
export function greatest(map, most) {
  const sorted = [...map].sort((a, b) => b[1] - a[1]);
  const rest = sorted.slice(most).reduce((sum, [, n]) => sum + n, 0);
  return rest ? [...sorted.slice(0, most), [OTHERS, rest]] : sorted;
}

/**
 * A period in equal parts of a round length, [[start in ms, how many of times are in it]]; bounds
 * in ms.
 * @param {number[]} times
 * @param {[number, number]} bounds
 */
export function histogram(times, [first, last]) {
  const width = WIDTHS.find((one) => (last - first) / one < BARS) ?? Math.ceil((last - first + 1) / BARS);
  const start = Math.floor(first / width) * width;
  /** @type {[number, number][]} */
  const parts = Array.from({ length: Math.floor((last - start) / width) + 1 }, (_, i) => [start + i * width, 0]);
  for (const time of times) parts[Math.floor((time - start) / width)][1]++;
  return { width, parts };
}

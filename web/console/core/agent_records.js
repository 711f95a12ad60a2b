// @ts-check
// Records of one agent: what the server finds, each checked here.
import { passedOver } from './archives.js';
import { checkActions } from './check_actions.js';
import { provenSize } from './heads.js';
import { foundRecord, histogramOf, pageOf, searchOf } from './search.js';
import { mustBeInOrder } from './search_pages.js';
import { signedIn } from './session.js';

/** @param {Query} asked */
const searchFor = (asked) => searchOf(asked, Date.now());

/**
 * Some of the newest records that a search finds, after an earlier page: {found, page}, and in
 * found {record, ok, pruned, reason} of each. page.pruned: how many could not be searched.
 * @param {Query} asked
 * @param {number} limit
 * @param {Parameters<typeof pageOf>[1]} [before]
 */
export async function newest(asked, limit, before = null) {
  const search = searchFor(asked);
  const page = await pageOf(search, before, limit, { proven: provenSize(signedIn().key, 'actions') });
  const records = page.records.map((one) => foundRecord(one, search));
  mustBeInOrder(records, page, search);
  await passedOver(page.pruned, page.read);
  const results = records.length ? await checkActions(records) : [];
  const found = records.map((record, i) => {
    const { ok, pruned = false, reason } = results[i];
    return { record, ok, pruned, reason };
  });
  return { found, page };
}

/**
 * How many records of an agent there are, and when.
 * @param {string} agentId
 * @param {number} buckets
 */
export const activityOf = (agentId, buckets) => histogramOf(searchFor({ agent: agentId }), buckets);

const PAGE = 500;
const LARGE = 1000; // records of a page, where many are read

/**
 * The newest records in which an agent acted for others and in which others acted for it, up to
 * `most` of each: {found, drawn, total, unsearched}. found is as of newest, the newest first; drawn
 * and total are {acted, gave}: how many were read of either kind, and how many there are.
 * unsearched: how many records could not be searched, because their payloads were pruned.
 * @param {{agentId: string, spiffeId: string}} agent
 * @param {number} most
 */
export async function delegationsOf({ agentId, spiffeId }, most) {
  const searches = [{ agent: agentId, delegatedBy: '*' }, { delegatedBy: spiffeId }];
  /** @param {Query} asked */
  const read = async (asked) => {
    const all = [];
    let unsearched = 0;
    for (let before = null; ;) {
      const { found, page } = await newest(asked, Math.min(PAGE, most - all.length), before);
      all.push(...found);
      unsearched += page.pruned;
      if (!page.next || all.length >= most) return { all, unsearched };
      before = page;
    }
  };
  const [{ all: acted, unsearched }, { all: gave }] = await Promise.all(searches.map(read));
  const totals = await Promise.all(searches.map(async (asked) => (await histogramOf(searchFor(asked), 1)).total));
  const found = new Map([...acted, ...gave].map((one) => [one.record.index, one]));
  return {
    found: [...found.values()].sort((a, b) => b.record.index - a.record.index),
    drawn: { acted: acted.length, gave: gave.length },
    total: { acted: totals[0], gave: totals[1] },
    unsearched,
  };
}

/**
 * The newest records of the company under a delegation, up to `most`, the newest first, with each
 * page as it is read: {found, total, done}. total is the server's count of them.
 * @param {number} most
 */
export async function* delegated(most) {
  const asked = { delegatedBy: '*' };
  const { total } = await histogramOf(searchFor(asked), 1);
  /** @type {Awaited<ReturnType<typeof newest>>['found']} */
  const found = [];
  for (let before = null; ;) {
    const { found: some, page } = await newest(asked, Math.min(LARGE, most - found.length), before);
    found.push(...some);
    const done = !page.next || found.length >= most;
    yield { found: [...found], total: Math.max(total, found.length), done };
    if (done) return;
    before = page;
  }
}

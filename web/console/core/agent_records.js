// @ts-check
// Records of one agent: what the server finds, each checked here.
import { checkNewest } from './checker.js';
import { provenSize } from './heads.js';
import { foundRecord, histogramOf, pageOf, searchOf } from './search.js';
import { mustBeInOrder } from './search_pages.js';
import { signedIn } from './session.js';

/** @param {Query} asked */
const searchFor = (asked) => searchOf(asked, Date.now());

/**
 * Some of the newest records that a search finds, after an earlier page: {found, page}, and in
 * found {record, ok, reason} of each.
 * @param {Query} asked
 * @param {number} limit
 * @param {Parameters<typeof pageOf>[1]} [before]
 */
export async function newest(asked, limit, before = null) {
  const search = searchFor(asked);
  const page = await pageOf(search, before, limit, { proven: provenSize(signedIn().key, 'actions') });
  const records = page.records.map((one) => foundRecord(one, search));
  mustBeInOrder(records, page, search);
  const results = records.length ? await checkNewest(records) : [];
  const found = records.map((record, i) => {
    const { ok, pruned, reason } = results[i];
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
 * `most` of each: {found, drawn, total}. found is as of newest, the newest first; drawn and total
 * are {acted, gave}: how many were read of either kind, and how many there are.
 * @param {{agentId: string, spiffeId: string}} agent
 * @param {number} most
 */
export async function delegationsOf({ agentId, spiffeId }, most) {
  const searches = [{ agent: agentId, delegatedBy: '*' }, { delegatedBy: spiffeId }];
  /** @param {Query} asked */
  const read = async (asked) => {
    const all = [];
    for (let before = null; ;) {
      const { found, page } = await newest(asked, Math.min(PAGE, most - all.length), before);
      all.push(...found);
      if (!page.next || all.length >= most) return all;
      before = page;
    }
  };
  const [acted, gave] = await Promise.all(searches.map(read));
  const totals = await Promise.all(searches.map(async (asked) => (await histogramOf(searchFor(asked), 1)).total));
  const found = new Map([...acted, ...gave].map((one) => [one.record.index, one]));
  return {
    found: [...found.values()].sort((a, b) => b.record.index - a.record.index),
    drawn: { acted: acted.length, gave: gave.length },
    total: { acted: totals[0], gave: totals[1] },
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

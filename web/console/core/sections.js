// @ts-check
// How the pages are divided: into the sections of the side bar, and each of these into views.

/** @type {{name: string, icon: string, views: string[]}[]} */
export const SECTIONS = [
  { name: 'Overview', icon: 'start', views: ['start'] },
  { name: 'Activity', icon: 'live', views: ['live', 'records', 'sessions'] },
  { name: 'Approvals', icon: 'approvals', views: ['approvals'] },
  {
    name: 'Agents',
    icon: 'agents',
    views: ['agents', 'agent-keys', 'passports', 'delegations', 'policies', 'policy', 'federation'],
  },
  { name: 'Evidence', icon: 'verify', views: ['verify', 'proof', 'checkpoints', 'report', 'control'] },
  { name: 'Settings', icon: 'keys', views: ['people', 'key', 'keys', 'webhooks', 'reference'] },
];

/**
 * The section that a page belongs to; undefined for a page of none.
 * @param {string} page
 */
export const sectionOf = (page) => SECTIONS.find(({ views }) => views.includes(page));

// @ts-check
// The SPIFFE IDs of a trust domain's issuer, of its companies and of their agents. They are
// computed here and compared whole: of two IDs that end alike, one may be of another trust domain
// or company.

const DOMAIN = /^[a-z0-9._-]{1,255}$/;
const SEGMENT = /^[A-Za-z0-9._-]{1,128}$/;

/**
 * The trust domain whose issuer has an ID, spiffe://{trust domain}/ca; undefined where it is none.
 * @param {string} issuer
 */
export function domainOf(issuer) {
  const [, domain = ''] = /^spiffe:\/\/(.*)\/ca$/.exec(issuer) ?? [];
  return DOMAIN.test(domain) ? domain : undefined;
}

/**
 * @param {string} domain
 * @param {string} companyId
 */
export const companySPIFFE = (domain, companyId) => `spiffe://${domain}/company/${companyId}`;

/**
 * The SPIFFE ID of an agent; company is that of its company.
 * @param {string} company
 * @param {string} agentId
 */
export const agentSPIFFE = (company, agentId) => `${company}/agent/${agentId}`;

/**
 * Whether an ID is that of a company in some trust domain: for a reader, as of a file, who knows
 * none.
 * @param {string} id
 * @param {string} companyId
 */
export function isCompany(id, companyId) {
  const [, domain = ''] = /^spiffe:\/\/([^/]*)\//.exec(id) ?? [];
  return DOMAIN.test(domain) && id === companySPIFFE(domain, companyId);
}

/**
 * Whether an ID is that of a company, or of one of its agents; company is its SPIFFE ID.
 * @param {string} id
 * @param {string} company
 */
export function isOfCompany(id, company) {
  if (id === company) return true;
  const own = agentSPIFFE(company, '');
  return id.startsWith(own) && SEGMENT.test(id.slice(own.length));
}

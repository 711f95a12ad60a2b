package projection

// The tables as differences and records name them.
const (
	TablePolicy        = "attest_policy"
	TableCompanyPolicy = "company_policy"
)

// Policy says what may be recorded in an agent's name.
type Policy struct {
	Attest string `json:"attest"` // any or key; "" for any
}

// Policy compares a policy; the zero one means a missing row.
func (l *Latest) Policy(agentID string, has Policy) *Difference {
	return againstOrNone(l, TablePolicy, agentID, has, Policy{}, func(d *details) Policy { return Policy{d.Attest} })
}

// CompanyPolicy is what the company's admins have decided for the whole company, in addition to
// Policy.
type CompanyPolicy struct {
	// for which tokens may be exchanged: a JSON array in the form of RFC 8785; "" for none
	ExchangeAudiences string `json:"exchangeAudiences"`
}

// subjectCompanyPolicy is of company.policy-changed where that is about CompanyPolicy. Without it
// the record is about a Policy.
const subjectCompanyPolicy = "company-policy"

func (d *details) companyPolicy() CompanyPolicy {
	return CompanyPolicy{ExchangeAudiences: list(d.ExchangeAudiences)}
}

// CompanyPolicy compares the policy of the company itself, separate from that of its agents; the
// zero one means a missing row.
func (l *Latest) CompanyPolicy(has CompanyPolicy) *Difference {
	return againstOrNone(l, TableCompanyPolicy, "", has, CompanyPolicy{}, (*details).companyPolicy)
}

package cred

// CompanyID is the SPIFFE ID of the issuer's company.
func (i *Issuer) CompanyID() string { return i.Domain.CompanyID(i.Company) }

// AgentID is the SPIFFE ID of an agent of the issuer's company.
func (i *Issuer) AgentID(agent string) string { return i.Domain.AgentID(i.Company, agent) }

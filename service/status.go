package service

import (
	"crypto/sha256"
	"encoding/json"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/store"
)

// status is what is signed of a passport: the canonical form of exactly these members.
type status struct {
	JTI       string  `json:"jti"`
	CompanyID string  `json:"companyId"`
	Status    string  `json:"status"` // valid, revoked or unknown
	CheckedAt string  `json:"checkedAt"`
	RevokedAt string  `json:"revokedAt,omitempty"`
	Reason    *string `json:"reason,omitempty"`
}

// SignedStatus is the status of a passport, signed with the company's key.
type SignedStatus struct {
	status
	CAPublicKey string `json:"caPublicKey"`
	Signature   string `json:"signature"`
}

// IsKnown says whether the company has issued the passport.
func (s SignedStatus) IsKnown() bool { return s.Status != "unknown" }

// newStatus signs the status of a passport, which is never "valid" for what the company has not
// issued.
func newStatus(by store.Caller, jti string, p store.Passport, issued bool) (SignedStatus, error) {
	st := status{JTI: jti, CompanyID: by.Company.ID, Status: "valid", CheckedAt: chain.FormatTime(by.At)}
	switch {
	case !issued:
		st.Status = "unknown"
	case p.RevokedAt != "":
		st.Status, st.RevokedAt, st.Reason = "revoked", p.RevokedAt, p.Reason
	}
	plain, err := json.Marshal(st)
	if err != nil {
		return SignedStatus{}, err
	}
	canonical, err := jcs.Append(nil, plain, MaxDepth)
	if err != nil {
		return SignedStatus{}, err
	}
	issuer := by.Company.Issuer
	return SignedStatus{st, issuer.Public.PEM, issuer.Sign(sha256.Sum256(canonical))}, nil
}

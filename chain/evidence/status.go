package evidence

import (
	"crypto/ed25519"
	"crypto/sha256"
	"maps"
	"slices"

	"attestd/crypto/keys"
)

// status is a parsed signed status of a passport.
type status struct {
	jti, companyID, state, checkedAt, revokedAt, pem string
	reason                                           []byte // nil where absent
	signature                                        []byte
	// members covered by the signature
	signed map[string][]byte
}

// status parses the response of GET /v1/ocsp/{jti}.
func (v value) status() (s status) {
	m := v.object([]string{"jti", "companyId", "status", "checkedAt", "caPublicKey", "signature"}, "revokedAt", "reason")
	s.jti, s.companyID, s.state, s.pem = m["jti"].text(), m["companyId"].text(), m["status"].text(), m["caPublicKey"].text()
	s.checkedAt = m["checkedAt"].timestamp()
	if m["revokedAt"].src != nil {
		s.revokedAt = m["revokedAt"].timestamp()
	}
	if s.reason = m["reason"].src; s.reason != nil {
		m["reason"].text()
	}
	s.signature = m["signature"].base64url(64)
	s.signed = make(map[string][]byte)
	for name, v := range m {
		if v.src != nil && name != "caPublicKey" && name != "signature" {
			s.signed[name] = v.src
		}
	}
	return s
}

// preimage returns the canonical form of the signed members, whose hash is signed.
func (s *status) preimage() []byte {
	dst := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(s.signed)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), name...), `":`...)
		dst = append(dst, canonical(s.signed[name])...)
	}
	return append(dst, '}')
}

// status checks the signed status of the passport and its consistency with the control records.
func (c *checker) status() error {
	f := c.file
	if (f.Passport == nil) != (f.Status == nil) {
		return fail(BadStatus, "only one of passport and status is present")
	}
	if f.Status == nil {
		return nil
	}
	s := value{new(form), "status", f.Status}.status()
	last := f.published[len(f.published)-1]
	digest := sha256.Sum256(s.preimage())
	switch {
	case s.jti != f.Passport.JTI || s.companyID != f.CompanyID:
		return fail(BadStatus, "the status is of another passport")
	case s.state != "valid" && s.state != "revoked" && s.state != "unknown":
		return fail(BadStatus, "%q is not a status", s.state)
	case (s.state == "revoked") != (s.revokedAt != "") || s.reason != nil && s.state != "revoked":
		return fail(BadStatus, "revokedAt and reason do not match the status %q", s.state)
	case s.pem != keys.Describe(last.Key).PEM || !ed25519.Verify(last.Key, digest[:], s.signature):
		return fail(BadStatus, "the company's last key has not signed the status")
	}
	for _, e := range c.ofPassport {
		if !e.agrees(&s) {
			return fail(BadStatus, "the status %q contradicts control record %d", s.state, e.index)
		}
	}
	c.say("the passport %s was %s at %s, as the company's last key has signed", s.jti, s.state, s.checkedAt)
	return nil
}

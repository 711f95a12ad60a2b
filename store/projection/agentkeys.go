package projection

import "fmt"

// The tables as differences and records name them.
const (
	TableAgentKey  = "agent_key"
	TableEnrolment = "enrolment"
)

// AgentKey is a public key of an agent.
type AgentKey struct {
	AgentID   string `json:"agentId"`
	JWK       string `json:"jwk"`       // in the form of RFC 7638
	ExpiresAt string `json:"expiresAt"` // "" for never
	RevokedAt string `json:"revokedAt"` // "" while it is not
	// the oldest version of statements that it may make; 0 for 1, of which older records say
	// nothing
	StatementVersion int `json:"statementVersion,omitempty"`
}

func (d *details) agentKey() (AgentKey, error) {
	end, err := d.grantEnd()
	return AgentKey{AgentID: d.AgentID, JWK: string(d.JWK), ExpiresAt: end, StatementVersion: d.Version}, err
}

// AgentKey compares a key of an agent. The record of a revocation says no more than that, and more
// is asked of no key that is revoked.
func (l *Latest) AgentKey(thumbprint string, has AgentKey) *Difference {
	return against(l, TableAgentKey, thumbprint, has, func(d *details) (want AgentKey, gone bool, err error) {
		switch l.ActionType {
		case "agent-key.enrolled":
			want, err = d.agentKey()
		case "agent-key.revoked":
			want = has
			want.AgentID, want.RevokedAt = d.AgentID, d.RevokedAt
		default:
			gone = true
		}
		return want, gone, err
	})
}

// Enrolment is a token with which an agent enrols one key.
type Enrolment struct {
	AgentID   string `json:"agentId"`
	ExpiresAt string `json:"expiresAt"`
	Key       string `json:"key"` // thumbprint of the key; "" while it is not spent
}

func (d *details) enrolment() (Enrolment, error) {
	end, err := d.grantEnd()
	return Enrolment{AgentID: d.AgentID, ExpiresAt: end}, err
}

// spend says with which key an enrolment was spent. None is spent twice.
func (s *State) spend(fingerprint, thumbprint string, index int64) error {
	before := s.Enrolments[fingerprint].Row.Key
	err := alter(s, s.Enrolments, fingerprint, index, func(e *Enrolment) { e.Key = thumbprint })
	if err == nil && before != "" {
		err = fmt.Errorf("spends the enrolment %q again, which was spent on the key %s", fingerprint, before)
	}
	return err
}

// Enrolment compares an enrolment, except whether it was spent: the record of the key says that,
// and the replay compares it.
func (l *Latest) Enrolment(fingerprint string, has Enrolment) *Difference {
	if l == nil {
		return unrecorded(TableEnrolment, fingerprint, has)
	}
	want, gone, is, err := row[Enrolment](l)
	if !is && err == nil {
		want, err = l.Payload.enrolment()
	}
	want.Key = has.Key
	return l.compare(TableEnrolment, fingerprint, gone, err, func() *Difference { return differs(TableEnrolment, fingerprint, has, Entry[Enrolment]{want, l.Index}) })
}

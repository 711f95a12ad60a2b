package projection

// TableTokenKey is the table as differences and records name it.
const TableTokenKey = "token_key"

// TokenKey is a key with which the company signs tokens for others.
type TokenKey struct {
	Algorithm   string `json:"alg"`
	JWK         string `json:"jwk"` // in the form of RFC 7638
	SignsFrom   string `json:"signsFrom"`
	EndedAt     string `json:"endedAt"` // "" while no other follows it
	Compromised bool   `json:"compromised"`
}

func (d *details) tokenKey() (TokenKey, error) {
	return TokenKey{Algorithm: d.Algorithm, JWK: string(d.JWK), SignsFrom: d.SignsFrom}, nil
}

// TokenKey compares a token key. The record of its end says no more than that: its name says which
// key it is, and when it began is compared by the replay.
func (l *Latest) TokenKey(kid string, has TokenKey) *Difference {
	return against(l, TableTokenKey, kid, has, func(d *details) (want TokenKey, gone bool, err error) {
		switch l.ActionType {
		case "token-key.created":
			want, err = d.tokenKey()
		case "token-key.ended":
			want = has
			want.EndedAt, want.Compromised = d.EndedAt, d.Compromised
		default:
			gone = true
		}
		return want, gone, err
	})
}

package projection

// The tables as differences and records name them.
const (
	TableAPIKey = "api_key"
	TableClient = "oauth_client"
)

// Credential is an API key, or an OAuth client.
type Credential struct {
	Fingerprint string `json:"fingerprint"`
	Role        string `json:"role"`
	ExpiresAt   string `json:"expiresAt"` // "" for never
	MadeBy      string `json:"madeBy"`    // "" for the bootstrap key
	// of an OAuth client with keys of its own: a JWK set in the form of RFC 8785, or its URL
	JWKS    string `json:"jwks,omitempty"`
	JWKSURI string `json:"jwksUri,omitempty"`
}

func (d *details) credential() (Credential, error) {
	end, err := d.grantEnd()
	return Credential{Fingerprint: d.Fingerprint, Role: d.Role, ExpiresAt: end, MadeBy: d.by(), JWKS: string(d.JWKS), JWKSURI: d.JWKSURI}, err
}

// Credential compares an API key or an OAuth client.
func (l *Latest) Credential(table, name string, has Credential) *Difference {
	return against(l, table, name, has, func(d *details) (Credential, bool, error) {
		want, err := d.credential()
		return want, l.ActionType != "api-key.created" && l.ActionType != "oauth-client.created", err
	})
}

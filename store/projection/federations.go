package projection

// TableFederation is the table as differences and records name it.
const TableFederation = "federation"

// Federation is another issuer whose tokens the company trusts.
type Federation struct {
	Issuer   string `json:"issuer"`
	Audience string `json:"audience"`
	JWKS     string `json:"jwks"` // canonical JSON; "" where it is fetched
	JWKSURI  string `json:"jwksUri"`
	Rules    string `json:"rules"` // canonical JSON
}

func (d *details) federation() (Federation, error) {
	return Federation{Issuer: d.Issuer, Audience: d.Audience, JWKS: list(d.JWKS), JWKSURI: d.JWKSURI, Rules: string(d.Rules)}, nil
}

// Federation compares a federation.
func (l *Latest) Federation(name string, has Federation) *Difference {
	return against(l, TableFederation, name, has, func(d *details) (Federation, bool, error) {
		want, err := d.federation()
		return want, l.ActionType != "federation.created", err
	})
}

package projection

// Webhook is an endpoint to which records are sent.
type Webhook struct {
	URLHash     string `json:"urlHash"`
	Agents      string `json:"agents"` // a JSON array; "" for all
	Actions     string `json:"actions"`
	Fingerprint string `json:"fingerprint"` // of the secret that signs
	Disabled    string `json:"disabled"`    // the reason; "" while enabled
	MadeBy      string `json:"madeBy"`
}

package projection

// TableWebhook is the table as differences and records name it.
const TableWebhook = "webhook"

// Webhook is an endpoint to which records are sent.
type Webhook struct {
	URLHash     string `json:"urlHash"`
	Agents      string `json:"agents"` // a JSON array; "" for all
	Actions     string `json:"actions"`
	Fingerprint string `json:"fingerprint"` // of the secret that signs
	Disabled    string `json:"disabled"`    // the reason; "" while enabled
	MadeBy      string `json:"madeBy"`
}

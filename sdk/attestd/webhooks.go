package attestd

import (
	"context"
	"net/http"
)

// NewWebhook says where messages about appended records and about keys of agents go, and about
// which.
type NewWebhook struct {
	URL    string   `json:"url"`
	Agents []string `json:"agents,omitempty"` // nil for all
	// nil for all; one with a * at its end matches all that begin so
	Actions     []string `json:"actions,omitempty"`
	Description string   `json:"description,omitempty"`
}

// Webhook is an endpoint that is sent a message for each record, and for each key of an agent that
// is enrolled or revoked. Secret is only in the answers that make it.
type Webhook struct {
	WebhookID   string   `json:"webhookId"`
	URL         string   `json:"url"`
	Agents      []string `json:"agents,omitempty"`
	Actions     []string `json:"actions,omitempty"`
	Description string   `json:"description,omitempty"`
	CreatedAt   string   `json:"createdAt"`
	Secret      string   `json:"secret,omitempty"`
	PublicKey   string   `json:"publicKey"`
	Fingerprint string   `json:"fingerprint"` // of the secret
	// the first record of the actions log that was not sent
	NextIndex      int64  `json:"nextIndex"`
	FailedAttempts int    `json:"failedAttempts"`
	NextAttemptAt  string `json:"nextAttemptAt,omitempty"`
	DisabledAt     string `json:"disabledAt,omitempty"`
	DisabledReason string `json:"disabledReason,omitempty"` // requested, gone or failing
	// records that it does not send, because their payloads were pruned while it was disabled
	SkippedRecords int64 `json:"skippedRecords,omitempty"`
}

// CreateWebhook makes a webhook, with its secret.
func (c *Client) CreateWebhook(ctx context.Context, n NewWebhook) (w Webhook, err error) {
	err = c.post(ctx, "/v1/webhooks", http.StatusCreated, n, &w)
	return w, err
}

// Webhooks lists the company's webhooks.
func (c *Client) Webhooks(ctx context.Context) ([]Webhook, error) {
	var answer struct{ Webhooks []Webhook }
	err := c.get(ctx, "/v1/webhooks", nil, &answer)
	return answer.Webhooks, err
}

// Webhook returns one of them.
func (c *Client) Webhook(ctx context.Context, id string) (w Webhook, err error) {
	err = c.get(ctx, "/v1/webhooks/{webhookId}", nil, &w, id)
	return w, err
}

// DeleteWebhook deletes a webhook: nothing more is sent to it.
func (c *Client) DeleteWebhook(ctx context.Context, id string) error {
	return c.delete(ctx, "/v1/webhooks/{webhookId}", id)
}

// EnableWebhook lets a webhook go on with the record where it stopped.
func (c *Client) EnableWebhook(ctx context.Context, id string) (w Webhook, err error) {
	err = c.post(ctx, "/v1/webhooks/{webhookId}/enable", http.StatusOK, nil, &w, id)
	return w, err
}

// DisableWebhook makes a webhook be sent nothing more until it is enabled.
func (c *Client) DisableWebhook(ctx context.Context, id string) (w Webhook, err error) {
	err = c.post(ctx, "/v1/webhooks/{webhookId}/disable", http.StatusOK, nil, &w, id)
	return w, err
}

// RotateWebhookSecret gives a webhook another secret. The one before it signs too for 24 hours.
func (c *Client) RotateWebhookSecret(ctx context.Context, id string) (w Webhook, err error) {
	err = c.post(ctx, "/v1/webhooks/{webhookId}/rotate-secret", http.StatusOK, nil, &w, id)
	return w, err
}

// WebhookTest is what came of one attempt at a message about no record.
type WebhookTest struct {
	Delivered bool   `json:"delivered"`
	Status    int    `json:"status,omitempty"`  // of the endpoint's answer
	Failure   string `json:"failure,omitempty"` // why there was none
	MessageID string `json:"messageId"`
}

// TestWebhook sends a webhook a message of the type webhook.test.
func (c *Client) TestWebhook(ctx context.Context, id string) (t WebhookTest, err error) {
	err = c.post(ctx, "/v1/webhooks/{webhookId}/test", http.StatusOK, nil, &t, id)
	return t, err
}

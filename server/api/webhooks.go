package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"attestd/chain"
	"attestd/server/httpapi"
	"attestd/server/jobs"
	"attestd/server/webhook"
	"attestd/service"
	"attestd/store"
)

// Webhooks are the webhooks of a company.
type Webhooks struct {
	Store     *store.Store
	Log       *slog.Logger
	Client    *webhook.Client
	Deliverer *jobs.Deliverer
	Most      func() int // how many a company may have
}

type webhookBody struct {
	WebhookID      string   `json:"webhookId"`
	URL            string   `json:"url"`
	Agents         []string `json:"agents,omitempty"`
	Actions        []string `json:"actions,omitempty"`
	Description    *string  `json:"description,omitempty"`
	CreatedAt      string   `json:"createdAt"`
	PublicKey      string   `json:"publicKey"`
	Fingerprint    string   `json:"fingerprint"`
	NextIndex      int64    `json:"nextIndex"`
	FailedAttempts int      `json:"failedAttempts"`
	NextAttemptAt  string   `json:"nextAttemptAt,omitempty"`
	DisabledAt     string   `json:"disabledAt,omitempty"`
	DisabledReason string   `json:"disabledReason,omitempty"`
	SkippedRecords int64    `json:"skippedRecords,omitempty"`
}

func showWebhook(h store.Webhook) webhookBody {
	shown := webhookBody{
		WebhookID: h.ID, URL: h.URL, Agents: h.Agents, Actions: h.Actions, Description: h.Description, CreatedAt: h.CreatedAt,
		PublicKey: webhook.FormatPublic(h.PublicKey), Fingerprint: h.Fingerprint, NextIndex: h.Next, FailedAttempts: h.Failed,
		DisabledAt: h.DisabledAt, DisabledReason: h.DisabledReason, SkippedRecords: h.Skipped,
	}
	if !h.RetryAt.IsZero() {
		shown.NextAttemptAt = chain.FormatTime(h.RetryAt)
	}
	return shown
}

// webhookWithSecret is a response that shows a new secret, once.
type webhookWithSecret struct {
	webhookBody
	Secret string `json:"secret"`
}

type createWebhookRequest struct {
	URL         string   `json:"url" must:"string"`
	Agents      []string `json:"agents" must:"names"`
	Actions     []string `json:"actions" must:"names"`
	Description *string  `json:"description" must:"text"`
}

// Create and the endpoints below are additions to the specification.
func (s *Webhooks) Create(
	ctx context.Context, by store.Caller, r createWebhookRequest,
) (webhookWithSecret, error) {
	if err := s.Client.CheckURL(r.URL); err != nil {
		return webhookWithSecret{}, httpapi.Fail(http.StatusBadRequest, "Missing or invalid field: url "+err.Error())
	}
	if err := s.checkRoom(ctx); err != nil {
		return webhookWithSecret{}, err
	}
	keys, most := webhook.NewKeys(), s.Most()
	h, err := s.Store.Webhooks.Create(ctx, by,
		store.Webhook{URL: r.URL, Agents: r.Agents, Actions: r.Actions, Description: r.Description},
		jobs.StoredSecret(keys), most)
	if errors.Is(err, store.ErrTooMany) {
		return webhookWithSecret{}, service.TooMany("webhooks", most)
	}
	if err != nil {
		return webhookWithSecret{}, err
	}
	s.Deliverer.Apply(by, h.ID)
	return webhookWithSecret{showWebhook(h), keys.Secret()}, nil
}

// checkRoom refuses a webhook beyond the server's maximum.
func (s *Webhooks) checkRoom(ctx context.Context) error {
	err := s.Deliverer.CheckRoom(ctx)
	if errors.Is(err, jobs.ErrNoRoom) {
		return httpapi.Unavailable("NOT_DONE", err.Error(), nil).With("Retry-After", "600")
	}
	return err
}

func (s *Webhooks) List(ctx context.Context, by store.Caller, _ httpapi.None) (httpapi.List[webhookBody], error) {
	return httpapi.List[webhookBody]{Name: "webhooks", Items: service.Map(s.Store.Webhooks.List(ctx, by), showWebhook)}, nil
}

// webhookRequest is a request about the webhook in the path.
type webhookRequest struct {
	WebhookID string `path:"webhookId"`
}

func webhookError(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return httpapi.Fail(http.StatusNotFound, "Webhook not found")
	}
	return err
}

func (s *Webhooks) Get(ctx context.Context, by store.Caller, r webhookRequest) (webhookBody, error) {
	h, err := s.Store.Webhooks.Get(ctx, by, r.WebhookID)
	return showWebhook(h), webhookError(err)
}

func (s *Webhooks) Delete(ctx context.Context, by store.Caller, r webhookRequest) (deletion, error) {
	err := s.Store.Webhooks.Delete(ctx, by, r.WebhookID)
	s.Deliverer.Apply(by, r.WebhookID) // even if the outcome is unknown
	return deletion{err == nil}, webhookError(err)
}

func (s *Webhooks) Enable(ctx context.Context, by store.Caller, r webhookRequest) (webhookBody, error) {
	if err := s.checkRoom(ctx); err != nil {
		return webhookBody{}, err
	}
	h, skipped, err := s.Store.Webhooks.Enable(ctx, by, r.WebhookID)
	s.Deliverer.Apply(by, r.WebhookID)
	if skipped > 0 {
		s.Log.Warn("a webhook was enabled behind records whose payloads were pruned, which it does not send",
			"webhook", h.ID, "company", by.Company.ID, "records", skipped, "next", h.Next)
	}
	return showWebhook(h), webhookError(err)
}

func (s *Webhooks) Disable(ctx context.Context, by store.Caller, r webhookRequest) (webhookBody, error) {
	h, err := s.Store.Webhooks.Disable(ctx, by, r.WebhookID, store.WebhookRequested)
	s.Deliverer.Apply(by, r.WebhookID)
	return showWebhook(h), webhookError(err)
}

func (s *Webhooks) RotateSecret(
	ctx context.Context, by store.Caller, r webhookRequest,
) (webhookWithSecret, error) {
	keys := webhook.NewKeys()
	h, err := s.Store.Webhooks.RotateSecret(ctx, by, r.WebhookID, jobs.StoredSecret(keys), by.At.Add(jobs.FormerSecret))
	s.Deliverer.Apply(by, r.WebhookID)
	return webhookWithSecret{showWebhook(h), keys.Secret()}, webhookError(err)
}

type webhookTested struct {
	Delivered bool   `json:"delivered"`
	Status    int    `json:"status,omitempty"`
	Failure   string `json:"failure,omitempty"`
	MessageID string `json:"messageId"`
}

// Test makes one attempt to send a message that is not about a record. It returns only the
// status of the response.
func (s *Webhooks) Test(ctx context.Context, by store.Caller, r webhookRequest) (webhookTested, error) {
	to, err := s.Store.Webhooks.Delivery(ctx, by.Company.Chain, r.WebhookID)
	if err != nil {
		return webhookTested{}, webhookError(err)
	}
	id, o, ok, err := s.Deliverer.Test(ctx, to, by.At)
	if err != nil {
		return webhookTested{}, err
	}
	if !ok {
		return webhookTested{}, ctx.Err()
	}
	return webhookTested{o.Delivered(), o.Status, o.Failure, id}, nil
}

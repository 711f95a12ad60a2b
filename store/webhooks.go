package store

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"attestd/chain"
)

// Webhook is an endpoint to which the records of a company's actions are sent.
type Webhook struct {
	ID             string
	URL            string
	Agents         []string // whose records; nil for all
	Actions        []string // of which kinds; nil for all
	Description    *string
	CreatedAt      string
	PublicKey      ed25519.PublicKey
	Fingerprint    string // of the secret
	DisabledAt     string // "" while enabled
	DisabledReason string // one of the reasons below
	Progress

	row int64
}

// Why a webhook is disabled.
const (
	WebhookRequested = "requested" // by an admin
	WebhookGone      = "gone"      // the endpoint has said so
	WebhookFailing   = "failing"   // no attempt at a message has come through
)

// Progress is how far a webhook has come.
type Progress struct {
	Next    int64     // the first record that was not sent
	Failed  int       // attempts at it
	RetryAt time.Time // of the next one; zero where none has failed
}

// WebhookSecret is a secret of a webhook, and what may be shown of it.
type WebhookSecret struct {
	Bytes       []byte // kept sealed where the secrets of the file are
	Fingerprint string
	Public      ed25519.PublicKey
}

const webhookColumns = `id, webhook_id, url, agents, actions, description, created_at, public_key, fingerprint, disabled_at, disabled_reason,
	next_record, attempts, retry_at`

func scanWebhook(rows *sql.Rows) (h Webhook, err error) {
	var agents, actions, disabled, reason sql.NullString
	var public []byte
	var retry sql.NullInt64
	err = rows.Scan(&h.row, &h.ID, &h.URL, &agents, &actions, &h.Description, &h.CreatedAt, &public, &h.Fingerprint, &disabled, &reason,
		&h.Next, &h.Failed, &retry)
	h.PublicKey, h.DisabledAt, h.DisabledReason, h.RetryAt = public, disabled.String, reason.String, expiry(retry)
	for text, into := range map[*sql.NullString]*[]string{&agents: &h.Agents, &actions: &h.Actions} {
		if err == nil && text.Valid {
			err = json.Unmarshal([]byte(text.String), into)
		}
	}
	return h, err
}

// Create makes a webhook of the caller's company, which begins with the records that come
// after it, from what h says of itself; ErrTooMany where the company has as many as most.
func (s Webhooks) Create(ctx context.Context, by Caller, h Webhook, secret WebhookSecret, most int) (Webhook, error) {
	h.ID, h.CreatedAt = "wh_"+rand.Text(), chain.FormatTime(by.At)
	h.PublicKey, h.Fingerprint = secret.Public, secret.Fingerprint
	agents, err := listOrNull(h.Agents)
	if err != nil {
		return Webhook{}, err
	}
	actions, err := listOrNull(h.Actions)
	if err != nil {
		return Webhook{}, err
	}
	stored, _ := s.db.secrets.KeepWebhook(by.Company.Chain, h.ID, secret.Bytes, nil)
	err = s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		if err := checkCount(w, most, `SELECT count(*) FROM webhook WHERE company = ?`, by.Company.Chain); err != nil {
			return nil, err
		}
		if err := w.one([]any{&h.Next}, `SELECT length FROM head WHERE chain = ?`, by.Company.Actions.Chain); err != nil {
			return nil, err
		}
		_, err := w.exec(`INSERT INTO webhook (company, webhook_id, url, agents, actions, description, created_at, made_by, public_key, fingerprint, secret, next_record)
			VALUES (?, ?, ?, ?, ?, ?, ?, nullif(?, ''), ?, ?, ?, ?)`,
			by.Company.Chain, h.ID, h.URL, agents, actions, h.Description, h.CreatedAt, by.Credential, []byte(h.PublicKey), h.Fingerprint, stored, h.Next)
		details := map[string]any{"webhookId": h.ID, "urlHash": hashOrNil([]byte(h.URL)), "agents": h.Agents, "actions": h.Actions,
			"fingerprint": h.Fingerprint, "fromIndex": h.Next}
		return []controlEvent{{WebhookCreated, subjectWebhook(h.ID), details}}, err
	})
	if err != nil {
		return Webhook{}, fmt.Errorf("create webhook: %w", err)
	}
	return h, nil
}

func listOrNull(list []string) (sql.NullString, error) {
	if list == nil {
		return sql.NullString{}, nil
	}
	text, err := json.Marshal(list)
	return sql.NullString{String: string(text), Valid: true}, err
}

// List yields those of the caller's company in the order of their creation.
func (s Webhooks) List(ctx context.Context, by Caller) iter.Seq2[Webhook, error] {
	return list(ctx, s.db, "webhooks", scanWebhook, "SELECT "+webhookColumns+" FROM webhook WHERE company = ? AND id > ? ORDER BY id",
		func(last Webhook) []any { return []any{by.Company.Chain, last.row} })
}

// Get reads one of the caller's company; ErrNotFound.
func (s Webhooks) Get(ctx context.Context, by Caller, id string) (h Webhook, err error) {
	err = s.db.read(ctx, func(r *conn) error {
		h, err = findWebhook(r, by.Company.Chain, id)
		return err
	})
	if err != nil {
		return Webhook{}, fmt.Errorf("webhook: %w", err)
	}
	return h, nil
}

func findWebhook(c *conn, company int64, id string) (Webhook, error) {
	return row(c, scanWebhook, "SELECT "+webhookColumns+" FROM webhook WHERE company = ? AND webhook_id = ?", company, id)
}

// Delete deletes one of the caller's company; ErrNotFound.
func (s Webhooks) Delete(ctx context.Context, by Caller, id string) error {
	err := s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		n, err := w.exec(`DELETE FROM webhook WHERE company = ? AND webhook_id = ?`, by.Company.Chain, id)
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		return []controlEvent{{WebhookDeleted, subjectWebhook(id), map[string]any{"webhookId": id}}}, err
	})
	if err != nil {
		return fmt.Errorf("delete webhook: %w", err)
	}
	return nil
}

// Disable makes a webhook of the caller's company be sent nothing more, for one of the
// reasons. One that is disabled stays so since when it was. ErrNotFound.
func (s Webhooks) Disable(ctx context.Context, by Caller, id, reason string) (h Webhook, err error) {
	err = s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		if h, err = findWebhook(w, by.Company.Chain, id); err != nil || h.DisabledAt != "" {
			return nil, err
		}
		h.DisabledAt, h.DisabledReason = chain.FormatTime(by.At), reason
		_, err := w.exec(`UPDATE webhook SET disabled_at = ?, disabled_reason = ? WHERE id = ?`, h.DisabledAt, reason, h.row)
		return []controlEvent{{WebhookDisabled, subjectWebhook(id), map[string]any{"webhookId": id, "reason": reason}}}, err
	})
	if err != nil {
		return Webhook{}, fmt.Errorf("disable webhook: %w", err)
	}
	return h, nil
}

// Enable makes a webhook of the caller's company go on where it has stopped, with all
// attempts before it. ErrNotFound.
func (s Webhooks) Enable(ctx context.Context, by Caller, id string) (h Webhook, err error) {
	err = s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		if h, err = findWebhook(w, by.Company.Chain, id); err != nil || h.DisabledAt == "" {
			return nil, err
		}
		h.DisabledAt, h.DisabledReason, h.Failed, h.RetryAt = "", "", 0, time.Time{}
		_, err := w.exec(`UPDATE webhook SET disabled_at = NULL, disabled_reason = NULL, attempts = 0, retry_at = NULL WHERE id = ?`, h.row)
		return []controlEvent{{WebhookEnabled, subjectWebhook(id), map[string]any{"webhookId": id}}}, err
	})
	if err != nil {
		return Webhook{}, fmt.Errorf("enable webhook: %w", err)
	}
	return h, nil
}

// RotateSecret gives a webhook of the caller's company another secret. The one before it
// signs too until a time; one before that no more. ErrNotFound.
func (s Webhooks) RotateSecret(ctx context.Context, by Caller, id string, secret WebhookSecret, until time.Time) (h Webhook, err error) {
	company := by.Company.Chain
	err = s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		if h, err = findWebhook(w, company, id); err != nil {
			return nil, err
		}
		var stored []byte
		if err := w.one([]any{&stored}, `SELECT secret FROM webhook WHERE id = ?`, h.row); err != nil {
			return nil, err
		}
		current, _, err := s.db.secrets.OpenWebhook(company, id, stored, nil)
		if err != nil {
			return nil, err
		}
		details := map[string]any{"webhookId": id, "fingerprint": secret.Fingerprint, "previousFingerprint": h.Fingerprint}
		h.PublicKey, h.Fingerprint = secret.Public, secret.Fingerprint
		stored, former := s.db.secrets.KeepWebhook(company, id, secret.Bytes, current)
		_, err = w.exec(`UPDATE webhook SET secret = ?, public_key = ?, fingerprint = ?, former_secret = ?, former_until = ? WHERE id = ?`,
			stored, []byte(secret.Public), secret.Fingerprint, former, until.UnixMilli(), h.row)
		return []controlEvent{{WebhookRotated, subjectWebhook(id), details}}, err
	})
	if err != nil {
		return Webhook{}, fmt.Errorf("rotate the secret of a webhook: %w", err)
	}
	return h, nil
}

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

// Webhook is an endpoint to which the records of a company's actions are sent, and the control
// records about the keys of its agents.
type Webhook struct {
	ID             string
	URL            string
	Agents         []string // whose records are sent; nil for all
	Actions        []string // which types of actions are sent; nil for all
	Description    *string
	CreatedAt      string
	PublicKey      ed25519.PublicKey
	Fingerprint    string // of the secret
	DisabledAt     string // "" while enabled
	DisabledReason string // one of the reasons below
	Progress

	row int64
}

// The reasons why a webhook is disabled.
const (
	WebhookRequested = "requested" // by an admin
	WebhookGone      = "gone"      // the endpoint answered 410 Gone
	WebhookFailing   = "failing"   // all attempts to send a record failed
)

// Progress is the position of a webhook in the two logs of its company.
type Progress struct {
	Next        int64     // first unsent record of the actions log
	NextControl int64     // the same of the control log
	Failed      int       // number of failed attempts to send the next message, of either log
	RetryAt     time.Time // time of the next attempt; zero after no failure
}

// MovedTo returns the progress with another position in one of the logs.
func (p Progress) MovedTo(name LogName, next int64) Progress {
	if name == Control {
		p.NextControl = next
	} else {
		p.Next = next
	}
	return p
}

// WebhookSecret is a secret of a webhook with its public parts.
type WebhookSecret struct {
	Bytes       []byte // stored sealed if the file's secrets are sealed
	Fingerprint string
	Public      ed25519.PublicKey
}

const webhookColumns = `id, webhook_id, url, agents, actions, description, created_at, public_key, fingerprint, disabled_at, disabled_reason,
	next_record, attempts, retry_at, next_control`

func scanWebhook(rows *sql.Rows) (h Webhook, err error) {
	var agents, actions, disabled, reason sql.NullString
	var public []byte
	var retry sql.NullInt64
	err = rows.Scan(&h.row, &h.ID, &h.URL, &agents, &actions, &h.Description, &h.CreatedAt, &public, &h.Fingerprint,
		&disabled, &reason,
		&h.Next, &h.Failed, &retry, &h.NextControl)
	h.PublicKey, h.DisabledAt, h.DisabledReason, h.RetryAt = public, disabled.String, reason.String, expiry(retry)
	for text, into := range map[*sql.NullString]*[]string{&agents: &h.Agents, &actions: &h.Actions} {
		if err == nil && text.Valid {
			err = json.Unmarshal([]byte(text.String), into)
		}
	}
	return h, err
}

// Create creates a webhook of the caller's company from the settings in h. It sends the records
// that follow. It returns ErrTooMany if the company has most webhooks.
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
		if err := w.one([]any{&h.NextControl}, `SELECT length FROM head WHERE chain = ?`, by.Company.Control.Chain); err != nil {
			return nil, err
		}
		_, err := w.exec(`INSERT INTO webhook (company, webhook_id, url, agents, actions, description, created_at, made_by, public_key, fingerprint, secret, next_record, next_control)
			VALUES (?, ?, ?, ?, ?, ?, ?, nullif(?, ''), ?, ?, ?, ?, ?)`,
			by.Company.Chain, h.ID, h.URL, agents, actions, h.Description, h.CreatedAt, by.Credential, []byte(h.PublicKey), h.Fingerprint, stored, h.Next, h.NextControl)
		details := map[string]any{"webhookId": h.ID, "urlHash": hashOrNil([]byte(h.URL)), "agents": h.Agents,
			"actions":     h.Actions,
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

// List yields the webhooks of the caller's company in the order of creation.
func (s Webhooks) List(ctx context.Context, by Caller) iter.Seq2[Webhook, error] {
	return list(ctx, s.db, "webhooks", scanWebhook, "SELECT "+webhookColumns+
		" FROM webhook WHERE company = ? AND id > ? ORDER BY id",
		func(last Webhook) []any { return []any{by.Company.Chain, last.row} })
}

// Get returns a webhook of the caller's company, or ErrNotFound.
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

// Delete deletes a webhook of the caller's company, or returns ErrNotFound.
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

// Disable stops a webhook of the caller's company for one of the reasons above. Disabling a
// disabled one changes nothing. It returns ErrNotFound for an unknown webhook.
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

// Enable resumes a webhook of the caller's company at the first unsent records, with its count of
// failed attempts reset. It returns ErrNotFound for an unknown webhook.
func (s Webhooks) Enable(ctx context.Context, by Caller, id string) (h Webhook, err error) {
	err = s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		if h, err = findWebhook(w, by.Company.Chain, id); err != nil || h.DisabledAt == "" {
			return nil, err
		}
		h.DisabledAt, h.DisabledReason, h.Failed, h.RetryAt = "", "", 0, time.Time{}
		_, err := w.exec(`UPDATE webhook SET disabled_at = NULL, disabled_reason = NULL, attempts = 0, retry_at = NULL
			WHERE id = ?`, h.row)
		return []controlEvent{{WebhookEnabled, subjectWebhook(id), map[string]any{"webhookId": id}}}, err
	})
	if err != nil {
		return Webhook{}, fmt.Errorf("enable webhook: %w", err)
	}
	return h, nil
}

// RotateSecret gives a webhook of the caller's company a new secret. The previous one also signs
// until a time; older ones do not. It returns ErrNotFound for an unknown webhook.
func (s Webhooks) RotateSecret(
	ctx context.Context, by Caller, id string, secret WebhookSecret, until time.Time,
) (h Webhook, err error) {
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

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
	"attestd/store/db"
)

// Webhooks are the endpoints to which records are sent, and how far each has come.
type Webhooks struct {
	db        *base
	keys      rowKeys
	companies companyCache
	view      *View
}

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
	// actions that it passes over, because their payloads were pruned while it was disabled
	Skipped int64
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
func (p Progress) MovedTo(name db.LogName, next int64) Progress {
	if name == db.Control {
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

// webhookOf returns the webhook of a row.
func webhookOf(r *macRow) (h Webhook, err error) {
	h = Webhook{ID: r.text("webhook_id"), URL: r.text("url"), CreatedAt: r.text("created_at"), PublicKey: r.bytes("public_key"),
		Fingerprint: r.text("fingerprint"), DisabledAt: r.text("disabled_at"), DisabledReason: r.text("disabled_reason"),
		Progress: Progress{Next: r.number("next_record"), NextControl: r.number("next_control"), Failed: int(r.number("attempts")),
			RetryAt: expiry(r.optional("retry_at"))}, row: r.number("id")}
	if !r.isNull("description") {
		text := r.text("description")
		h.Description = &text
	}
	for name, into := range map[string]*[]string{"agents": &h.Agents, "actions": &h.Actions} {
		if err == nil && !r.isNull(name) {
			err = json.Unmarshal([]byte(r.text(name)), into)
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
	stored, _ := s.db.Secrets().KeepWebhook(by.Company.Chain, h.ID, secret.Bytes, nil)
	err = s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		if err := checkCount(w, most, `SELECT count(*) FROM webhook WHERE company = ?`, by.Company.Chain); err != nil {
			return nil, err
		}
		if err := w.One([]any{&h.Next}, `SELECT length FROM head WHERE chain = ?`, by.Company.Actions.Chain); err != nil {
			return nil, err
		}
		if err := w.One([]any{&h.NextControl}, `SELECT length FROM head WHERE chain = ?`, by.Company.Control.Chain); err != nil {
			return nil, err
		}
		err := s.keys.sign(w, &webhookTable, `INSERT INTO webhook (company, webhook_id, url, agents, actions, description, created_at, made_by, public_key, fingerprint, secret, next_record, next_control)
			VALUES (?, ?, ?, ?, ?, ?, ?, nullif(?, ''), ?, ?, ?, ?, ?) RETURNING `+webhookTable.all(),
			by.Company.Chain, h.ID, h.URL, agents, actions, h.Description, h.CreatedAt, by.Credential, []byte(h.PublicKey), h.Fingerprint, stored, h.Next, h.NextControl)
		details := map[string]any{"webhookId": h.ID, "urlHash": hashOrNil([]byte(h.URL)), "agents": h.Agents,
			"actions":     h.Actions,
			"fingerprint": h.Fingerprint, "fromIndex": h.Next}
		return []controlEvent{{WebhookCreated, webhookTable.about(h.ID), details}}, err
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

// List yields the webhooks of the caller's company in the order of creation. A row that is not what
// its HMAC says is a *TablesChangedError.
func (s Webhooks) List(ctx context.Context, by Caller) iter.Seq2[Webhook, error] {
	return func(yield func(Webhook, error) bool) {
		rows := db.List(ctx, s.db.DB, "webhooks", webhookTable.scan, "SELECT "+webhookTable.all()+" FROM webhook WHERE company = ? AND id > ? ORDER BY id",
			func(last macRow) []any {
				if last.table == nil {
					return []any{by.Company.Chain, int64(0)}
				}
				return []any{by.Company.Chain, last.values[0]}
			})
		for r, err := range rows {
			var h Webhook
			if err == nil {
				err = s.db.Read(ctx, func(c *db.Conn) error {
					h, err = s.authentic(c, &r)
					return err
				})
			}
			if !yield(h, err) || err != nil {
				return
			}
		}
	}
}

// authentic returns the webhook of a row, if the row is what its HMAC says.
func (s Webhooks) authentic(c *db.Conn, r *macRow) (h Webhook, err error) {
	k, err := s.keys.rowKey(c)
	if err == nil {
		err = s.keys.authentic(c, &k, r)
	}
	if err == nil {
		h, err = webhookOf(r)
	}
	if err == nil {
		h.Skipped, err = skippedBy(c, r.number("company"), h.ID)
	}
	return h, err
}

// Get returns a webhook of the caller's company, or ErrNotFound. A row that is not what its HMAC
// says is a *TablesChangedError.
func (s Webhooks) Get(ctx context.Context, by Caller, id string) (h Webhook, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		h, _, err = s.find(r, by.Company.Chain, id)
		return err
	})
	if err != nil {
		return Webhook{}, fmt.Errorf("webhook: %w", err)
	}
	return h, nil
}

// find reads a webhook of a company and its row, which is what its HMAC says.
func (s Webhooks) find(c *db.Conn, company int64, id string) (h Webhook, r macRow, err error) {
	r, err = db.Row(c, webhookTable.scan, "SELECT "+webhookTable.all()+" FROM webhook WHERE company = ? AND webhook_id = ?", company, id)
	if err == nil {
		h, err = s.authentic(c, &r)
	}
	return h, r, err
}

// Delete deletes a webhook of the caller's company, or returns ErrNotFound.
func (s Webhooks) Delete(ctx context.Context, by Caller, id string) error {
	err := s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		n, err := w.Exec(`DELETE FROM webhook WHERE company = ? AND webhook_id = ?`, by.Company.Chain, id)
		if err == nil && n == 0 {
			err = db.ErrNotFound
		}
		return []controlEvent{{WebhookDeleted, webhookTable.about(id), map[string]any{"webhookId": id}}}, err
	})
	if err != nil {
		return fmt.Errorf("delete webhook: %w", err)
	}
	return nil
}

// Disable stops a webhook of the caller's company for one of the reasons above. Disabling a
// disabled one changes nothing. It returns ErrNotFound for an unknown webhook.
func (s Webhooks) Disable(ctx context.Context, by Caller, id, reason string) (h Webhook, err error) {
	err = s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		var row macRow
		if h, row, err = s.find(w, by.Company.Chain, id); err != nil || h.DisabledAt != "" {
			return nil, err
		}
		h.DisabledAt, h.DisabledReason = chain.FormatTime(by.At), reason
		err := s.keys.change(w, &row, "disabled_at = ?, disabled_reason = ?", h.DisabledAt, reason)
		return []controlEvent{{WebhookDisabled, webhookTable.about(id), map[string]any{"webhookId": id, "reason": reason}}}, err
	})
	if err != nil {
		return Webhook{}, fmt.Errorf("disable webhook: %w", err)
	}
	return h, nil
}

// Enable resumes a webhook of the caller's company at the first unsent records, with its count of
// failed attempts reset. It passes over actions whose payloads were pruned meanwhile, and returns
// how many; the control record says so too. It returns ErrNotFound for an unknown webhook.
func (s Webhooks) Enable(ctx context.Context, by Caller, id string) (h Webhook, skipped int64, err error) {
	pruned, err := s.view.PrunedRecords(ctx, by.Company.Actions.Chain)
	if err != nil {
		return h, 0, fmt.Errorf("enable webhook: %w", err)
	}
	// In one transaction with a prune, latestPruned would not see the record of that.
	s.db.pruning.Lock()
	defer s.db.pruning.Unlock()
	err = s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		var row macRow
		skipped = 0
		if h, row, err = s.find(w, by.Company.Chain, id); err != nil || h.DisabledAt == "" {
			return nil, err
		}
		latest, err := latestPruned(w, by.Company.Actions.Chain)
		if err != nil {
			return nil, err
		}
		if latest.Valid != (pruned.Records > 0) || latest.Valid && latest.Int64&db.IndexMask != pruned.Index {
			return nil, fmt.Errorf("%w: payloads were pruned meanwhile; try again", db.ErrUnavailable)
		}
		details := map[string]any{"webhookId": id}
		if skipped = max(0, pruned.Records-h.Next); skipped > 0 {
			details["skippedRecords"] = skipped
			h.Next += skipped
			h.Skipped += skipped
		}
		h.DisabledAt, h.DisabledReason, h.Failed, h.RetryAt = "", "", 0, time.Time{}
		err = s.keys.change(w, &row, "disabled_at = NULL, disabled_reason = NULL, attempts = 0, retry_at = NULL, next_record = ?", h.Next)
		return []controlEvent{{WebhookEnabled, webhookTable.about(id), details}}, err
	})
	if err != nil {
		return Webhook{}, 0, fmt.Errorf("enable webhook: %w", err)
	}
	return h, skipped, nil
}

// skippedBy returns how many records a webhook has passed over, as the control records say that
// have enabled it.
func skippedBy(c *db.Conn, company int64, id string) (skipped int64, err error) {
	control := db.Control.ChainID(company)
	err = c.Each(func(rows *sql.Rows) error {
		var payload []byte
		var said struct {
			ActionType ControlAction
			Payload    struct{ SkippedRecords int64 }
		}
		err := rows.Scan(&payload)
		if err == nil {
			err = json.Unmarshal(payload, &said)
		}
		if err == nil && said.ActionType == WebhookEnabled {
			skipped += said.Payload.SkippedRecords
		}
		return err
	}, `SELECT payload FROM record WHERE id < 0 AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.payload.subject') END = ?1
		AND id BETWEEN ?2 AND ?3 ORDER BY id`, webhookTable.about(id), db.RecordID(control, 0), db.RecordID(control, db.IndexMask))
	return skipped, err
}

// RotateSecret gives a webhook of the caller's company a new secret. The previous one also signs
// until a time; older ones do not. It returns ErrNotFound for an unknown webhook.
func (s Webhooks) RotateSecret(
	ctx context.Context, by Caller, id string, secret WebhookSecret, until time.Time,
) (h Webhook, err error) {
	company := by.Company.Chain
	err = s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		var row macRow
		if h, row, err = s.find(w, company, id); err != nil {
			return nil, err
		}
		current, _, err := s.db.Secrets().OpenWebhook(company, id, row.bytes("secret"), nil)
		if err != nil {
			return nil, err
		}
		details := map[string]any{"webhookId": id, "fingerprint": secret.Fingerprint, "previousFingerprint": h.Fingerprint}
		h.PublicKey, h.Fingerprint = secret.Public, secret.Fingerprint
		stored, former := s.db.Secrets().KeepWebhook(company, id, secret.Bytes, current)
		err = s.keys.change(w, &row, "secret = ?, public_key = ?, fingerprint = ?, former_secret = ?, former_until = ?",
			stored, []byte(secret.Public), secret.Fingerprint, former, until.UnixMilli())
		return []controlEvent{{WebhookRotated, webhookTable.about(id), details}}, err
	})
	if err != nil {
		return Webhook{}, fmt.Errorf("rotate the secret of a webhook: %w", err)
	}
	return h, nil
}

package jobs

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
	"attestd/store"
	"attestd/store/storetest"
)

// An external write into the file of a running server is detected within ten seconds, even without
// requests: a right, a webhook, what the database is, a name of a statement.
func TestExternalWriteIsDetectedWithinTenSeconds(t *testing.T) {
	t.Parallel()
	storetest.NotOnPostgres(t, "the clock of this test stands still while a server is asked")
	schema, err := os.ReadFile("../../schema.sql")
	check(t, err)
	for what, statement := range map[string]string{
		"an agent that nobody registered": `INSERT INTO agent (company, agent_id, registered_at) VALUES (1, 'forged', '2026-03-04T05:06:07.008Z')`,
		"a webhook's position":            `UPDATE webhook SET next_record = 7`,
		"a webhook that is gone":          `DELETE FROM webhook`,
		"another trust domain":            `UPDATE setting SET value = 'evil.example' WHERE name = 'trust_domain'`,
		"a quota that nobody has set":     `INSERT INTO company_quota (company, max_records) VALUES (1, 1000000)`,
		"a name of a statement":           `INSERT INTO idempotency_key (chain, name, request, idx, expires_at) VALUES (1, zeroblob(32), zeroblob(32), 0, 253402300799999)`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := storetest.New(t)
			synctest.Test(t, func(t *testing.T) {
				s, err := store.Open(t.Context(), path, string(schema), store.Options{})
				check(t, err)
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error, 2)
				go func() { ended <- s.Run(ctx, store.RunOptions{}) }()
				check(t, s.Settings.RecordStart(t.Context(), nil))
				company, _, err := s.Companies.Create(ctx, "acme", nil, time.Now())
				check(t, err)
				by := store.Caller{Company: company, Role: store.Admin, At: time.Now()}
				_, err = s.Webhooks.Create(ctx, by, store.Webhook{URL: "https://hooks.example"}, store.WebhookSecret{Bytes: make([]byte, 64), Public: make([]byte, 32)}, 1)
				check(t, err)
				payload := []byte(`{"actionType":"x","agentId":"bot","companyId":"acme","payload":1}`)
				_, err = s.Append(ctx, chain.Draft{Chain: company.Chain, Payload: payload, Canonical: payload})
				check(t, err)

				watch := &TableWatch{store: s, verify: chain.NewVerifier(s, 1).VerifyInBackground, log: slog.New(slog.DiscardHandler),
					reported: map[int64]string{}, interval: tablesScanEvery, once: true}
				watching, stop := context.WithCancel(ctx)
				go func() { watch.Run(watching); ended <- nil }()
				time.Sleep(time.Hour)
				if errs := s.Tables.Changed(); len(errs) > 0 {
					t.Errorf("before: %v", errs)
				}
				check(t, storetest.Stranger(t, path, statement).Close())
				time.Sleep(10 * time.Second)
				if len(s.Tables.Changed()) == 0 {
					t.Error("not noticed")
				}
				if err := s.Tables.Changeable(ctx, by); err == nil {
					t.Error("the company may be changed")
				}
				stop()
				<-ended
				cancel()
				check(t, <-ended)
				check(t, s.Close())
			})
		})
	}
}

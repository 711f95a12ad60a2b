package service

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/store"
)

// refusedRecords are the counts in the control log of a company.
func refusedRecords(t *testing.T, db *store.Store, company *store.Company) (counts []string) {
	t.Helper()
	fatal(t, db.Snapshot(t.Context(), func(v *store.View) error {
		return v.Records(t.Context(), company.Control.Chain, 0, 1000, func(r *chain.Record) error {
			var body struct {
				ActionType string
				Payload    struct {
					How, Minute string
					Count       int
				}
			}
			err := json.Unmarshal(r.Payload, &body)
			if p := body.Payload; body.ActionType == string(store.SignInRefused) {
				counts = append(counts, fmt.Sprint(p.How, " ", p.Minute, " ", p.Count))
			}
			return err
		})
	}))
	return counts
}

// However many sign-ins are refused, each kind has one record a minute, which is written after that
// minute, and what is pending is bounded.
func TestRefusalsAreCountedByMinute(t *testing.T) {
	t.Parallel()
	db, company := newCompany(t)
	var log strings.Builder
	r := &Refusals{Store: db, Log: slog.New(slog.NewTextHandler(&log, nil))}
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	count := func(how string, seconds int) {
		r.Count(t.Context(), company, "", how, begin.Add(time.Duration(seconds)*time.Second))
	}
	for i := range 1000 {
		count(store.RefusedToken, i%60)
	}
	r.Count(t.Context(), nil, company.ID, store.RefusedPasskey, begin)
	r.Count(t.Context(), nil, "nobody", store.RefusedPasskey, begin)
	count(store.RefusedToken, 61)
	r.Write(t.Context(), begin.Add(59*time.Second))
	if got := refusedRecords(t, db, company); got != nil {
		t.Fatalf("before the minute has passed: %v", got)
	}
	r.Write(t.Context(), begin.Add(time.Minute))
	want := []string{"passkey 2026-03-01T12:00:00.000Z 1", "token 2026-03-01T12:00:00.000Z 1000"}
	if got := refusedRecords(t, db, company); !slices.Equal(got, want) {
		t.Fatalf("after a minute: %v", got)
	}
	count(store.RefusedToken, 59) // a request that began before
	for range 3 {
		r.Write(t.Context(), begin.Add(2*time.Minute))
	}
	want = append(want, "token 2026-03-01T12:01:00.000Z 2")
	if got := refusedRecords(t, db, company); !slices.Equal(got, want) {
		t.Fatalf("after two minutes: %v", got)
	}
	for i := range maxRefusals + 5 {
		count(store.RefusedFederation, 120+60*i)
	}
	if len(r.pending) != maxRefusals {
		t.Errorf("%d counts are pending", len(r.pending))
	}
	r.Write(t.Context(), begin.Add(2*time.Minute))
	if !strings.Contains(log.String(), "refused=5") {
		t.Errorf("what was not counted is not logged: %q", log.String())
	}
}

package service

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/internal/testenv"
	"attestd/store"
)

// Evidence is complete while keys are rotated, and passports issued, as fast as can be: each file
// and each report is of one moment, and none is refused for what came between.
func TestEvidenceDuringRotations(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	db, company := newCompany(t)
	caller := func() store.Caller { return store.Caller{Company: company, At: time.Now()} }
	agents := &Agents{Store: db}
	attestations := &Attestations{Store: db, Agents: agents, Delegations: &Delegations{Store: db, Agents: agents}, Keys: &AgentKeys{Store: db}}
	_, err := db.Agents.Register(t.Context(), caller(), "bot", nil, store.AgentBounds{Most: 10})
	fatal(t, err)
	_, claims, err := company.Issuer.Passport("bot", []string{"tool:*"}, nil, "", time.Hour, time.Now())
	fatal(t, err)
	fatal(t, db.Passports.Record(t.Context(), caller(), store.Passport{JTI: claims.ID, AgentID: "bot", Scopes: claims.Scopes, IssuedAt: claims.IssuedAt, ExpiresAt: claims.ExpiresAt}))

	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var rotations atomic.Int64
	writers.Go(func() {
		for ; ctx.Err() == nil && rotations.Load() < 80; rotations.Add(1) {
			if _, err := attestations.Append(t.Context(), caller(), Attestation{AgentID: "bot", ActionType: "a", Payload: json.RawMessage(`1`)}); err != nil {
				t.Error(err)
			}
			if _, _, err := db.Companies.RotateKey(t.Context(), caller(), false); err != nil {
				t.Error(err)
			}
		}
	})
	defer writers.Wait()
	defer stop()

	proofs := &Evidence{Store: db, Checkpoints: NewCheckpoints(db)}
	trust := evidence.Trust{Fingerprint: company.Issuer.Public.Fingerprint}
	_, err = attestations.Append(t.Context(), caller(), Attestation{AgentID: "bot", ActionType: "a", Payload: json.RawMessage(`1`)})
	fatal(t, err)
	for range 8 {
		text, err := proofs.File(t.Context(), caller(), store.Actions, 0, claims.ID)
		fatal(t, err)
		if v := evidence.Check(text, trust); v.Outcome != evidence.Holds {
			t.Fatalf("evidence: %s %s", v.Code, v.Reason)
		}
		report, err := proofs.Report(t.Context(), caller(), "", "")
		fatal(t, err)
		lines := bytes.NewBuffer(append(report.Header(), '\n'))
		for _, i := range []int{1, 0} {
			l := company.Logs()[i]
			end, _, err := tlog.ParseSignedCheckpoint([]byte(report.Periods[i].End))
			fatal(t, err)
			fatal(t, db.Records(t.Context(), l.Chain, report.Periods[i].Frontier.Size, end.Size, func(r *chain.Record) error {
				lines.Write(append(evidence.AppendLine(nil, string(l.Name), r), '\n'))
				return nil
			}))
		}
		if v := evidence.CheckReport(lines, trust, func(*evidence.Report) {}, func(*evidence.Event) {}); v.Outcome != evidence.Holds {
			t.Fatalf("report: %s %s", v.Code, v.Reason)
		}
	}
	if rotations.Load() == 0 {
		t.Error("no key was rotated meanwhile")
	}
}

package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// What says that payloads were pruned is a record that the company has signed in its control log.
// One that was altered, is of another log or company, or about something else is an error, and
// never means that nothing was pruned.
func TestPrunedNeedsTheCompanysSignature(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	p := old(t, 10)
	at := p.begin(t, 5)
	must.OK(t, p.Close())
	id := fmt.Sprintf("(-1 << 40) + %d", at.Index)
	for what, damage := range map[string][]string{
		"signature": {"UPDATE record SET signature = (SELECT signature FROM record WHERE id = -1 << 40) WHERE id = " + id},
		"hash":      {"UPDATE record SET hash = (SELECT hash FROM record WHERE id = -1 << 40) WHERE id = " + id},
		"records":   {`UPDATE record SET payload = replace(payload, '"records":5', '"records":6') WHERE id = ` + id},
		"skeleton":  {`UPDATE record SET payload = replace(payload, '"skeleton":"', '"skeleton":"00') WHERE id = ` + id},
		"time":      {"UPDATE record SET timestamp = '2026-03-04T05:06:07.009Z' WHERE id = " + id},
		"beyond":    {fmt.Sprintf("UPDATE head SET length = %d WHERE chain = -1", at.Index)},
		"no head":   {"DELETE FROM head WHERE chain = -1"},
		"no JSON's": {`UPDATE record SET payload = '{"payload":{"subject":"payloads"}}' WHERE id = ` + id},
	} {
		path := storetest.Copy(t, p.path)
		must.OK(t, other(t, path, append([]string{"DROP TRIGGER head_no_delete"}, append(unguarded, damage...)...)...).Close())
		s := got(store.OpenReadOnly(ctx, path))(t)
		if found, err := s.Pruned(ctx, p.c.Chain); !errors.Is(err, chain.ErrUnproven) || found.Records != 0 {
			t.Errorf("%s: %v, %v", what, found, err)
		}
		var verdict store.ChainVerdict
		err := s.VerifyAll(ctx, "", 2, func(v store.ChainVerdict) {
			if v.Chain == p.c.Chain {
				verdict = v
			}
		}, nil)
		if err == nil || verdict.Valid {
			t.Errorf("%s: it verifies: %v", what, verdict)
		}
		must.OK(t, s.Close())
	}
	for what, change := range map[string]func(m map[string]any){
		"no log":          func(m map[string]any) { delete(m, "log") },
		"log of actions":  func(m map[string]any) { m["log"] = "actions" },
		"another company": func(m map[string]any) { m["companyId"] = "zoo" },
		"another action":  func(m map[string]any) { m["actionType"] = "payloads.kept" },
		"no records":      func(m map[string]any) { m["payload"].(map[string]any)["records"] = 0 },
		"text":            func(m map[string]any) { m["payload"].(map[string]any)["records"] = "5" },
		"negative":        func(m map[string]any) { m["payload"].(map[string]any)["bytes"] = -1 },
		"half a skeleton": func(m map[string]any) { m["payload"].(map[string]any)["skeleton"] = "00" },
		"no archive":      func(m map[string]any) { delete(m["payload"].(map[string]any), "archive") },
		"no root":         func(m map[string]any) { m["payload"].(map[string]any)["root"] = strings.Repeat("z", 64) },
	} {
		s := open(t, storetest.Copy(t, p.path))
		var text []byte
		must.OK(t, s.Records(ctx, p.c.Control.Chain, at.Index, at.Index+1, func(r *chain.Record) error {
			var m map[string]any
			err := json.Unmarshal(r.Payload, &m)
			change(m)
			text, _ = json.Marshal(m) // in the order of names, and so canonical
			return err
		}))
		// the company's key signs it, which the server never does
		got(s.Append(ctx, chain.Draft{Chain: p.c.Control.Chain, Payload: text, Canonical: text, Exempt: true}))(t)
		if found, err := s.Pruned(ctx, p.c.Chain); !errors.Is(err, chain.ErrUnproven) || found.Records != 0 {
			t.Errorf("%s: %v, %v", what, found, err)
		}
		must.OK(t, s.Close())
	}
	// a record about the same subject in the actions says nothing
	s := open(t, storetest.Copy(t, p.path))
	text := []byte(`{"actionType":"payloads.pruned","agentId":"bot","companyId":"acme","payload":{"records":9,"subject":"payloads"}}`)
	got(s.Append(ctx, chain.Draft{Chain: p.c.Chain, Payload: text, Canonical: text}))(t)
	if found := got(s.PrunedRecords(ctx, p.c.Chain))(t); found != at {
		t.Errorf("%+v, want %+v", found, at)
	}
}

// Where the control record is gone, a missing payload is a missing payload.
func TestPayloadWithoutControlRecordIsMissing(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	p := old(t, 10)
	p.prune(t, 5)
	at := got(p.PrunedRecords(ctx, p.c.Chain))(t)
	must.OK(t, p.Close())
	must.OK(t, other(t, p.path, append(unguarded, fmt.Sprintf("DELETE FROM record WHERE id = (-1 << 40) + %d", at.Index))...).Close())
	s := got(store.OpenReadOnly(ctx, p.path))(t)
	defer s.Close()
	failed := map[int64]string{}
	err := s.VerifyAll(ctx, "", 2, func(v store.ChainVerdict) {
		if !v.Valid {
			failed[v.Chain] = v.Reason
		}
	}, nil)
	if err == nil || !strings.Contains(failed[1], "payload is missing") || failed[-1] == "" {
		t.Errorf("%v: %v", err, failed)
	}
}

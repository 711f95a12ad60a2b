package spool_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/notary"
	"attestd/sdk/attestd/spool"
)

// A retry puts what was set apart back under its key, also in addition to what waits, and a second
// one finds nothing.
func TestRetryPutsBackWhatWasSetApart(t *testing.T) {
	t.Parallel()
	dir, there := t.TempDir(), newService()
	there.refuses = map[string]bool{"a1": true, "a2": true}
	s := there.open(t, dir)
	add(t, s, 0, 4)
	_ = s.Flush(t.Context()) // which sets two apart
	add(t, s, 4, 5)
	items, err := spool.Contents(dir)
	must.OK(t, err)
	if len(items) != 3 || items[0].Apart || !items[1].Apart || items[1].Status != 422 || items[1].RequestID != "r" || items[1].Action != "a1" {
		t.Fatalf("%+v", items)
	}
	text, err := json.Marshal(items)
	must.OK(t, err)
	refused, err := s.Refused()
	must.OK(t, err)
	var key struct{ IdempotencyKey string }
	must.OK(t, json.Unmarshal(refused[0].Attestation, &key))
	if key.IdempotencyKey == "" || strings.Contains(string(text), key.IdempotencyKey) {
		t.Errorf("the key %q is shown: %s", key.IdempotencyKey, text)
	}
	there.refuses = nil
	for _, want := range []int{1, 0} {
		back, left, err := spool.Retry(dir, func(i spool.Item) bool { return i.ID == items[1].ID })
		if err != nil || len(back) != want || len(left) > 0 {
			t.Errorf("%+v, %+v, %v", back, left, err)
		}
	}
	back, _, err := spool.Retry(dir, func(spool.Item) bool { return true })
	if err != nil || len(back) != 1 || back[0].Action != "a2" {
		t.Errorf("%+v, %v", back, err)
	}
	must.OK(t, s.Flush(t.Context()))
	if got := strings.Join(there.order, " "); got != "0 3 4 1 2" || there.known[key.IdempotencyKey] != 1 {
		t.Errorf("recorded %s", got)
	}
	if items, err := spool.Contents(dir); err != nil || len(items) > 0 {
		t.Errorf("%+v, %v", items, err)
	}
}

// What the disk or somebody else has made of the files of a folder is no reason to fail, nor to
// send it.
func FuzzContents(f *testing.F) {
	f.Add([]byte("x given {\"agentId\":\"a\",\"actionType\":\"b\",\"payload\":1,\"idempotencyKey\":\"k\"}"))
	f.Add([]byte("{}"))
	f.Add([]byte("00000000 {\"idempotencyKey\":\"k\"}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		files, lines := t.TempDir(), t.TempDir()
		must.OK(t, os.Mkdir(filepath.Join(files, "pending"), 0o700))
		must.OK(t, os.Mkdir(filepath.Join(files, "refused"), 0o700))
		must.OK(t, os.WriteFile(filepath.Join(files, "refused", "1"), text, 0o600))
		must.OK(t, os.WriteFile(filepath.Join(lines, "queue"), text, 0o600))
		must.OK(t, os.WriteFile(filepath.Join(lines, "refused"), text, 0o600))
		for _, dir := range []string{files, lines} {
			if _, err := spool.Contents(dir); err != nil {
				t.Error(err)
			}
			if _, _, err := spool.Retry(dir, func(spool.Item) bool { return true }); err != nil {
				t.Error(err)
			}
		}
	})
}

// A statement of a session that was refused has its place there for good: it is named, and stays.
func TestRetryLeavesSessions(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	session, _ := m.open("one")
	m.Refuse("a1", notary.Decision{Refuse: 403, Code: "WHY"})
	attest(t, session, attestation(0))
	isRefused(t, session, attestation(1))
	for range 2 {
		back, left, err := spool.Retry(m.dir, func(spool.Item) bool { return true })
		if err != nil || len(back) > 0 || len(left) != 1 || left[0].Session != "one" || left[0].Seq != 1 || left[0].Action != "a1" {
			t.Errorf("%+v, %+v, %v", back, left, err)
		}
	}
	attest(t, session, attestation(2))
	m.Is("one", "open at 2, 1 refused")
}

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/internal/must"
	"attestd/internal/rewrite"
	"attestd/store"
	"attestd/store/storetest"
)

// An operator who has the keys rewrites record 5, and all that depends on it: hashes, signatures,
// both trees, heads. Inside the file nothing shows that. The head file detects it, and so do an
// auditor with an old checkpoint, one with an old evidence file, and the witness.
func TestRewrittenHistoryIsDetected(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	folder := t.TempDir()
	db, policy := filepath.Join(folder, "attestd.db"), filepath.Join(folder, "policy")
	inClear := []string{"--master-key-file", ""} // the rewriting has the keys in any case
	s := serve(t, db, inClear...)
	acme := s.register(t, "acme")
	log, fingerprint := acme.logAndKey(t)
	must.OK(t, os.WriteFile(policy, []byte("log "+log.VKeys[0]+"\n"), 0o600))
	must.OK(t, s.interrupt())

	w := serve(t, filepath.Join(t.TempDir(), "witness.db"), "--cosign-for", policy)
	var of struct{ VKey string }
	w.client(t, "").call(t, 200, "GET", "/v1/witness", "", &of)
	asking := append(inClear, "--witness", w.URL+"/v1/witness="+of.VKey)
	s = serve(t, db, asking...)
	acme = acme.at(s)
	for i := range 10 {
		acme.call(t, 201, "POST", "/v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"pay","payload":{"amount":%d}}`, i), nil)
	}
	vkey, err := tlog.ParseVKey(log.VKeys[0])
	must.OK(t, err)
	acme.call(t, 200, "GET", "/v1/log/"+log.LogID+"/proof/9", "", nil)
	var stored []byte // by an auditor
	await(t, "the witness cosigns 10 records", func() bool {
		stored = acme.call(t, 200, "GET", "/v1/log/"+log.LogID+"/checkpoint", "", nil)
		return strings.Contains(string(stored), "\n10\n") && strings.Contains(string(stored), "\n— "+strings.Split(of.VKey, "+")[0]+" ")
	})
	checkpoint, _, err := tlog.OpenCheckpoint(stored, vkey)
	must.OK(t, err)
	evidence := filepath.Join(folder, "evidence.json")
	must.OK(t, os.WriteFile(evidence, acme.call(t, 200, "GET", "/v1/evidence/3", "", nil), 0o600))
	report := filepath.Join(folder, "report.jsonl")
	must.OK(t, os.WriteFile(report, acme.call(t, 200, "GET", "/v1/report", "", nil), 0o600))
	// newer is what an auditor fetches of the present log, and checkedAgainst is the output of
	// attestd check on the old evidence, compared with newer.
	newer := func() (witness.Request, string) {
		answer := acme.call(t, 200, "GET", fmt.Sprintf("/v1/log/%s/consistency?from=%d", log.LogID, checkpoint.Size), "", nil)
		update, err := witness.ParseRequest(answer)
		must.OK(t, err)
		path := filepath.Join(folder, "newer.txt")
		must.OK(t, os.WriteFile(path, answer, 0o600))
		return update, path
	}
	follows := func(u witness.Request) bool {
		today, _, err := tlog.OpenCheckpoint(u.Checkpoint, vkey)
		must.OK(t, err)
		return tlog.CheckConsistency(u.Proof, checkpoint.Tree, today.Tree) == nil
	}
	acme.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"pay","payload":10}`, nil)
	update, path := newer()
	if !follows(update) {
		t.Error("an honest log does not follow from the checkpoint that was kept")
	}
	for _, file := range []string{evidence, report} {
		if _, err := attestd(t, "check", file, "--key", fingerprint, "--newer", path); err != nil {
			t.Errorf("%s beside an honest log: %v", filepath.Base(file), err)
		}
	}
	must.OK(t, s.interrupt())

	schema, err := os.ReadFile("../schema.sql")
	must.OK(t, err)
	n, err := rewrite.Record(t.Context(), db, string(schema), store.Options{}, "acme", store.Actions, 5, func(payload []byte) []byte {
		return []byte(strings.Replace(string(payload), `"amount":5`, `"amount":5000`, 1))
	})
	if err != nil || n != 11 {
		t.Fatalf("%d records, %v", n, err)
	}
	verifyAcme(t, db) // inside the file nothing shows it

	s = serve(t, db, inClear...)
	acme = acme.at(s)
	status, answer, err := acme.send("POST", "/v1/attest", `{"agentId":"bot","actionType":"pay","payload":11}`)
	must.OK(t, err)
	var refused struct{ Code string }
	if must.OK(t, json.Unmarshal(answer, &refused)); status != 503 || refused.Code != "ROLLED_BACK" {
		t.Errorf("beside its head file: %d %s", status, answer)
	}
	must.OK(t, s.interrupt())
	must.OK(t, os.Remove(store.HeadsBeside(db))) // the operator's too

	s = serve(t, db, inClear...)
	acme = acme.at(s)
	acme.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"pay","payload":11}`, nil)
	update, path = newer()
	if follows(update) {
		t.Error("the auditor's checkpoint and today's are of one history")
	}
	for _, file := range []string{evidence, report} {
		if _, err := attestd(t, "check", file, "--key", fingerprint); err != nil {
			t.Errorf("%s alone: %v", filepath.Base(file), err)
		}
		if _, err := attestd(t, "check", file, "--key", fingerprint, "--newer", path); err == nil || !strings.Contains(err.Error(), "exit status 4") || !strings.Contains(err.Error(), "NEWER") {
			t.Errorf("%s beside the log of today: %v", filepath.Base(file), err)
		}
	}
	must.OK(t, s.interrupt())

	s = serve(t, db, asking...)
	acme = acme.at(s)
	await(t, "the witness proves it", func() bool {
		status, answer, err := acme.send("POST", "/v1/attest", `{"agentId":"bot","actionType":"pay","payload":12}`)
		must.OK(t, err)
		return status == 503 && strings.Contains(string(answer), "was signed by a witness at size ") && strings.Contains(string(answer), "ROLLED_BACK")
	})
}

// logAndKey are the log of the company's actions and the fingerprint of its key.
func (c *client) logAndKey(t *testing.T) (log struct {
	LogID, Origin string
	VKeys         []string
}, fingerprint string) {
	t.Helper()
	var logs struct{ Logs []json.RawMessage }
	c.call(t, 200, "GET", "/v1/logs", "", &logs)
	must.OK(t, json.Unmarshal(logs.Logs[0], &log))
	var key struct{ Fingerprint string }
	c.call(t, 200, "GET", "/v1/ca/public-key?companyId=acme", "", &key)
	return log, key.Fingerprint
}

// await asks until something is so that comes by itself soon.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

package cmd

import (
	"bytes"
	"encoding/json"
	"testing"

	"attestd/service/decide"
)

// A file with records is the caller's word: whatever it holds is read or refused, and what is read
// is a part of it that can be decided or is refused.
func FuzzFileRecords(f *testing.F) {
	const record = `{"index":3,"timestamp":"2026-03-02T09:00:00.000Z","payload":{"actionType":"tool.requested","agentId":"bot",` +
		`"companyId":"acme","payload":{"tool":"Bash","input":{"command":"ls"}}},"hash":"00","signature":"00"}`
	for _, text := range []string{
		record, record + "\n" + record + "\n", `{"format":"attestd-lines/v1","record":` + record + "}", `<13>1 - {"record":` + record + "}",
		`{"class_uid":6003,"unmapped":{"attestd":{"record":` + record + "}}}", `{"unmapped":{}}`, `{"format":"attestd-session/v1"}`,
		`{"index":1,"timestamp":"","payload":null}`, "{", "permit (principal, action, resource);", `{"unmapped":{"attestd":{"unmapped":{"attestd":{}}}}}`,
	} {
		f.Add([]byte(text))
	}
	set, err := decide.Compile([]decide.Policy{{ID: "all", Text: "permit (principal, action, resource);"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = eachOfLines(bytes.NewReader(text), func(r fileRecord) error {
			if !json.Valid(r.payload) || !bytes.Contains(text, r.payload) {
				t.Fatalf("the payload %q is no JSON of the file", r.payload)
			}
			past, err := decide.ReadPast(r.timestamp, r.payload)
			if err != nil || past == nil {
				return err
			}
			if past.AgentID == "" {
				t.Fatalf("the agent of %q has no ID", r.payload)
			}
			_, _ = set.Again(past, nil)
			return nil
		})
	})
}

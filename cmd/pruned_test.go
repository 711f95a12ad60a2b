package cmd

import (
	"encoding/json"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/sdk/attestd"
	"attestd/store"
)

// The verdict of attestd verify says how many of the records that it verified have no payload.
func TestVerdictCountsPrunedRecords(t *testing.T) {
	t.Parallel()
	v := store.ChainVerdict{Verdict: chain.Verdict{Valid: true, Length: 5, Pruned: 3}, Company: "acme"}
	var text, line strings.Builder
	printVerdict(&text, v)
	if !strings.Contains(text.String(), "valid, 5 records, of which 3 have no payload") {
		t.Error(text.String())
	}
	printVerdictJSON(&line, v, "")
	var verdict struct{ Records, Pruned int64 }
	if err := json.Unmarshal([]byte(line.String()), &verdict); err != nil || verdict.Records != 5 || verdict.Pruned != 3 {
		t.Error(line.String(), err)
	}
	v.Pruned = 0
	text.Reset()
	if printVerdict(&text, v); strings.Contains(text.String(), "payload") {
		t.Error(text.String())
	}
}

// An export learns that the payload is missing, and does not take null for one.
func TestExportSourceKnowsPrunedRecords(t *testing.T) {
	t.Parallel()
	sent := chain.Record{Index: 7, Timestamp: "2026-03-02T09:05:04.218Z", Hash: chain.Hash{1}}
	var answered attestd.Record
	if err := json.Unmarshal(sent.AppendJSON(nil), &answered); err != nil {
		t.Fatal(err)
	}
	r, err := storedRecord(&answered)
	if err != nil || !r.IsPruned() || r.Index != 7 || r.Hash != sent.Hash || r.Timestamp != sent.Timestamp {
		t.Errorf("%+v, %v", r, err)
	}
}

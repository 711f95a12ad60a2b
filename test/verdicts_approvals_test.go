package test

import (
	"testing"

	"attestd/chain/evidence/evidencetest"
	"attestd/internal/testenv"
)

// All checkers come to one verdict on what people approved, genuine and forged by an operator with
// every key of the company: with the passkeys of the people pinned, and without.
func TestApprovalCheckersAgree(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	var cases []evidenceCase
	for _, c := range evidencetest.ApprovalCases(t) {
		pinned := evidenceCase{Name: c.Name + ", pinned", File: c.File, Key: sampleKey, Approvers: c.Approvers, Says: c.Says}
		cases = append(cases, pinned, evidenceCase{Name: c.Name + ", not pinned", File: c.File, Key: sampleKey})
	}
	want := make([]string, len(cases))
	for i, c := range cases {
		want[i] = c.verdict()
	}
	checkersAgree(t, cases, want)
}

package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/service/decide"
)

// Evidence of what an approval allowed shows who gave it, to whoever knows their passkeys: each use
// of one, by two people, with what was said of them and their passkeys then and later.
func TestEvidenceOfApproval(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := asksFor(t, s, "acme")
	acme.do(t, "PUT /v1/policies/transfers", policyBody(t, strings.Replace(askPolicy, "permit (principal, action, resource ==", "@quorum(\"2\")\npermit (principal, action, resource ==", 1))).status(200)
	alice, bob, carol := acme.approver(t, "alice"), acme.approver(t, "bob"), acme.approver(t, "carol")
	acme.attempts(t, "bot", "other/tool", `{}`).wants("allow")
	id := acme.attempts(t, "bot", "bank/transfer", transfer).wants("ask")
	until := []any{"uses", 3, "until", chain.FormatTime(time.Now().Add(time.Hour)), "reason", "invoice 7"}
	alice.decides(t, id, "approve", until...).status(200)
	acme.attempts(t, "bot", "bank/transfer", transfer).wants("ask")
	bob.decides(t, id, "approve", until...).status(200)
	uses := make([]string, 3)
	for i := range uses {
		used := acme.attempts(t, "bot", "bank/transfer", transfer)
		if used.wants("allow") != id {
			t.Fatal("it was allowed without the approval")
		}
		uses[i] = fmt.Sprint(used.at("index"))
	}
	acme.attempts(t, "bot", "bank/transfer", transfer).wants("ask")
	acme.do(t, "PATCH /v1/people/alice", `{"disabled":true}`).status(200) // after the last use
	keys := []string{alice.Key(t).Fingerprint(), bob.Key(t).Fingerprint()}
	for _, index := range uses {
		text := acme.evidence(t, index).raw
		trust := evidence.Trust{Fingerprint: acme.fingerprint(t), Decider: new(decide.Decider), Approvers: evidence.NewApprovers(keys...)}
		v := evidence.Check(text, trust)
		said := strings.Join(v.Checked, "\n")
		if v.Outcome != evidence.Holds || v.Approvals == nil || *v.Approvals != (evidence.ApprovalCounts{Recorded: 1, Shown: 1, Pinned: 1}) || v.Decisions.Again != 1 {
			t.Errorf("record %s: %+v %+v", index, v, v.Approvals)
		}
		for _, says := range []string{"approved: by alice's passkey " + keys[0] + ", which you named; by bob's passkey " + keys[1], `; reason: "invoice 7"`, "for 3 uses until"} {
			if !strings.Contains(said, says) {
				t.Errorf("record %s does not say %q: %s", index, says, said)
			}
		}
		for _, pins := range [][]string{keys[:1], {carol.Key(t).Fingerprint()}} {
			trust.Approvers = evidence.NewApprovers(pins...)
			if v := evidence.Check(text, trust); v.Code != evidence.BadApproval {
				t.Errorf("record %s, other keys pinned: %+v", index, v)
			}
		}
	}
	if text := string(acme.evidence(t, "0").raw); strings.Contains(text, `"approvals"`) {
		t.Error("a record without an approval has some in its file")
	}
}

// What was asked for by itself, and used without any policy, is shown too.

func TestEvidenceOfRequestedApproval(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	alice := acme.approver(t, "alice")
	id := acme.do(t, "POST /v1/approvals", `{"agentId":"bot","tool":"bank/transfer","arguments":`+transfer+`,"reason":"please"}`).status(201).str("approvalId")
	alice.decides(t, id, "approve").status(200)
	used := acme.attempts(t, "bot", "bank/transfer", transfer)
	if used.wants("allow") != id {
		t.Fatal("it was allowed without the approval")
	}
	text := acme.evidence(t, fmt.Sprint(used.at("index"))).raw
	v := evidence.Check(text, evidence.Trust{Fingerprint: acme.fingerprint(t), Approvers: evidence.NewApprovers(alice.Key(t).Fingerprint())})
	if v.Outcome != evidence.Holds || v.Approvals == nil || v.Approvals.Pinned != 1 {
		t.Errorf("%+v", v)
	}
}

package evidence_test

import (
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/chain/evidence/evidencetest"
)

// Who has every key of the company makes no approval of a person whose passkey the auditor knows.
// Without that knowledge he can enrol a passkey of his own for anybody, and the verdict says whose
// word it is.
func TestForgedApprovals(t *testing.T) {
	t.Parallel()
	cases, forged := evidencetest.ApprovalCases(t), 0
	for _, c := range cases {
		v := evidence.Check(c.File, evidence.Trust{Fingerprint: fingerprint(0), Approvers: evidence.NewApprovers(c.Approvers...)})
		if (v.Outcome == evidence.Holds) != c.Holds || !c.Holds && v.Code != evidence.BadApproval {
			t.Errorf("%s, pinned: %s %s %s", c.Name, v.Outcome, v.Code, v.Reason)
		}
		checked := strings.Join(v.Checked, "\n")
		for _, says := range c.Says {
			if !strings.Contains(checked, says) {
				t.Errorf("%s does not say %q: %s", c.Name, says, checked)
			}
		}
		if !c.Holds {
			forged++
		} else if v.Approvals == nil || v.Approvals.Pinned != 1 || !strings.Contains(checked, "which you named") {
			t.Errorf("%s: %+v", c.Name, v.Approvals)
		}
		v = evidence.Check(c.File, evidence.Trust{Fingerprint: fingerprint(0)})
		if (v.Outcome == evidence.Holds) != c.HoldsUnpinned || !c.HoldsUnpinned && v.Code != evidence.BadApproval {
			t.Errorf("%s: %s %s %s", c.Name, v.Outcome, v.Code, v.Reason)
		}
		if c.HoldsUnpinned && v.Approvals != nil && (strings.Contains(strings.Join(v.Checked, "\n"), "'s passkey SHA256") || v.Approvals.Pinned != 0) {
			t.Errorf("%s: it names a person whose key is not known: %q", c.Name, v.Checked)
		}
		wrong := evidence.Check(c.File, evidence.Trust{Fingerprint: fingerprint(0), Approvers: evidence.NewApprovers("SHA256:" + strings.Repeat("A", 43))})
		if wrong.Code != evidence.BadApproval {
			t.Errorf("%s, another key pinned: %+v", c.Name, wrong)
		}
	}
	if t.Logf("%d forgeries in %d files", forged, len(cases)); forged < 300 {
		t.Errorf("there are %d forgeries", forged)
	}
}

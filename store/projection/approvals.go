package projection

// TableApproval is the table as differences name it. Its rows have an HMAC too, since a request for
// an approval is a record of the actions and not of the control log. The rows go some time after
// their end, so none that is missing is a difference.
const TableApproval = "approval"

// SubjectApproval begins the subject of control records about an approval, before its ID.
const SubjectApproval = "approval:"

// Approval is what control records say of an approval.
type Approval struct {
	State     string `json:"state"`
	Remaining int64  `json:"remaining"` // uses; 0 before it is approved, and after its end
	Until     string `json:"until"`     // "" before somebody has approved it
}

// The states of an approval as rows have them.
const (
	ApprovalPending   = "pending"
	ApprovalApproved  = "approved"
	ApprovalDenied    = "denied"
	ApprovalUsed      = "used"
	ApprovalWithdrawn = "withdrawn"
)

// Approval compares an approval with the newest control record about it. Without one nobody has
// decided it.
func (l *Latest) Approval(approvalID string, has Approval) *Difference {
	if l == nil {
		return differs(TableApproval, approvalID, has, Entry[Approval]{Approval{State: ApprovalPending}, -1})
	}
	return against(l, TableApproval, approvalID, has, func(d *details) (want Approval, gone bool, err error) {
		want = Approval{Until: has.Until}
		switch l.ActionType {
		case "approval.granted":
			want.State, want.Remaining, want.Until = d.State, d.Remaining, d.Until
		case "approval.denied":
			want.State = ApprovalDenied
		case "approval.withdrawn":
			want.State = ApprovalWithdrawn
		case "approval.used":
			if want.State, want.Remaining = ApprovalApproved, d.Remaining; d.Remaining == 0 {
				want.State = ApprovalUsed
			}
		default:
			gone = true
		}
		return want, gone, nil
	})
}

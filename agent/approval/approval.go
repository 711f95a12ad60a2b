// Package approval has a call wait for the approval that its decision asks for.
package approval

import (
	"context"
	"time"

	"attestd/chain/action/hookevent"
	"attestd/chain/decision"
	"attestd/sdk/attestd"
)

// DefaultWait is for how long a call waits, unless its user says otherwise.
const DefaultWait = 5 * time.Minute

// Waiter waits until an approval is decided. *attestd.Client implements it.
type Waiter interface {
	AwaitApproval(ctx context.Context, id string) (attestd.Approval, error)
}

// Await returns why a call is refused whose recorded request has been decided so; "" where it is
// allowed. One that needs an approval waits until ctx ends. Then attest records the request once
// more, under an idempotency key that depends on the approval, and returns the decision of that.
// Without a decision that allows the call it is refused, whatever has failed.
func Await(
	ctx context.Context, w Waiter, made *decision.Decision, attest func(approvalID string) (*decision.Decision, error),
) (refused string) {
	for made != nil && made.Verdict == decision.Ask && made.Approval != "" && ctx.Err() == nil {
		a, err := w.AwaitApproval(ctx, made.Approval)
		switch {
		case a.State == "":
			return "attestd: the approval " + made.Approval + " could not be asked for, so this call is refused: " + err.Error()
		case a.State != attestd.ApprovalApproved && a.State != attestd.ApprovalUsed:
			return hookevent.Unapproved(made.Approval, a.State, a.Reason)
		}
		// One that another attempt has used up leads to a new one.
		if made, err = attest(made.Approval); err != nil {
			return "attestd: this call could not be recorded with its approval, so it is refused: " + err.Error()
		}
		if made == nil {
			return "attestd: the server has not decided this call, so it is refused"
		}
	}
	return hookevent.Refused(made)
}

package attestd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attestd/internal/sleep"
)

// maxApprovalWait is how long the service holds the answer about a pending approval.
const maxApprovalWait = 55 * time.Second

// Delays between questions about an approval that had no answer, or one before its time.
const (
	minApprovalPause = time.Second
	maxApprovalPause = 8 * time.Second
)

// AwaitApproval returns an approval when it is no longer pending. While the service cannot be
// reached, it goes on to ask. When ctx ends first, the error is that of ctx or of the last attempt,
// and the approval is as it was last read.
func (c *Client) AwaitApproval(ctx context.Context, id string) (last Approval, err error) {
	pause := minApprovalPause
	for {
		wait := maxApprovalWait
		if deadline, ok := ctx.Deadline(); ok {
			wait = max(0, min(wait, time.Until(deadline)-time.Second)) // the answer is there before
		}
		began := time.Now()
		a, failed := c.Approval(ctx, id, wait)
		switch {
		case failed == nil && a.State != ApprovalPending:
			return a, nil
		case failed == nil:
			last, err, pause = a, nil, minApprovalPause
			if time.Since(began) >= minApprovalPause { // the answer was held
				pause = 0
			}
		case ctx.Err() == nil && retryable(failed, true):
			err = failed
		default:
			return last, errors.Join(err, failed)
		}
		var answer *Error
		if errors.As(failed, &answer) {
			pause = max(pause, answer.RetryAfter)
		}
		if ended := sleep.For(ctx, pause); ended != nil {
			return last, errors.Join(err, ended)
		}
		pause = min(max(2*pause, minApprovalPause), maxApprovalPause)
	}
}

// NotApprovedError reports that a call must not be made.
type NotApprovedError struct{ Approval Approval }

func (e *NotApprovedError) Error() string {
	text := fmt.Sprintf("the approval %s is %s", e.Approval.ID, e.Approval.State)
	if e.Approval.Reason != "" {
		text += ": " + e.Approval.Reason
	}
	return text
}

// Ask asks people to approve a call, and waits for their decision, at most until the request
// expires or ctx ends. Without an error a person has approved it: the record of the call, made next
// with Decide, uses the approval. It is a *NotApprovedError where the call must not be made, also
// where ctx has ended; the same Ask again finds the approval.
func (c *Client) Ask(ctx context.Context, n NewApproval) (Approval, error) {
	asked, err := c.RequestApproval(ctx, n)
	if err != nil {
		return asked, err
	}
	a := asked
	if asked.State == ApprovalPending {
		if a, err = c.AwaitApproval(ctx, asked.ID); a.ID == "" {
			a = asked
		}
	}
	if a.State != ApprovalApproved {
		return a, errors.Join(&NotApprovedError{a}, err)
	}
	return a, nil
}

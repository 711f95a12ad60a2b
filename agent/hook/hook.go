// Package hook answers the command hooks of coding agents. It attests the reported events and
// refuses calls that are not allowed.
package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"attestd/agent/hookevent"
	"attestd/agent/toolcall"
	"attestd/crypto/cred"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// Hook configures the processing of events.
type Hook struct {
	Source     hookevent.Source
	Agent      string // the agent of the records
	Policy     toolcall.Policy
	Passport   bool // allow a call only if a valid passport of the agent covers the tool
	FailClosed bool // allow a call only after attestd has recorded the request
	Client     *attestd.Client
	Spool      *spool.Spool // for events that cannot be sent now
}

// Answer is the answer to the agent.
type Answer struct {
	Output []byte // JSON
	Denied string // why the call is refused; "" if it is not
}

// Answer attests one event. The answer is valid even with an error: an event that could be neither
// recorded nor spooled does not stop an agent unless its owner has configured that.
func (h *Hook) Answer(ctx context.Context, body []byte) (Answer, error) {
	report, err := h.Source.Parse(body)
	if err != nil {
		return h.Unrecorded(body, fmt.Errorf("the event cannot be read: %w", err))
	}
	switch {
	case len(report.Events) == 0:
		return h.proceed(), nil
	case report.Asks:
		return h.ask(ctx, report.Events[0])
	case report.Late:
		err = h.complete(ctx, report.Events)
	default:
		err = h.record(ctx, h.attestation(report.Events[0]))
	}
	// Now the agent does not wait for permission, so there is time to send spooled events.
	if err == nil && h.Spool.Pending() > 0 {
		err = h.flush(ctx)
	}
	return h.proceed(), err
}

// Unrecorded answers an event that can be neither recorded nor spooled. It refuses calls that must
// be recorded.
func (h *Hook) Unrecorded(body []byte, why error) (Answer, error) {
	report, unread := h.Source.Parse(body)
	if (h.FailClosed || h.Passport) && (report.Asks || unread != nil) {
		reason := "attestd: this call must be recorded and cannot be, so it is refused: " + why.Error()
		return Answer{h.Source.Deny(reason), reason}, nil
	}
	return h.proceed(), why
}

func (h *Hook) proceed() Answer { return Answer{Output: []byte(hookevent.Proceed)} }

// ask answers an agent that waits for permission to call a tool.
func (h *Hook) ask(ctx context.Context, e toolcall.Event) (Answer, error) {
	asked := h.attestation(e)
	if h.Passport {
		covered, err := h.covered(ctx, e.Tool)
		if err != nil {
			return h.deny(ctx, h.enqueue, asked, e,
				"attestd: this call needs a passport, and the check for one failed, so it is refused: "+err.Error())
		}
		if !covered {
			return h.deny(ctx, h.record, asked, e, hookevent.NoPassport(h.Agent, e.Tool))
		}
	}
	if !h.FailClosed {
		return h.proceed(), h.record(ctx, asked)
	}
	if err := h.attest(ctx, asked); err != nil {
		return h.deny(ctx, h.enqueue, asked, e, "attestd: this call could not be recorded, so it is refused: "+err.Error())
	}
	return h.proceed(), nil
}

// deny refuses a call. It gives the request and the refusal to record.
func (h *Hook) deny(
	ctx context.Context, record func(context.Context, attestd.Attestation) error,
	asked attestd.Attestation, e toolcall.Event, reason string,
) (Answer, error) {
	err := errors.Join(record(ctx, asked), record(ctx, h.attestation(hookevent.Denied(e, reason))))
	return Answer{h.Source.Deny(reason), reason}, err
}

// covered reports whether a valid passport of the agent covers the tool.
func (h *Hook) covered(ctx context.Context, tool string) (bool, error) {
	// A passport is valid for a day at most, and the newest come first. The extra hour allows for
	// clock skew.
	oldest := time.Now().Add(-25 * time.Hour).UTC().Format(time.RFC3339)
	for p, err := range h.Client.Passports(ctx, attestd.PassportFilter{AgentID: h.Agent, Status: "valid"}) {
		if err != nil || p.IssuedAt < oldest {
			return false, err
		}
		if p.AgentID != h.Agent || p.Status != "valid" || tool == "" {
			continue
		}
		if _, err := (cred.PassportClaims{Scopes: p.Scopes}).Grant(&tool); err == nil {
			return true, nil
		}
	}
	return false, nil
}

// record attests an event, or spools it if attestd is unreachable.
func (h *Hook) record(ctx context.Context, a attestd.Attestation) error {
	err := h.attest(ctx, a)
	if err == nil {
		return nil
	}
	if spoolErr := h.enqueue(ctx, a); spoolErr != nil {
		return errors.Join(err, spoolErr)
	}
	if isRefusal(err) { // it may need another credential, so report the error
		return err
	}
	return nil
}

// enqueue spools an event. It ignores the end of ctx, which may be why there was no response.
func (h *Hook) enqueue(ctx context.Context, a attestd.Attestation) error {
	return h.Spool.Add(context.WithoutCancel(ctx), a)
}

// flush sends the spooled events.
func (h *Hook) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	var refused *spool.RefusedError
	if err := h.Spool.Flush(ctx); errors.As(err, &refused) {
		return err
	}
	return nil // unsent events stay in the spool
}

// flushTime is the longest delay of an agent's turn by sending spooled events.
const flushTime = time.Second

// complete attests the events of a late report. It is the only report of denials and of calls that
// failed before a hook ran; other calls have been reported by events of their own.
func (h *Hook) complete(ctx context.Context, events []toolcall.Event) (err error) {
	for i := 0; i+1 < len(events); i += 2 {
		// The call's own event is usually recorded or in the spool, so an error does not matter.
		if events[i+1].Kind == toolcall.Ended {
			_, _ = h.Client.Attest(ctx, h.attestation(events[i+1]))
			continue
		}
		for _, e := range events[i : i+2] {
			a := h.attestation(e)
			if _, answer := h.Client.Attest(ctx, a); answer != nil && !errors.Is(answer, &attestd.Error{Code: attestd.KeyReused}) {
				err = errors.Join(err, h.record(ctx, a))
			}
		}
	}
	return err
}

// attest sends an event. An event with a reused call ID gets its own record, so that reuse hides
// nothing.
func (h *Hook) attest(ctx context.Context, a attestd.Attestation) error {
	_, err := h.Client.Attest(ctx, a)
	if errors.Is(err, &attestd.Error{Code: attestd.KeyReused}) {
		a.IdempotencyKey = toolcall.Record{Key: a.IdempotencyKey, Payload: a.Payload.(json.RawMessage)}.OtherKey()
		_, err = h.Client.AttestDerived(ctx, a)
	}
	return err
}

// attestation returns the attestation of an event. Its key is the same for every attempt, also in
// another process.
func (h *Hook) attestation(e toolcall.Event) attestd.Attestation {
	r := h.Policy.Record(h.Agent, e)
	if r.Key == "" {
		r.Key = attestd.NewIdempotencyKey()
	}
	return attestd.Attestation{AgentID: h.Agent, ActionType: r.ActionType, Payload: r.Payload, IdempotencyKey: r.Key}
}

// isRefusal reports whether attestd has refused a request permanently.
func isRefusal(err error) bool {
	var answer *attestd.Error
	return errors.As(err, &answer) && answer.Status >= 400 && answer.Status < 500 &&
		answer.Status != http.StatusTooManyRequests && answer.Status != http.StatusRequestTimeout
}

// Package hook answers the command hooks of coding agents: it attests what an agent reports, and
// refuses what it may not do.
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

// Hook says what becomes of an event.
type Hook struct {
	Source   hookevent.Source
	Agent    string // in whose name it is attested
	Policy   toolcall.Policy
	Passport bool // a tool is called only while a valid passport of the agent covers it
	Closed   bool // a tool is called only once attestd has recorded that it was asked for
	Client   *attestd.Client
	Spool    *spool.Spool // for what attestd cannot be given now
}

// Answer is what the agent is given.
type Answer struct {
	Output []byte // JSON
	Denied string // why the call is refused; "" for one that goes on
}

// Answer attests one event. With an error the answer still stands: an event that could be neither
// recorded nor kept is no reason to stop an agent whose owner has not asked for that.
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
	// The agent waits for nothing but its next turn now.
	if err == nil && h.Spool.Pending() > 0 {
		err = h.flush(ctx)
	}
	return h.proceed(), err
}

// Unrecorded answers an event that can be neither recorded nor kept: what must be recorded is
// refused.
func (h *Hook) Unrecorded(body []byte, why error) (Answer, error) {
	report, unread := h.Source.Parse(body)
	if (h.Closed || h.Passport) && (report.Asks || unread != nil) {
		reason := "attestd: this call must be recorded and cannot be, so it is refused: " + why.Error()
		return Answer{h.Source.Deny(reason), reason}, nil
	}
	return h.proceed(), why
}

func (h *Hook) proceed() Answer { return Answer{Output: []byte(hookevent.Proceed)} }

// ask answers an agent that waits for whether it may call a tool.
func (h *Hook) ask(ctx context.Context, e toolcall.Event) (Answer, error) {
	asked := h.attestation(e)
	if h.Passport {
		covered, err := h.covered(ctx, e.Tool)
		if err != nil {
			return h.deny(ctx, h.keep, asked, e, "attestd: this call needs a passport, and whether there is one could not be found out, so it is refused: "+err.Error())
		}
		if !covered {
			return h.deny(ctx, h.record, asked, e, hookevent.NoPassport(h.Agent, e.Tool))
		}
	}
	if !h.Closed {
		return h.proceed(), h.record(ctx, asked)
	}
	if err := h.attest(ctx, asked); err != nil {
		return h.deny(ctx, h.keep, asked, e, "attestd: this call could not be recorded, so it is refused: "+err.Error())
	}
	return h.proceed(), nil
}

// deny refuses a call; both that it was asked for and that it was refused go where record puts
// them.
func (h *Hook) deny(ctx context.Context, record func(context.Context, attestd.Attestation) error, asked attestd.Attestation, e toolcall.Event, reason string) (Answer, error) {
	err := errors.Join(record(ctx, asked), record(ctx, h.attestation(hookevent.Denied(e, reason))))
	return Answer{h.Source.Deny(reason), reason}, err
}

// covered says whether a valid passport of the agent covers the tool.
func (h *Hook) covered(ctx context.Context, tool string) (bool, error) {
	// A passport lives for a day at most, and the newest come first. An hour allows for clocks.
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

// record attests what has happened, or keeps it until attestd can be given it.
func (h *Hook) record(ctx context.Context, a attestd.Attestation) error {
	err := h.attest(ctx, a)
	if err == nil {
		return nil
	}
	if kept := h.keep(ctx, a); kept != nil {
		return errors.Join(err, kept)
	}
	if isRefusal(err) { // another credential may be what it waits for, and somebody has to know
		return err
	}
	return nil
}

// keep keeps what has happened until attestd can be given it, also when time is over: that may be
// why there was no answer.
func (h *Hook) keep(ctx context.Context, a attestd.Attestation) error {
	return h.Spool.Add(context.WithoutCancel(ctx), a)
}

// flush sends what was kept.
func (h *Hook) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	var refused *spool.RefusedError
	if err := h.Spool.Flush(ctx); errors.As(err, &refused) {
		return err
	}
	return nil // what is not sent stays
}

// flushTime is how long an agent's turn is held up at most by what was kept before.
const flushTime = time.Second

// complete attests what an agent says of calls of which it may have spoken before. Its denials, and
// calls that could not be made, are reported here alone; how others ended, their own events have
// said.
func (h *Hook) complete(ctx context.Context, events []toolcall.Event) (err error) {
	for i := 0; i+1 < len(events); i += 2 {
		// mostly its own event has said how; what is not taken now may wait in the spool
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

// attest attests what has happened now. What has the call ID of something else becomes a record of
// its own: that must hide nothing.
func (h *Hook) attest(ctx context.Context, a attestd.Attestation) error {
	_, err := h.Client.Attest(ctx, a)
	if errors.Is(err, &attestd.Error{Code: attestd.KeyReused}) {
		a.IdempotencyKey = toolcall.Record{Key: a.IdempotencyKey, Payload: a.Payload.(json.RawMessage)}.OtherKey()
		_, err = h.Client.AttestDerived(ctx, a)
	}
	return err
}

// attestation is what is attested of an event. Its key is the same for every try, in this process
// and the next.
func (h *Hook) attestation(e toolcall.Event) attestd.Attestation {
	r := h.Policy.Record(h.Agent, e)
	if r.Key == "" {
		r.Key = attestd.NewIdempotencyKey()
	}
	return attestd.Attestation{AgentID: h.Agent, ActionType: r.ActionType, Payload: r.Payload, IdempotencyKey: r.Key}
}

// isRefusal says whether attestd has answered, and will answer the same to the same.
func isRefusal(err error) bool {
	var answer *attestd.Error
	return errors.As(err, &answer) && answer.Status >= 400 && answer.Status < 500 && answer.Status != http.StatusTooManyRequests && answer.Status != http.StatusRequestTimeout
}

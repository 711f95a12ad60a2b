// Package hook answers the command hooks of coding agents. It attests the reported events and
// refuses calls that are not allowed.
package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"attestd/agent/approval"
	"attestd/chain/action"
	"attestd/chain/action/hookevent"
	"attestd/chain/decision"
	"attestd/crypto/cred"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// Hook configures the processing of events.
type Hook struct {
	Source     hookevent.Source
	Agent      string // the agent of the records
	Policy     action.Policy
	Passport   bool // allow a call only if a valid passport of the agent covers the tool
	FailClosed bool // allow a call only after attestd has recorded the request
	Decided    bool // allow a call only after attestd has decided that it is allowed
	Client     *attestd.Client
	Spool      *spool.Spool      // of what cannot be sent now; nil where no folder can be used
	Identity   *attestd.Identity // signs the events; nil for none
	Reader     *attestd.Client   // lists passports; nil for Client, which an agent's own cannot
	Alarms     []string          // for the agent's user, with an answer that lets it proceed
	// AskWait is for how long a call waits for its approval; 0 refuses it at once. It is less than
	// the time that the agent gives the hook.
	AskWait time.Duration
	// Extend gives a hook that waits for an approval so much more time than others, in a context of
	// its own; nil where nothing limits the time.
	Extend func(by time.Duration) (context.Context, context.CancelFunc)
	// Ends is a folder that remembers which sessions have ended, so that each end of one that is
	// resumed is recorded; "" for none.
	Ends string
	// Subagents is a folder that remembers which calls have launched subagents in the background,
	// which are over when those have ended; "" for none.
	Subagents string
}

// Patience is for how long a hook waits for a lock that another process holds. The spool of a Hook
// has it, too.
const Patience = 700 * time.Millisecond

// answering is an event that is being answered.
type answering struct {
	*Hook
	// session is in which its records are signed; nil for none. Without one, each that is signed is
	// of no session.
	session *spool.Session
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
	if report.Unknown && h.refuses() {
		// Of an agent that is another one than the command names, every event would pass unseen.
		reason := fmt.Sprintf("attestd: %s sends no such event that attestd knows, so it is refused: is --from right?", h.Source)
		return Answer{h.Source.Deny(reason), reason}, nil
	}
	if len(report.Events) == 0 {
		return h.proceed(), nil
	}
	a := answering{Hook: h}
	if h.Identity != nil && h.Spool != nil {
		// The agent's sessions are the records'. Events without one are in one of their own.
		if a.session, err = h.Spool.Session(h.Identity, cmp.Or(report.Events[0].SessionID, string(h.Source))); err != nil {
			h.WithoutSpool(err)
		}
	}
	h.numberEnd(&report.Events[0])
	return a.report(ctx, report)
}

// WithoutSpool informs the user that events are sent without the folder, and why.
func (h *Hook) WithoutSpool(why error) {
	alarm := "attestd cannot use its folder on this machine, so events are sent without it, and lost while the server cannot be reached: " + why.Error()
	if !slices.ContainsFunc(h.Alarms, func(a string) bool { return strings.HasPrefix(a, "attestd cannot use its folder") }) {
		h.Alarms = append(h.Alarms, alarm)
	}
}

// report attests the events of a report.
func (a answering) report(ctx context.Context, report hookevent.Report) (_ Answer, err error) {
	switch {
	case report.Asks:
		return a.ask(ctx, report.Events[0])
	case report.Late:
		err = a.complete(ctx, report.Events)
	default:
		for _, e := range a.followSubagent(report.Events[0]) {
			_, unrecorded := a.record(ctx, a.attestation(e))
			err = errors.Join(err, unrecorded)
		}
	}
	// Now the agent does not wait for permission, so there is time to send spooled events.
	if err == nil && a.Spool != nil && a.Spool.Pending() > 0 {
		err = a.flush(ctx)
	}
	return a.proceed(), err
}

// numberEnd finds out which end of its session an event is. Where that cannot be, it is an end of
// its own: one that is reported twice is rather recorded twice than lost.
func (h *Hook) numberEnd(e *action.Event) {
	var err error
	switch remembered := (ends{h.Ends}); {
	case h.Ends == "" || e.SessionID == "":
	case e.Type == action.SessionEnded:
		e.End, err = remembered.end(e.SessionID, time.Now())
	default:
		err = remembered.resume(e.SessionID)
	}
	if err != nil && e.Type == action.SessionEnded {
		e.End = int(time.Now().UnixMilli())
	}
	if err != nil {
		h.WithoutSpool(err)
	}
}

// Oversized answers an event that is too large to be read. Its hash is recorded, and a call that
// must be recorded is refused.
func (h *Hook) Oversized(ctx context.Context, sha256 []byte, bytes int64, isAll bool) (Answer, error) {
	a := answering{Hook: h}
	e := h.Source.Oversized(sha256, bytes, isAll)
	var err error
	if h.Identity != nil && h.Spool != nil {
		if a.session, err = h.Spool.Session(h.Identity, string(h.Source)); err != nil {
			h.WithoutSpool(err)
		}
	}
	_, err = a.record(ctx, a.attestation(e))
	if h.refuses() {
		reason := fmt.Sprintf("attestd: this call must be recorded and is too large for that, so it is refused: its event has %d bytes or more", bytes)
		return Answer{h.Source.Deny(reason), reason}, err
	}
	return h.proceed(), err
}

// Unrecorded answers an event that can be neither recorded nor spooled. It refuses calls that must
// be recorded.
func (h *Hook) Unrecorded(body []byte, why error) (Answer, error) {
	report, unread := h.Source.Parse(body)
	if h.refuses() && (report.Asks || report.Unknown || unread != nil) {
		reason := "attestd: this call must be recorded and cannot be, so it is refused: " + why.Error()
		return Answer{h.Source.Deny(reason), reason}, nil
	}
	return h.proceed(), why
}

// refuses reports whether a call that cannot be recorded is refused.
func (h *Hook) refuses() bool { return h.FailClosed || h.Passport || h.Decided }

func (h *Hook) proceed() Answer {
	if len(h.Alarms) == 0 {
		return Answer{Output: []byte(hookevent.Proceed)}
	}
	return Answer{Output: hookevent.SystemMessage(strings.Join(h.Alarms, "\n"))}
}

// ask answers an agent that waits for permission to call a tool.
func (h answering) ask(ctx context.Context, e action.Event) (Answer, error) {
	asked := h.attestation(e)
	if h.Passport {
		covered, err := h.covered(ctx, e.Server, e.Tool, e.Input)
		if err != nil {
			return h.deny(ctx, h.enqueue, asked, e,
				"attestd: this call needs a passport, and the check for one failed, so it is refused: "+err.Error())
		}
		if !covered {
			return h.deny(ctx, h.recordOnly, asked, e, hookevent.NoPassport(h.Agent, e.Tool))
		}
	}
	asked.Decide, asked.Folder = h.Decided, e.Folder
	if !h.FailClosed && !h.Decided {
		made, err := h.record(ctx, asked)
		ctx, cancel := h.extend(ctx, made)
		defer cancel()
		if refused := h.await(ctx, asked, made); refused != "" {
			return h.refuse(ctx, e, refused)
		}
		return h.proceed(), err
	}
	made, err := h.attest(ctx, asked)
	if err != nil {
		return h.deny(ctx, h.enqueueAfter(err), asked, e, "attestd: this call could not be recorded, so it is refused: "+err.Error())
	}
	ctx, cancel := h.extend(ctx, made)
	defer cancel()
	refused := h.await(ctx, asked, made)
	if made == nil && h.Decided {
		refused = "attestd: the server has not decided this call, so it is refused"
	}
	if refused != "" {
		return h.refuse(ctx, e, refused)
	}
	return h.proceed(), nil
}

// extend returns the context of a hook that has the decision of its request.
func (h *Hook) extend(ctx context.Context, made *decision.Decision) (context.Context, context.CancelFunc) {
	if h.Extend != nil && h.AskWait > 0 && made != nil && made.Verdict == decision.Ask {
		return h.Extend(h.AskWait)
	}
	return ctx, func() {}
}

// await waits for the approval that the decision of a request asks for. It returns why the call is
// refused; "" where it is allowed, or nothing was decided.
func (h answering) await(ctx context.Context, asked attestd.Attestation, made *decision.Decision) string {
	waiting, cancel := context.WithTimeout(ctx, h.AskWait)
	defer cancel()
	key := asked.IdempotencyKey
	return approval.Await(waiting, h.Client, made, func(id string) (*decision.Decision, error) {
		asked.IdempotencyKey = action.Record{Key: key, Payload: json.RawMessage(id)}.OtherKey()
		return h.attest(ctx, asked)
	})
}

// refuse refuses a call whose request is on record with the decision.
func (h answering) refuse(ctx context.Context, e action.Event, reason string) (Answer, error) {
	_, err := h.record(ctx, h.attestation(hookevent.Denied(e, reason)))
	return Answer{h.Source.Deny(reason), reason}, err
}

// deny refuses a call. It gives the request and the refusal to record.
func (h answering) deny(
	ctx context.Context, record func(context.Context, attestd.Attestation) error,
	asked attestd.Attestation, e action.Event, reason string,
) (Answer, error) {
	err := errors.Join(record(ctx, asked), record(ctx, h.attestation(hookevent.Denied(e, reason))))
	return Answer{h.Source.Deny(reason), reason}, err
}

// covered reports whether a valid passport of the agent covers the call of a tool.
func (h answering) covered(ctx context.Context, server, tool string, arguments []byte) (bool, error) {
	// A passport is valid for a day at most, and the newest come first. The extra hour allows for
	// clock skew.
	oldest := time.Now().Add(-25 * time.Hour).UTC().Format(time.RFC3339)
	for p, err := range cmp.Or(h.Reader, h.Client).Passports(ctx, attestd.PassportFilter{AgentID: h.Agent, Status: "valid"}) {
		if err != nil || p.IssuedAt < oldest {
			return false, err
		}
		if p.AgentID != h.Agent || p.Status != "valid" || tool == "" {
			continue
		}
		if _, err := (cred.PassportClaims{Scopes: p.Scopes, Details: p.AuthorizationDetails}).GrantOn(server, tool, arguments); err == nil {
			return true, nil
		}
	}
	return false, nil
}

// record attests an event, or spools it if attestd is unreachable. It returns the decision that the
// record holds; nil for none.
func (h answering) record(ctx context.Context, a attestd.Attestation) (*decision.Decision, error) {
	made, err := h.attest(ctx, a)
	if err == nil || isApart(err) {
		return made, err
	}
	if spoolErr := h.enqueue(ctx, a); spoolErr != nil {
		return nil, errors.Join(err, spoolErr)
	}
	if isRefusal(err) { // it may need another credential, so report the error
		return nil, err
	}
	return nil, nil
}

func (h answering) recordOnly(ctx context.Context, a attestd.Attestation) error {
	_, err := h.record(ctx, a)
	return err
}

// enqueue spools an event. It ignores the end of ctx, which may be why there was no response.
func (h answering) enqueue(ctx context.Context, a attestd.Attestation) error {
	err := h.add(context.WithoutCancel(ctx), a)
	if errors.As(err, new(*spool.FolderError)) {
		h.WithoutSpool(err)
		if _, sent := h.alone(ctx, a); sent != nil {
			return errors.Join(err, sent)
		}
		return nil
	}
	return err
}

// add adds an event to the spool.
func (h answering) add(ctx context.Context, a attestd.Attestation) error {
	switch {
	case h.Spool == nil:
		return &spool.FolderError{Err: errors.New("there is no folder for unsent records")}
	case h.session == nil && h.Identity != nil:
		return &spool.FolderError{Err: errors.New("the session cannot be continued in the folder of unsent records")}
	case h.session == nil:
		return h.Spool.Add(ctx, a)
	}
	err := h.session.Add(ctx, a)
	if errors.Is(err, spool.ErrKeyReused) {
		err = h.session.Add(ctx, otherKey(a))
	}
	if errors.Is(err, spool.ErrSigned) { // an attempt to send it has added it
		return nil
	}
	return err
}

// alone sends an event past the spool. Of an agent that signs it is a statement of no session,
// because no place is used that is not on disk.
func (h *Hook) alone(ctx context.Context, a attestd.Attestation) (made *decision.Decision, err error) {
	if h.Identity != nil {
		h.Client.LearnLog(ctx)
		if a, err = h.Identity.Sign(ctx, a, attestd.Place{}); err != nil {
			return nil, err
		}
	}
	r, err := h.Client.Attest(ctx, a)
	return r.Payload.Decision, err
}

// isApart reports whether an event was refused and is set apart in the spool, at its place in the
// session: then it is not signed again.
func isApart(err error) bool {
	return errors.As(err, new(*spool.ApartError)) || errors.As(err, new(*spool.RefusedError))
}

// enqueueAfter is enqueue for the events of a call whose request could not be sent. If that was set
// apart, it is left out.
func (h answering) enqueueAfter(err error) func(context.Context, attestd.Attestation) error {
	if !isApart(err) {
		return h.enqueue
	}
	return func(ctx context.Context, a attestd.Attestation) error {
		if a.ActionType == string(action.ToolRequested) {
			return nil
		}
		return h.enqueue(ctx, a)
	}
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
func (h answering) complete(ctx context.Context, events []action.Event) (err error) {
	for i := 0; i+1 < len(events); i += 2 {
		// The call's own event is usually recorded or in the spool, so an error does not matter.
		if k := events[i+1].Type; k == action.ToolEnded || k == action.ToolPending {
			_, _ = h.once(ctx, h.attestation(events[i+1]))
			continue
		}
		for _, e := range events[i : i+2] {
			a := h.attestation(e)
			switch _, answer := h.once(ctx, a); {
			case answer == nil || reused(answer):
			case isApart(answer):
				err = errors.Join(err, answer)
			default:
				err = errors.Join(err, h.recordOnly(ctx, a))
			}
		}
	}
	return err
}

// once sends an event, unless its key was used.
func (h answering) once(ctx context.Context, a attestd.Attestation) (made *decision.Decision, err error) {
	if h.session == nil {
		return h.alone(ctx, a)
	}
	r, err := h.session.AttestNow(ctx, a)
	switch {
	case errors.Is(err, spool.ErrSigned) && h.Spool.Pending() == 0:
		return nil, nil
	case errors.As(err, new(*spool.FolderError)): // and it was not sent
		h.WithoutSpool(err)
		return h.alone(ctx, a)
	}
	return r.Payload.Decision, err
}

// reused reports whether the key of an event was used for another one.
func reused(err error) bool {
	return errors.Is(err, &attestd.Error{Code: attestd.KeyReused}) || errors.Is(err, &attestd.Error{Code: attestd.StatementReused}) ||
		errors.Is(err, spool.ErrKeyReused)
}

// attest sends an event. An event with a reused call ID gets its own record, so that reuse hides
// nothing.
func (h answering) attest(ctx context.Context, a attestd.Attestation) (*decision.Decision, error) {
	made, err := h.once(ctx, a)
	if reused(err) {
		if a = otherKey(a); h.Identity == nil {
			var r attestd.Record
			r, err = h.Client.AttestDerived(ctx, a)
			made = r.Payload.Decision
		} else {
			made, err = h.once(ctx, a)
		}
	}
	if errors.Is(err, spool.ErrSigned) { // by a process that has had no answer
		err = h.Spool.Flush(ctx)
	}
	return made, err
}

// otherKey returns an event whose key was used for another one, with the key that also depends on
// its content.
func otherKey(a attestd.Attestation) attestd.Attestation {
	a.IdempotencyKey = action.Record{Key: a.IdempotencyKey, Payload: a.Payload.(json.RawMessage)}.OtherKey()
	return a
}

// attestation returns the attestation of an event. Its key is the same for every attempt, also in
// another process.
func (h *Hook) attestation(e action.Event) attestd.Attestation {
	r := h.Policy.Record(h.Agent, e)
	if r.Key == "" {
		r.Key = attestd.NewIdempotencyKey()
	}
	return attestd.Attestation{
		AgentID: h.Agent, ActionType: r.ActionType, Payload: r.Payload, IdempotencyKey: r.Key, Last: e.Type == action.SessionEnded,
	}
}

// isRefusal reports whether attestd has refused a request permanently.
func isRefusal(err error) bool {
	var answer *attestd.Error
	return errors.As(err, &answer) && answer.Refuses()
}

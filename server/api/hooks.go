package api

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"attestd/chain/action"
	"attestd/chain/action/hookevent"
	"attestd/chain/decision"
	"attestd/server/httpapi"
	"attestd/server/limit"
	"attestd/service"
	"attestd/store"
)

// Hooks record what coding agents report.
type Hooks struct {
	Attestations *service.Attestations
	Passports    *service.Passports
	Approvals    *service.Approvals
	Log          *slog.Logger
}

// hookRequest has the query parameters of a hook. Package hookevent parses the body, in the agents'
// formats.
type hookRequest struct {
	Agent   string `query:"agent" must:"given"`
	Require string `query:"require" must:"given"`
	Redact  string `query:"redact" must:"given"`
	Fail    string `query:"fail" must:"given"`
	// AskWait is for how many seconds the answer waits for an approval
	AskWait int `query:"askWait" must:"number 0..55" default:"0"`

	passport bool // a tool call needs a passport
	decided  bool // it needs a decision that allows it
	policy   action.Policy
}

// ClaudeCode implements the HTTP hooks of Claude Code: each event of a tool call becomes a
// record.
func (s *Hooks) ClaudeCode() httpapi.Handler {
	form := httpapi.FormOf[hookRequest]()
	serve := func(c *httpapi.Call) error {
		var r hookRequest
		if err := form.Read(c, &r); err != nil {
			return err
		}
		if err := r.check(); err != nil {
			return err
		}
		received := &hashedBody{ReadCloser: c.Body, hash: sha256.New()}
		c.Body = received
		raw, err := c.Read()
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			return s.oversizedHook(c, &r, received)
		}
		if err != nil {
			return err
		}
		by, err := c.By(httpapi.Anybody)
		if err != nil {
			return err
		}
		report, err := hookevent.ClaudeCode.Parse(raw)
		if err != nil {
			return httpapi.Fail(http.StatusBadRequest, "Malformed hook event: "+err.Error())
		}
		answer, err := s.hook(c, by, r, report)
		if err != nil && report.Asks && r.refuses() {
			// If a hook fails, an agent continues, unless its settings say otherwise. A required
			// passport must not depend on those.
			s.unrecorded(c, err)
			answer, err = hookevent.ClaudeCode.Deny(r.mustBe()+" could not be recorded, so it is refused: "+c.Classify(err).Message), nil
		}
		if err != nil {
			return err
		}
		return c.Bytes(http.StatusOK, append(answer, '\n'))
	}
	return httpapi.Handler{Serve: serve, Form: form}
}

func (r *hookRequest) check() (err error) {
	if r.Agent == "" {
		r.Agent = string(hookevent.ClaudeCode)
	}
	if !utf8.ValidString(r.Agent) || utf8.RuneCountInString(r.Agent) > httpapi.MaxName {
		return httpapi.Fail(http.StatusBadRequest, "Invalid query parameter: agent must have 1 to 256 characters")
	}
	if r.passport, r.decided, err = hookevent.ParseRequire(r.Require); err != nil {
		return httpapi.Fail(http.StatusBadRequest, "Invalid query parameter: require "+err.Error())
	}
	if r.Fail != "" && r.Fail != "open" && r.Fail != "closed" {
		return httpapi.Fail(http.StatusBadRequest, "Invalid query parameter: fail must be open or closed")
	}
	if r.policy, err = action.ParseRedaction(r.Redact); err != nil {
		return httpapi.Fail(http.StatusBadRequest, "Invalid query parameter: redact must be input, output or input,output")
	}
	r.policy.Decided = r.decided
	return nil
}

// refuses reports whether a call that cannot be recorded is refused.
func (r *hookRequest) refuses() bool { return r.passport || r.decided || r.Fail == "closed" }

// mustBe begins the reason of a refusal.
func (r *hookRequest) mustBe() string {
	switch {
	case r.passport:
		return "attestd: this call needs a passport and"
	case r.decided:
		return "attestd: this call needs a decision and"
	}
	return "attestd: this call must be recorded and"
}

// maxHashed is how many bytes of an event are read for its hash.
const maxHashed = 256 << 20

// hashedBody is a body whose bytes are hashed as they are read.
type hashedBody struct {
	io.ReadCloser
	hash hash.Hash
	n    int64
}

func (b *hashedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.hash.Write(p[:n])
	b.n += int64(n)
	return n, err
}

// oversizedHook records an event over the bound of bodies by its hash. The rest of it is read and
// dropped. What becomes of the call is what the hook asks for, else what the agent makes of a hook
// that fails.
func (s *Hooks) oversizedHook(c *httpapi.Call, r *hookRequest, received *hashedBody) error {
	by, err := c.By(httpapi.Anybody)
	if err != nil {
		return err
	}
	if err := c.Spend(limit.Attest, 1); err != nil { // before the body has its way
		return err
	}
	if _, err := io.CopyN(io.Discard, received, maxHashed-received.n); err != nil && !errors.Is(err, io.EOF) {
		return httpapi.Fail(http.StatusBadRequest, "Request body could not be read to its end")
	}
	event := hookevent.ClaudeCode.Oversized(received.hash.Sum(nil), received.n, received.n < maxHashed)
	if _, err := s.Attestations.AppendCalls(c.Context(), by, r.Agent, []action.Record{r.policy.Record(r.Agent, event)}, service.Calling{}); err != nil {
		return err
	}
	switch {
	case r.refuses():
		return c.Bytes(http.StatusOK, append(hookevent.ClaudeCode.Deny(r.mustBe()+" is too large for that, so it is refused: the server takes events of at most "+
			strconv.FormatInt(c.MaxBody(), 10)+" bytes (--max-body)"), '\n'))
	case r.Fail == "open":
		return c.Bytes(http.StatusOK, []byte(hookevent.Proceed+"\n"))
	}
	return httpapi.Fail(http.StatusRequestEntityTooLarge, "Hook event is larger than the limit of this server; its SHA-256 is recorded in its place")
}

// hook records the report of a hook and returns the response for the agent.
func (s *Hooks) hook(c *httpapi.Call, by store.Caller, r hookRequest, report hookevent.Report) ([]byte, error) {
	answer := []byte(hookevent.Proceed)
	how := service.Calling{Late: report.Late, Decide: report.Asks && r.decided}
	if report.Asks && r.passport {
		asked := report.Events[0]
		var err error
		how.Passport, err = s.Passports.Covering(c.Context(), by, r.Agent, asked.Server, asked.Tool, asked.Input)
		if err != nil {
			return nil, err
		}
		if how.Unauthorized = how.Passport == nil; how.Unauthorized {
			reason := hookevent.NoPassport(r.Agent, asked.Tool)
			report.Events, answer = append(report.Events, hookevent.Denied(asked, reason)), hookevent.ClaudeCode.Deny(reason)
		}
	}
	events := report.Events
	if report.Late {
		var err error
		room := c.Room(limit.Attest)
		if events, err = s.Attestations.Unrecorded(c.Context(), by, r.Agent, events, room); err != nil {
			return nil, err
		}
	}
	if len(events) == 0 {
		return answer, nil
	}
	if !report.Late {
		var err error
		if events, err = s.Attestations.FollowSubagents(c.Context(), by, r.Agent, events); err != nil {
			return nil, err
		}
	}
	if err := c.Spend(limit.Attest, len(events)); err != nil {
		return nil, err
	}
	if err := s.Attestations.NumberEnds(c.Context(), by, r.Agent, events); err != nil {
		return nil, err
	}
	records := make([]action.Record, len(events))
	for i, e := range events {
		records[i] = r.policy.Record(r.Agent, e)
	}
	how.Folder = report.Events[0].Folder
	made, err := s.Attestations.AppendCalls(c.Context(), by, r.Agent, records, how)
	if err != nil || !report.Asks || len(events) > 1 { // it is refused already
		return answer, err
	}
	undecided := false
	again, reason, err := s.await(c, by, r, report, made)
	if again != nil {
		return again, nil
	}
	if err != nil { // the decision refuses the call, whatever the agent makes of a hook that fails
		s.unrecorded(c, err)
		reason = "attestd: this call needs an approval, which could not be had, so it is refused: " + c.Classify(err).Message
	}
	if made == nil {
		if undecided, err = s.Attestations.Decisions.Any(c.Context(), by); err != nil {
			return nil, err
		}
	}
	if undecided || made == nil && r.decided {
		reason = "attestd: this call could not be decided, so it is refused"
	}
	if reason == "" {
		return answer, nil
	}
	refusal := r.policy.Record(r.Agent, hookevent.Denied(report.Events[0], reason))
	if _, err := s.Attestations.AppendCalls(c.Context(), by, r.Agent, []action.Record{refusal}, service.Calling{}); err != nil {
		// the decision on record refuses the call too, and without an answer the agent may go on
		s.unrecorded(c, err)
	}
	return hookevent.ClaudeCode.Deny(reason), nil
}

// await waits for the approval that the decision of a request asks for, as long as the hook says.
// Then the request is recorded once more, which uses the approval: all that can refuse it is asked
// again, since meanwhile a credential or a passport may have been revoked. It returns the answer to
// a call that may be attempted again, or else nil and why it is refused.
func (s *Hooks) await(c *httpapi.Call, by store.Caller, r hookRequest, report hookevent.Report, made *decision.Decision) (again []byte, reason string, err error) {
	if r.AskWait == 0 || made == nil || made.Verdict != decision.Ask || made.Approval == "" {
		return nil, hookevent.Refused(made), nil
	}
	began := time.Now()
	a, err := s.Approvals.Wait(c.Context(), by, "", made.Approval, time.Duration(r.AskWait)*time.Second)
	switch {
	case errors.Is(err, service.ErrWaiters):
		return nil, hookevent.Refused(made), nil
	case err != nil:
		return nil, "", err
	case a.State != store.ApprovalIsApproved && a.State != store.ApprovalIsUsed:
		why := ""
		if a.Reason != nil {
			why = *a.Reason
		}
		return nil, hookevent.Unapproved(made.Approval, a.State, why), nil
	}
	if by, err = c.By(httpapi.Anybody); err != nil {
		return nil, "", err
	}
	r.AskWait = max(0, r.AskWait-int((time.Since(began)+time.Second-1)/time.Second))
	again, err = s.hook(c, by, r, report)
	return again, "", err
}

// unrecorded logs that the refusal of a call could not be recorded.
func (s *Hooks) unrecorded(c *httpapi.Call, err error) {
	s.Log.LogAttrs(c.Context(), slog.LevelWarn, "a tool call was refused, and that could not be recorded",
		slog.String("id", c.ID), slog.String("error", err.Error()))
}

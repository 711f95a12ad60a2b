package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"unicode/utf8"

	"attestd/agent/hookevent"
	"attestd/agent/toolcall"
	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/server/limit"
	"attestd/store"
)

// hookRequest is what the address of a hook says; its body is read by hookevent, which takes what
// agents send.
type hookRequest struct {
	Agent   string `query:"agent"`
	Require string `query:"require"`
	Redact  string `query:"redact"`

	passport bool // whether a tool needs a passport
	policy   toolcall.Policy
}

// claudeCodeHook answers the HTTP hooks of Claude Code: each event of a tool call becomes a record.
func claudeCodeHook() handler {
	form := formOf[hookRequest]()
	serve := func(c *call) error {
		var r hookRequest
		if err := form.read(c, &r); err != nil {
			return err
		}
		if err := r.check(); err != nil {
			return err
		}
		raw, err := c.read()
		if err != nil {
			return err
		}
		if err := c.settle(); err != nil {
			return err
		}
		report, err := hookevent.ClaudeCode.Parse(raw)
		if err != nil {
			return fail(http.StatusBadRequest, "Malformed hook event: "+err.Error())
		}
		answer, err := c.hook(r, report)
		if err != nil && report.Asks && r.passport {
			// An agent goes on where its hook fails, unless its settings say otherwise. What needs
			// a passport must not depend on those.
			c.s.Log.LogAttrs(c.Context(), slog.LevelWarn, "a tool call was refused, and that could not be recorded", slog.String("id", c.id), slog.String("error", err.Error()))
			answer, err = hookevent.ClaudeCode.Deny("attestd: this call needs a passport and could not be recorded, so it is refused: "+classify(err).Message), nil
		}
		if err != nil {
			return err
		}
		return c.bytes(http.StatusOK, append(answer, '\n'))
	}
	return handler{serve, form}
}

func (r *hookRequest) check() (err error) {
	if r.Agent == "" {
		r.Agent = string(hookevent.ClaudeCode)
	}
	if !utf8.ValidString(r.Agent) || utf8.RuneCountInString(r.Agent) > maxName {
		return fail(http.StatusBadRequest, "Invalid query parameter: agent must have 1 to 256 characters")
	}
	if r.passport = r.Require == "passport"; !r.passport && r.Require != "" {
		return fail(http.StatusBadRequest, "Invalid query parameter: require must be passport")
	}
	if r.policy, err = toolcall.ParseRedaction(r.Redact); err != nil {
		return fail(http.StatusBadRequest, "Invalid query parameter: redact must be input, output or input,output")
	}
	return nil
}

// hook records what a hook has reported and returns the answer to the agent.
func (c *call) hook(r hookRequest, report hookevent.Report) ([]byte, error) {
	answer := []byte(hookevent.Proceed)
	if report.Asks && r.passport {
		asked := report.Events[0]
		covered, err := c.s.covered(c.Context(), c.caller, r.Agent, asked.Tool)
		if err != nil {
			return nil, err
		}
		if !covered {
			reason := hookevent.NoPassport(r.Agent, asked.Tool)
			report.Events, answer = append(report.Events, hookevent.Denied(asked, reason)), hookevent.ClaudeCode.Deny(reason)
		}
	}
	events := report.Events
	if report.Late {
		var err error
		if events, err = c.unrecorded(r.Agent, events); err != nil {
			return nil, err
		}
	}
	if len(events) == 0 {
		return answer, nil
	}
	if err := c.spend(limit.Attest, len(events)); err != nil {
		return nil, err
	}
	records := make([]toolcall.Record, len(events))
	for i, e := range events {
		records[i] = r.policy.Record(r.Agent, e)
	}
	for part := range slices.Chunk(records, maxItems) {
		if err := c.s.attestCalls(c.Context(), c.caller, r.Agent, part, report.Late); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// covered says whether a valid passport of the agent covers the tool.
func (s *Server) covered(ctx context.Context, by store.Caller, agent, tool string) (bool, error) {
	for p, err := range s.Store.ValidPassports(ctx, by, agent) {
		if err != nil {
			return false, err
		}
		if _, err := (cred.PassportClaims{Scopes: p.Scopes}).Grant(&tool); err == nil && tool != "" {
			return true, nil
		}
	}
	return false, nil
}

// unrecorded returns those of late events of which nothing is recorded, each once. It stops at one
// more than the caller may record now, so that what the limit will refuse reads no more keys than
// that.
func (c *call) unrecorded(agent string, events []toolcall.Event) (missing []toolcall.Event, err error) {
	room := c.s.limiter.Room(c.account(limit.Attest, 0), c.came)
	seen := make(map[string]bool, len(events))
	for _, e := range events {
		key := derivedKey(c.caller, e.Key(agent, nil))
		if seen[key] {
			continue
		}
		seen[key] = true
		known, err := c.s.known(c.Context(), c.caller, key)
		if err != nil {
			return nil, err
		}
		if known {
			continue
		}
		if missing = append(missing, e); len(missing) > room {
			break
		}
	}
	return missing, nil
}

// known says whether anything stands under an idempotency key, be it another request.
func (s *Server) known(ctx context.Context, by store.Caller, key string) (bool, error) {
	_, err := s.Store.Recorded(ctx, by, &chain.Key{Name: keyName(key)})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case errors.Is(err, chain.ErrKeyReused):
		return true, nil
	}
	return err == nil, err
}

// attestCalls appends the records of tool calls, all or none. Where a key stands for something else
// already, late ones are left out; others become records of their own: a call ID that comes twice
// must hide nothing.
func (s *Server) attestCalls(ctx context.Context, by store.Caller, agent string, records []toolcall.Record, late bool) error {
	items := make([]attestation, 0, len(records))
	others := make([]string, 0, len(records)) // the keys of those whose own is taken
	for _, r := range records {
		item := attestation{AgentID: agent, ActionType: r.ActionType, Payload: r.Payload, Key: r.Key}
		there, err := s.isRecordedInClear(ctx, by, &item)
		if err != nil {
			return err
		}
		if there {
			continue
		}
		item.Key = derivedKey(by, r.Key)
		items, others = append(items, item), append(others, derivedKey(by, r.OtherKey()))
	}
	for len(items) > 0 {
		_, err := s.append(ctx, by, items...)
		var refused *itemError
		if !errors.As(err, &refused) {
			return err
		}
		at, other := refused.item, others[refused.item]
		switch {
		case !errors.Is(err, chain.ErrKeyReused), items[at].Key == other:
			return refused.err
		case late:
			items, others = slices.Delete(items, at, at+1), slices.Delete(others, at, at+1)
		default:
			items[at].Key = other
		}
	}
	return nil
}

// isRecordedInClear says whether the very same record stands under its key as earlier versions kept
// it, which any writer of the company can name: a retry over an upgrade makes no second record, and
// what else is there counts for nothing.
func (s *Server) isRecordedInClear(ctx context.Context, by store.Caller, item *attestation) (bool, error) {
	if item.Key == "" {
		return false, nil
	}
	draft, _ := s.draft(ctx, by, item) // what it refuses, the append refuses too
	if draft.Key == nil {
		return false, nil
	}
	_, err := s.Store.Recorded(ctx, by, draft.Key)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, chain.ErrKeyReused) {
		return false, nil
	}
	return err == nil, err
}

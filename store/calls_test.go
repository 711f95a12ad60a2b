package store_test

import (
	"slices"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/action"
	"attestd/internal/must"
	"attestd/store"
	"attestd/store/names"
)

// The state of a refused call is stored only if no other server has stored one in between: of two
// servers that read the same records, one counts them.
func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	acme, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	call := action.Call{Kind: action.Refusal, Agent: "bot", Source: "mcp", ID: "1", Tool: "pay"}
	name := store.CallName(acme.Chain, &call)
	if name == store.CallName(zoo.Chain, &call) {
		t.Error("two companies have one call")
	}
	remembered := func() store.RefusedCall {
		t.Helper()
		return got(s.Calls.Refused(ctx, []chain.Hash{name, {7}, name}))(t)[name]
	}
	first := store.NewRefusedCall(name, now)
	first.State.Add(4, &call)
	first.Counted = 5
	must.OK(t, s.Calls.Save(ctx, by(acme, now), []store.RefusedCall{first}, nil))
	if err := s.Calls.Save(ctx, by(acme, now), []store.RefusedCall{first}, nil); err == nil {
		t.Error("a call is there twice")
	}
	if !got(s.Calls.AnyRefused(ctx, acme.Chain))(t) || got(s.Calls.AnyRefused(ctx, zoo.Chain))(t) {
		t.Error("whose call was refused")
	}
	one, other := remembered(), remembered()
	if one.Counted != 5 || one.State != (action.State{Refusals: 1, IsRefused: true, Refused: 4, Tool: "pay"}) {
		t.Errorf("%+v", one)
	}
	for _, c := range []*store.RefusedCall{&one, &other} {
		if !c.State.Add(9, &action.Call{Kind: action.Outcome}) {
			t.Error("nothing is found")
		}
		c.Counted = 10
	}
	session := names.Session{AgentID: "bot", Key: "mcp", ID: "s"}
	finding := []store.DisobeyedCall{{Disobeyed: one.State.Disobeyed(), Call: call, Session: session}}
	later := now.Add(time.Hour)
	must.OK(t, s.Calls.Save(ctx, by(acme, later), []store.RefusedCall{one}, finding))
	if err := s.Calls.Save(ctx, by(acme, later), []store.RefusedCall{other}, finding); err == nil {
		t.Error("the same finding is recorded twice")
	}
	again := remembered()
	if again.State != one.State || !again.State.Found {
		t.Errorf("%+v, stored %+v", again, one)
	}
	for since, want := range map[time.Time]int{now: 1, later: 1, later.Add(time.Millisecond): 0} {
		if n := got(s.Calls.Found(ctx, since))(t); n != want {
			t.Errorf("since %s: %d, want %d", since, n, want)
		}
	}
	for of, want := range map[names.Session]int{session: 1, {AgentID: "bot", Key: "hook", ID: "s"}: 0, {AgentID: "bot", Key: "mcp", ID: ""}: 0, {AgentID: "bo", Key: "tmcp", ID: "s"}: 0} {
		list, more, err := s.Disobeyed(ctx, by(acme, now), of, 10)
		if err != nil || len(list) != want || more {
			t.Errorf("%+v: %+v, %v", of, list, err)
		}
		if list, _, err := s.Disobeyed(ctx, by(zoo, now), of, 10); err != nil || len(list) > 0 {
			t.Errorf("of another company: %+v, %v", list, err)
		}
	}
	if list, more, err := s.Disobeyed(ctx, by(acme, now), session, 0); err != nil || len(list) > 0 || !more {
		t.Errorf("at most none: %+v, %v, %v", list, more, err)
	}
}

// A company is behind from its first action on until what was looked at is stored. One of which
// nothing is stored begins with the last day.
func TestCallsNotLookedAt(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	acme, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	behind := func(least int64, want ...int64) {
		t.Helper()
		if list := got(s.Calls.Behind(ctx, least))(t); !slices.Equal(list, want) {
			t.Errorf("behind by %d: %v, want %v", least, list, want)
		}
	}
	behind(1)
	attest(t, s, acme, 10)
	behind(1, acme.Chain)
	behind(100, acme.Chain) // nothing is known
	must.OK(t, s.Calls.SaveNext(ctx, nil, map[int64]int64{acme.Chain: 4, zoo.Chain: 0}))
	behind(6, acme.Chain)
	behind(7)
	must.OK(t, s.Calls.SaveNext(ctx, nil, map[int64]int64{acme.Chain: 10}))
	behind(1)
	attest(t, s, zoo, 2)
	behind(1, zoo.Chain)
	if next := got(s.Calls.Next(ctx, acme.Chain, now))(t); next != 10 {
		t.Errorf("acme goes on at %d", next)
	}
	globex, _ := company(t, s, "globex")
	attest(t, s, globex, 3)
	if next := got(s.Calls.Next(ctx, globex.Chain, time.Now()))(t); next != 0 {
		t.Errorf("records of today are passed over, up to %d", next)
	}
	if next := got(s.Calls.Next(ctx, globex.Chain, time.Now().Add(25*time.Hour)))(t); next != 3 {
		t.Errorf("tomorrow it begins with %d", next)
	}
}

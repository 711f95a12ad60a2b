package action_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"attestd/chain/action"
	"attestd/chain/decision"
)

// record is a record as cases.json has it.
type record struct {
	AgentID, ActionType string
	Payload             json.RawMessage
	Decision            *decision.Decision
}

// found is a finding, which record at shows.
type found struct {
	At int64
	action.Disobeyed
}

func readCases(t testing.TB) (cases []struct {
	Name    string
	Records []record
	Found   []found
}) {
	t.Helper()
	text, err := os.ReadFile("cases.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// The table that all checkers share: which calls were refused and ran all the same.
func TestTracker(t *testing.T) {
	t.Parallel()
	for _, c := range readCases(t) {
		var tracker action.Tracker
		var got []found
		for i, r := range c.Records {
			call, ok := action.Read(r.AgentID, r.ActionType, r.Payload, r.Decision)
			if !ok {
				continue
			}
			if d, is := tracker.Add(int64(i), &call); is {
				got = append(got, found{int64(i), d})
			}
		}
		if !slices.Equal(got, c.Found) {
			t.Errorf("%s: found %+v, want %+v", c.Name, got, c.Found)
		}
	}
}

// The memory of a tracker is bounded. It forgets the calls whose first records came first, and
// those alone.
func TestTrackerIsBounded(t *testing.T) {
	t.Parallel()
	var tracker action.Tracker
	add := func(n int, kind action.Kind) bool {
		_, is := tracker.Add(int64(n), &action.Call{Kind: kind, Agent: "bot", Source: "mcp", ID: fmt.Sprint(n)})
		return is
	}
	const calls = 3*action.MaxCalls + 7
	for n := range calls {
		add(n, action.Refusal)
	}
	for n, want := range map[int]bool{0: false, calls - action.MaxCalls - 1: false} {
		if add(n, action.Outcome) != want {
			t.Errorf("call %d was not forgotten", n)
		}
	}
	// those two came again as new calls, in the place of two others
	for n := calls - action.MaxCalls + 2; n < calls; n++ {
		if !add(n, action.Outcome) {
			t.Fatalf("call %d was forgotten", n)
		}
	}
	if add(calls-action.MaxCalls, action.Outcome) {
		t.Error("a call was not forgotten")
	}
}

// Keys of different calls differ, and what is read of a record never depends on what else its
// payload has.
func FuzzRead(f *testing.F) {
	for _, c := range readCases(f) {
		for _, r := range c.Records {
			f.Add(r.AgentID, r.ActionType, string(r.Payload))
		}
	}
	f.Fuzz(func(t *testing.T, agent, actionType, payload string) {
		call, ok := action.Read(agent, actionType, []byte(payload), nil)
		if !ok {
			return
		}
		var key []string
		if err := json.Unmarshal([]byte(call.Key()), &key); err != nil || len(key) != 4 {
			t.Fatalf("%q: %v", call.Key(), err)
		}
		if want := []string{strings.ToValidUTF8(agent, "\ufffd"), call.Source, call.SessionID, call.ID}; !slices.Equal(key[1:], want[1:]) {
			t.Errorf("%q is the key of %+v", key, call)
		}
		more := strings.TrimSuffix(strings.TrimRight(payload, " \t\r\n"), "}") + `,"another member":{"callId":1}}`
		if again, ok := action.Read(agent, actionType, []byte(more), nil); ok && again != call {
			t.Errorf("%+v, and with another member %+v", call, again)
		}
	})
}

package lines_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/chain/lines"
	"attestd/internal/must"
)

// The event of a record with a decision says the outcome in OCSF's numbers, and the check finds an
// event that says another. Other records have no outcome.
func TestOutcomeInOCSF(t *testing.T) {
	t.Parallel()
	const decided = `{"tool":"Bash"},"decision":{"by":[],"context":{"door":"attest","time":"2026-11-28T07:09:24.623Z"},"policies":"%064d","revision":1,"verdict":%q}`
	c := newCompany(t, "acme")
	for _, verdict := range []string{"allow", "deny", "ask"} {
		c.add(0, fmt.Sprintf(decided, 0, verdict))
	}
	c.add(0, `{"tool":"Bash"}`)
	c.open()
	c.send(0, 4)
	c.checkpoint(0)
	type outcome struct {
		Action        string `json:"action"`
		ActionID      int    `json:"action_id"`
		Disposition   string `json:"disposition"`
		DispositionID int    `json:"disposition_id"`
	}
	blocked := outcome{"Denied", 2, "Blocked", 2}
	want := []outcome{{"Allowed", 1, "Allowed", 1}, blocked, blocked, {}}
	var events []string
	for _, l := range c.out {
		event, err := lines.OCSF(nil, []byte(l))
		must.OK(t, err)
		events = append(events, string(event))
		var said struct {
			outcome
			ClassUID int `json:"class_uid"`
			Metadata struct{ Profiles []string }
		}
		must.OK(t, json.Unmarshal(event, &said))
		if said.ClassUID != 6003 {
			continue
		}
		if hasProfile := slices.Contains(said.Metadata.Profiles, "security_control"); said.outcome != want[0] || hasProfile != (want[0] != outcome{}) {
			t.Errorf("%s: %+v, want %+v", l, said, want[0])
		}
		want = want[1:]
	}
	if v := check(t, pin(0), events...); len(want) > 0 || v.Outcome != evidence.Holds {
		t.Errorf("%d records are no events; %+v", len(want), v)
	}
	for i, event := range events {
		forged := slices.Clone(events)
		if forged[i] = strings.Replace(event, `"disposition_id":2`, `"disposition_id":1`, 1); forged[i] == event {
			continue
		}
		if v := check(t, pin(0), forged...); v.Code != evidence.Malformed {
			t.Errorf("line %d: %+v", i, v)
		}
	}
}

package test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/chain/action"
	"attestd/chain/decision"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// calledRecord is what a checker reads of a record to find calls that disobeyed.
type calledRecord struct {
	AgentID    string          `json:"agentId"`
	ActionType string          `json:"actionType"`
	Payload    json.RawMessage `json:"payload"`

	Decision *decision.Decision `json:"decision,omitempty"`
}

// stateOfCalls is what every checker says of these records in a session that is complete.
func stateOfCalls(records []calledRecord) string {
	var tracker action.Tracker
	var texts []string
	for i, r := range records {
		call, ok := action.Read(r.AgentID, r.ActionType, r.Payload, r.Decision)
		if !ok {
			continue
		}
		if d, ok := tracker.Add(int64(i), &call); ok {
			texts = append(texts, fmt.Sprintf("refused at record %d, done at record %d", d.Refused, d.Done))
		}
	}
	if len(texts) == 0 {
		return "complete"
	}
	named := strings.Join(texts[:min(len(texts), 10)], "; ")
	if more := len(texts) - 10; more > 0 {
		named += fmt.Sprintf("; and %d more", more)
	}
	return "disobeyed: " + named + "; complete"
}

// randomCalls are records of few calls, so that many of them meet, some in odd forms.
func randomCalls(seed uint64) (records []calledRecord) {
	random := rand.New(rand.NewPCG(seed, 3))
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	for range 4 + random.IntN(40) {
		payload := fmt.Sprintf(`{"source":%s,"callId":%s`, one(`"mcp"`, `"mcp"`, `"mcp"`, `"codex"`, `"run"`, `null`),
			one(`"a"`, `"a"`, `"b"`, `"b"`, `"c"`, `"é\n"`, `"\u00e9\n"`, `""`, `1`, `"[masked]"`))
		if random.IntN(4) > 0 {
			payload += `,"sessionId":` + one(`"s"`, `"s"`, `"s"`, `"t"`, `""`, `[]`, `null`)
		}
		if random.IntN(2) == 0 {
			payload += `,"tool":` + one(`"Bash"`, `7`)
		}
		if random.IntN(2) == 0 {
			payload += `,"name":` + one(`"claude_code.tool_result"`, `"codex.x"`, `"execute_tool x"`, `null`) +
				`,"attributes":` + one(`{"success":"true"}`, `{"success":true}`, `{"success":"tru\u0065"}`, `{"success":"false"}`, `{}`, `[true]`, `null`) +
				`,"status":` + one(`{"code":"ok"}`, `{"code":"error"}`, `"ok"`, `null`)
		}
		payload += "}"
		if random.IntN(20) == 0 {
			payload = one(`null`, `"callId"`, `[]`, `1.5`, `{}`)
		}
		r := calledRecord{AgentID: one("bot", "bot", "bot", "other"), Payload: json.RawMessage(payload),
			ActionType: one("tool.requested", "tool.denied", "tool.denied", "tool.completed", "tool.failed", "tool.ended", "otel.tool", "tool.pending", "toString")}
		if random.IntN(2) == 0 { // whatever it is about: only one of a request refuses
			r.Decision = &decision.Decision{Verdict: one(decision.Allow, decision.Deny, decision.Ask)}
		}
		records = append(records, r)
	}
	return records
}

// manyCalls are as many as a checker remembers, and more: each is refused, and then done.
func manyCalls(count int) (records []calledRecord) {
	for _, actionType := range []string{"tool.denied", "tool.completed"} {
		for n := range count {
			records = append(records, calledRecord{AgentID: "bot", ActionType: actionType, Payload: json.RawMessage(fmt.Sprintf(`{"source":"mcp","callId":"c%d"}`, n))})
		}
	}
	return records
}

// The checkers find the same calls that were refused and ran all the same: in the table that they
// share, in records at random, and at the limit of what they remember.
func TestCheckersFindTheSameCalls(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	var table []struct {
		Records []calledRecord
		Found   []json.RawMessage
	}
	text, err := os.ReadFile("../chain/action/cases.json")
	must.OK(t, err)
	must.OK(t, json.Unmarshal(text, &table))
	var lists [][]calledRecord
	for _, c := range table {
		if lists = append(lists, c.Records); strings.HasPrefix(stateOfCalls(c.Records), "disobeyed") != (len(c.Found) > 0) {
			t.Errorf("%s", stateOfCalls(c.Records))
		}
	}
	for seed := range uint64(500) {
		lists = append(lists, randomCalls(seed))
	}
	lists = append(lists, manyCalls(12), manyCalls(action.MaxCalls), manyCalls(action.MaxCalls+1))
	want, disobeyed := make([]string, len(lists)), 0
	for i, records := range lists {
		if want[i] = stateOfCalls(records); want[i] != "complete" {
			disobeyed++
		}
	}
	if disobeyed < 100 || disobeyed > len(lists)-100 {
		t.Errorf("%d of %d lists have a call that disobeyed", disobeyed, len(lists))
	}
	given, err := json.Marshal(lists)
	must.OK(t, err)
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "calls.json"), given, 0o600))
	for _, name := range []string{"../sdk/python/attestd/check.py", "../web/check.mjs", "testdata/verdicts_calls.py", "testdata/verdicts_calls.mjs"} {
		text, err := os.ReadFile(name)
		must.OK(t, err)
		must.OK(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600))
	}
	library, err := filepath.Abs("../web/console/lib")
	must.OK(t, err)
	for name, states := range map[string][]string{
		"check.py":    script(t, dir, pythonWithCryptography(t), "verdicts_calls.py"),
		"check.mjs":   script(t, dir, testenv.Path(t, "node"), "verdicts_calls.mjs"),
		"the console": script(t, dir, testenv.Path(t, "node"), "verdicts_calls.mjs", library),
	} {
		if len(states) != len(want) {
			t.Fatalf("%s: %d states of %d lists", name, len(states), len(want))
		}
		for i := range want {
			if states[i] != want[i] {
				t.Errorf("%s: list %d: %.300s, want %.300s", name, i, states[i], want[i])
			}
		}
	}
}

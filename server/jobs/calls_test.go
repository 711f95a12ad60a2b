package jobs

import (
	"encoding/json"
	"strings"
	"testing"
)

// A record of a call wakes the search for calls that disobeyed, whatever its agent is called, and
// an ordinary record does not.
func TestRecordsOfCallsAreNoticed(t *testing.T) {
	t.Parallel()
	quote := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, agent := range []string{"bot", `a "quoted" \ one`, `","actionType":"tool.`, strings.Repeat(`"`, 256), strings.Repeat("\u2028", 256), ""} {
		for action, want := range map[string]bool{"tool.denied": true, "tool.": true, "tool": false, "tools.x": false, "deploy": false} {
			payload := `{"agentId":` + quote(agent) + `,"companyId":"acme","actionType":` + quote(action) + `,"payload":{"x":1}}`
			if got := mayBeOfCall([]byte(payload)); got != want {
				t.Errorf("%.200s: %v", payload, got)
			}
		}
	}
	for _, payload := range []string{"", "{", `{"agentId":"`, `{"agentId":"a","companyId":"c"`} {
		if mayBeOfCall([]byte(payload)) {
			t.Errorf("%q is a call", payload)
		}
	}
}

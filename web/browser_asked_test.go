package web_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"attestd/internal/testenv"
)

// An answer about something else than was asked is refused, on every page, and nothing of it is
// shown under the name that was asked for.
func TestBrowserRejectsResponseToAnotherRequest(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := administer(s)
	told := ""
	swap := func(answer []byte, from, to string) []byte { return bytes.ReplaceAll(answer, []byte(from), []byte(to)) }
	s.api("POST", "/v1/attest", key, toolCall("planner", "s-1", "tool.requested", map[string]any{"callId": "c"}))
	lies := map[string]struct {
		path string
		lie  func(answer []byte) []byte
	}{
		"agent":        {"/v1/agents/planner", func(answer []byte) []byte { return swap(answer, "planner", "builder") }},
		"SPIFFE ID":    {"/v1/agents/planner", func(answer []byte) []byte { return swap(answer, "agent/planner", "agent/builder") }},
		"trust domain": {"/v1/agents/planner", func(answer []byte) []byte { return swap(answer, "spiffe://attestd.local/", "spiffe://other.local/") }},
		"company":      {"/v1/agents/planner", func(answer []byte) []byte { return swap(answer, "company/acme/", "company/xacme/") }},
		"listed agent": {"/v1/agents", func(answer []byte) []byte { return swap(answer, "company/acme/", "company/xacme/") }},
		"own name":     {"/v1/company", func(answer []byte) []byte { return swap(answer, "spiffe://attestd.local/", "spiffe://other.local/") }},
		"its company":  {"/v1/company", func(answer []byte) []byte { return swap(answer, "company/acme", "company/xacme") }},
		"its key":      {"/v1/ca/public-keys", func(answer []byte) []byte { return swap(answer, "spiffe://attestd.local/", "spiffe://other.local/") }},
		"SVID": {"/v1/agents/planner/svid", func(answer []byte) []byte {
			builder := s.raw(key, "/v1/agents/builder/svid", "application/json")
			return swap(builder, `builder"`, `planner"`)
		}},
		"passports": {"/v1/passports", func(answer []byte) []byte { return swap(answer, `"agentId":"planner"`, `"agentId":"builder"`) }},
		"sessions":  {"/v1/sessions", func(answer []byte) []byte { return swap(answer, `"agentId":"planner"`, `"agentId":"builder"`) }},
		"agents":    {"/v1/agents", func(answer []byte) []byte { return swap(answer, "planner", "builder") }},
		"authority": {"/v1/authority/1", func(answer []byte) []byte { return swap(answer, `"index":1,`, `"index":0,`) }},
		"evidence":  {"/v1/evidence/2", func([]byte) []byte { return s.raw(key, "/v1/evidence/1?log=control", "application/json") }},
		"report":    {"/v1/report", func(answer []byte) []byte { return swap(answer, `"companyId":"acme"`, `"companyId":"globex"`) }},
		"histogram": {"/v1/records/histogram", func(answer []byte) []byte { return swap(answer, `"until":"2999`, `"until":"2998`) }},
	}
	base := lie(t, s, func(path string, answer []byte) []byte {
		if one, ok := lies[told]; ok && one.path == path {
			return one.lie(answer)
		}
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	for _, page := range []struct {
		lies, hash string
		act        func()
		refused    string
	}{
		{"agent", "#/agents/planner", nil, `it names "builder" as its agentId`},
		{"SPIFFE ID", "#/agents/planner", nil, "another SPIFFE ID"},
		{"trust domain", "#/agents/planner", nil, "another SPIFFE ID"},
		{"company", "#/agents/planner", nil, "another SPIFFE ID"},
		{"listed agent", "#/agents", nil, "another SPIFFE ID"},
		{"SVID", "#/agents/planner", func() { b.press("Get an SVID") }, "its token is of another agent"},
		{"passports", "#/agents/planner", nil, `it names "builder" as its agentId`},
		{"passports", "#/passports?agent=planner", nil, `it names "builder" as its agentId`},
		{"sessions", "#/sessions?agent=planner", nil, `it names "builder" as its agentId`},
		{"sessions", "#/sessions/s-1?agent=planner&kind=hook", nil, `it names "builder" as its agentId`},
		{"agents", "#/agents?q=plan", nil, "it lists the agent builder"},
		{"authority", "#/agents/agent-1?record=1", nil, `it names 0 as its index`},
		{"evidence", "#/control/2", func() { b.press("Save as evidence") }, `it names 1 as its index`},
		{"histogram", "#/records?until=2999-01-01T00:00:00.000Z", nil, "another period"},
	} {
		told = ""
		b.goTo("#/start")
		b.shows(".overview")
		told = page.lies
		b.goTo(page.hash)
		if page.act != nil {
			page.act()
		}
		b.wait(fmt.Sprintf(`[...document.querySelectorAll('main [role="alert"]')].some((e) => e.textContent.includes(%s))`, jsString(page.refused)))
	}
	told = "report"
	b.goTo("#/report")
	b.press("Create the report of everything")
	b.wait(`[...document.querySelectorAll('main [role="alert"]')].some((e) => /not answer what was asked|HASH|another/.test(e.textContent))`)
	if n := eval[int](b, `document.querySelectorAll('[data-report="ok"]').length`); n > 0 {
		t.Error("a report of another company is green")
	}
	b.press("Sign out")
	for lies, refused := range map[string]string{"own name": "another SPIFFE ID", "its company": "another SPIFFE ID", "its key": "is not that of acme in the trust domain"} {
		told = lies
		b.fill(`input[name="key"]`, key)
		b.press("Sign in")
		b.wait(fmt.Sprintf(`[...document.querySelectorAll('main [role="alert"]')].some((e) => e.textContent.includes(%s))`, jsString(refused)))
		b.reload()
	}
}

// Records that are left out at either end of the control log, or of a search, are detected: the end
// of a search has the number of matches and the part of the log that was read, and a log is at
// least as long as a checkpoint that the company has signed.
func TestBrowserDetectsRecordsOmittedAtTheEnd(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := administer(s)
	s.attest(key, 40)
	told := ""
	// the records of a page without some of its first and last ones
	cut := func(answer []byte, first, last int) []byte {
		head, rest, _ := bytes.Cut(answer, []byte(`{"records":[`))
		list, tail, _ := bytes.Cut(rest, []byte(`],"size":`))
		records := strings.Split(strings.ReplaceAll(string(list), `},{"index":`, "}\n{\"index\":"), "\n")
		records = records[first : len(records)-last]
		return []byte(string(head) + `{"records":[` + strings.Join(records, ",") + `],"size":` + string(tail))
	}
	base := lie(t, s, func(path string, answer []byte) []byte {
		control := bytes.Contains(answer, []byte(`"log":"control"`))
		switch {
		case path == "/v1/records" && told == "newest" && control:
			return cut(answer, 2, 0)
		case path == "/v1/records" && told == "oldest" && control:
			return cut(answer, 0, 2)
		case path == "/v1/records" && told == "shorter" && control:
			var size int
			_, after, _ := bytes.Cut(answer, []byte(`],"size":`))
			_, _ = fmt.Sscanf(string(after), "%d", &size)
			return bytes.ReplaceAll(cut(answer, 2, 0), fmt.Appendf(nil, `"size":%d,"read":{"from":0,"to":%d}`, size, size), fmt.Appendf(nil, `"size":%d,"read":{"from":0,"to":%d}`, size-2, size-2))
		case path == "/v1/records" && told == "read":
			return bytes.Replace(answer, []byte(`"read":{"from":0,`), []byte(`"read":{"from":3,`), 1)
		case path == "/v1/records" && told == "found":
			before, event, _ := bytes.Cut(answer, []byte("event: record\n"))
			_, event, _ = bytes.Cut(event, []byte("\n\n"))
			return append(before, event...)
		case path == "/v1/logs" && told == "logs":
			return bytes.Replace(answer, []byte(`"size":43,`), []byte(`"size":41,`), 1)
		}
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`.pulse.ok`)
	for _, page := range []struct{ lies, hash, missed string }{
		{"newest", "#/control", "the newest that the server shows is"},
		{"oldest", "#/control", "and says that it has shown them down to 0"},
		{"shorter", "#/control", "a checkpoint that the company signed"},
		{"read", "#/control?kind=agent.*", "records were left out"},
		{"read", "#/records?agent=agent-1", "records were left out"},
		{"found", "#/records?q=note", "and gave"},
		{"logs", "#/records", "a checkpoint that the company signed"},
	} {
		told = ""
		b.goTo("#/start")
		b.shows(".overview")
		told = page.lies
		b.goTo(page.hash)
		b.wait(fmt.Sprintf(`[...document.querySelectorAll('main .page [role="alert"]')].some((e) => e.textContent.includes(%s))`, jsString(page.missed)))
		if page.hash == "#/control" {
			b.reads(`.page [role="status"]`, "Nothing was loaded: see the error below")
		}
	}
}

// One unsigned answer claims other roots for the logs. It is not remembered: when the service is
// asked again, nothing is held against it.
func TestBrowserUnsignedHeadIsNoProof(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 20)
	lied := 0
	lying := true
	base := lie(t, s, func(path string, answer []byte) []byte {
		if path != "/v1/logs" || !lying {
			return answer
		}
		lied++
		first, rest, _ := bytes.Cut(answer, []byte(`"root":"`))
		return append(append(first, []byte(`"root":"`+strings.Repeat("a", 64))...), rest[64:]...)
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/live")
	b.shows(`[data-checked="0-20"]`)
	lying = false
	b.goTo("#/start")
	b.reload()
	b.signIn(key)
	s.attest(key, 1)
	b.goTo("#/live")
	b.shows(`.pulse.ok`)
	b.reads(".pulse-sub", "21 records checked here")
	if n := eval[int](b, `document.querySelectorAll('[data-finding]').length`); n > 0 || lied == 0 {
		t.Errorf("%d findings after %d lies that nobody signed", n, lied)
	}
}

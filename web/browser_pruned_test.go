package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// prunedCompany is acme, with payloads that were pruned.
type prunedCompany struct {
	*service
	key     string
	archive string // its SHA-256
	pruned  int    // records without payload, the first ones
	size    int
}

// act records actions of an agent, one of them under a delegation of the company.
func (s *service) act(key, agent string) {
	s.t.Helper()
	token := s.api("POST", "/v1/token-exchange", key, map[string]any{"agentId": agent, "actingOn": "acme", "scope": "pay"})["token"]
	for _, more := range []map[string]any{{"delegation": token}, {}} {
		more["agentId"], more["actionType"], more["payload"] = agent, "payment.send", map[string]any{"note": "needle " + agent}
		s.api("POST", "/v1/attest", key, more)
	}
}

// startPruned starts a service whose operator has pruned the older part of its log. The agent old
// and its sessions are in that part, new is in the rest, and half in both.
func startPruned(t *testing.T) prunedCompany {
	t.Helper()
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	s := startServiceAgo(t, 72*time.Hour)
	c := prunedCompany{key: s.company("acme")}
	for _, agent := range []string{"old", "half", "new"} {
		s.api("POST", "/v1/agents/register", c.key, map[string]any{"agentId": agent})
	}
	old, half := s.signer(c.key, "old", jose.EdDSA), s.signer(c.key, "half", jose.EdDSA)
	for agent, a := range map[string]*signer{"old": old, "half": half} {
		s.act(c.key, agent)
		s.hookSession(c.key, agent, "hooks-"+agent)
		a.steps("steps-"+agent, agent == "old", 0, 1, 2)
	}
	s.attest(c.key, 10)
	s.stop()

	// the days since the last record are no leap of the clock
	s = startService(t, s.db, "", "--accept-clock")
	half.service = s
	for _, action := range []string{"tool.completed", "session.ended"} {
		s.api("POST", "/v1/attest", c.key, toolCall("half", "hooks-half", action, map[string]any{"tool": "x", "callId": "c4"}))
	}
	half.steps("steps-half", true, 3, 4)
	s.act(c.key, "new")
	s.hookSession(c.key, "new", "hooks-new")
	s.signer(c.key, "new", jose.EdDSA).steps("steps-new", true, 0, 1, 2)
	s.attest(c.key, 3)
	s.stop()

	path, err := binary()
	must.OK(t, err)
	var out, errs bytes.Buffer
	archive := exec.Command(path, "archive", "--company", "acme", "--before", "1d", "--out", filepath.Join(t.TempDir(), "acme.ndjson"),
		"--prune", "--json", "--db", s.db)
	archive.Stdout, archive.Stderr = &out, &errs
	if err := archive.Run(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	var made struct {
		SHA256 string
		Pruned int
	}
	must.OK(t, json.Unmarshal(out.Bytes(), &made))
	c.archive, c.pruned = made.SHA256, made.Pruned
	c.service = startService(t, s.db, "")
	c.size = int(c.api("GET", "/v1/logs", c.key, nil)["logs"].([]any)[0].(map[string]any)["size"].(float64))
	if c.pruned != 34 || c.size < 50 {
		t.Fatalf("%d of %d records were pruned", c.pruned, c.size)
	}
	return c
}

// pages are those of the menu, and of each agent, session and kind of record.
func (c prunedCompany) pages(b *browser) []string {
	c.t.Helper()
	all := eval[[]string](b, `[...document.querySelectorAll('.nav a')].map((a) => a.getAttribute('href'))`)
	for _, agent := range []string{"old", "half", "new", "agent-0", "nobody"} {
		all = append(all, "#/agents/"+agent, "#/agents/"+agent+"?record=0", "#/records?agent="+agent, "#/sessions?agent="+agent,
			"#/records?failures=1&agent="+agent)
	}
	for _, session := range c.api("GET", "/v1/sessions", c.key, nil)["sessions"].([]any) {
		s := session.(map[string]any)
		all = append(all, fmt.Sprintf("#/sessions/%s?agent=%s&kind=%s&kid=%s", s["sid"], s["agentId"], s["kind"], s["kid"]))
	}
	for _, search := range []string{"order=oldest", "action=payment.*", "action=nothing", "q=needle", "q=nothing", "payload=n%3D1", "delegatedBy=*",
		"delegatedBy=nobody", "failures=1", "agent=old&delegatedBy=*", "until=2020-01-01T00%3A00%3A00.000Z"} {
		all = append(all, "#/records?"+search)
	}
	own := "spiffe%3A%2F%2Fattestd.local%2Fcompany%2Facme"
	all = append(all, "#/delegations?from="+own+"&to="+own+"%2Fagent%2Fold", "#/delegations?from="+own+"&to="+own+"%2Fagent%2Fnew")
	for _, index := range []int{0, c.pruned - 1, c.pruned, c.size - 1} {
		all = append(all, fmt.Sprint("#/records/", index), fmt.Sprint("#/proof/", index))
	}
	control := int(c.api("GET", "/v1/records?log=control&action=payloads.pruned", c.key, nil)["records"].([]any)[0].(map[string]any)["index"].(float64))
	return append(all, fmt.Sprint("#/control/", control), fmt.Sprintf("#/proof/%d?log=control", control))
}

// shownTones are the elements of the page with a tone.
const shownTones = `[...document.querySelectorAll('#app [class~="%[1]s"], #app [class~="%[1]s-text"], #app [data-tone="%[1]s"], #app [data-check="%[1]s"]')].map((e) => e.outerHTML.slice(0, 300))`

// nothing is what a page says where there is nothing.
var nothing = regexp.MustCompile(`No records yet|No matching records|No delegations\.|No agent has acted|No record matches\.|is not on record`)

// A log of which the operator has pruned a part is red on no page, and green in nothing that was
// pruned. No page says that there is nothing where records could not be searched; it says how many,
// and which archive has them.
func TestBrowserPrunedEveryPage(t *testing.T) {
	c := startPruned(t)
	b := openBrowser(t, c.base)
	b.signIn(c.key)
	b.confirmKey(c.service, "acme")
	holds := func(name string) {
		t.Helper()
		b.wait(`!/(Loading|Checking|Searching|Reading) …/.test(document.querySelector('#app').innerText) && !document.querySelector('#app [aria-busy="true"]')`)
		b.settle()
		for _, bad := range eval[[]string](b, fmt.Sprintf(shownTones, "bad")) {
			t.Errorf("%s is red: %s", name, bad)
		}
		text := eval[string](b, `document.querySelector('#app').innerText`)
		unsearched := strings.Contains(text, "because their payloads were pruned")
		if said := nothing.FindString(text); said != "" && (unsearched || !strings.Contains(name, "until=2020") && !strings.Contains(name, "nobody")) {
			t.Errorf("%s says %q", name, said)
		}
		if !eval[bool](b, fmt.Sprintf(`[...document.querySelectorAll('[data-unsearched]')].every((e) => e.querySelector('[data-archive=%q]'))`, c.archive)) {
			t.Errorf("%s does not name the archive %s: %s", name, c.archive, text)
		}
	}
	for _, name := range c.pages(b) {
		b.goTo(name)
		holds(name)
	}

	for search, passed := range map[string]int{"agent=old": c.pruned, "agent=half": c.pruned, "q=needle": c.pruned, "action=payment.*": c.pruned,
		"payload=n%3D1": c.pruned, "agent=old&failures=1": c.pruned} {
		b.goTo("#/records?" + search)
		b.shows(fmt.Sprintf(`[data-unsearched="%d"] [data-archive=%q]`, passed, c.archive))
	}
	b.goTo("#/agents/old")
	b.reads(`[aria-label="Records of this agent"]`, "No record that could be searched is of this agent.")
	b.shows(`[aria-label="Records of this agent"] [data-unsearched]`)
	b.shows(`[aria-label="Delegations"] [data-unsearched]`)
	b.goTo("#/delegations")
	b.shows(`[data-unsearched="2"]`)
	b.wait(`document.querySelectorAll('tr[data-tone="ok"]').length === 1`)

	b.goTo("#/records?order=oldest")
	b.look(look{1280, "light"})
	b.tall()
	b.wait(fmt.Sprintf(`[...document.querySelectorAll('.vlist-row')].filter((row) => Number(row.dataset.index) < 60).every((row) =>
		row.dataset.check === (Number(row.dataset.index) < %d ? 'warn' : 'ok'))`, c.pruned))
	b.goTo("#/records/0")
	b.reads(`section[data-check="warn"]`, "Payload pruned.")
	b.shows(fmt.Sprintf(`dialog section[data-check="warn"] [data-archive=%q]`, c.archive))
	if green := eval[int](b, `document.querySelectorAll('section[data-check="ok"]').length`); green != 0 {
		t.Error("a record without its payload is green")
	}
	b.goTo("#/proof/0")
	b.reads(`.notice.warn`, c.archive)

	for page, want := range map[string]string{
		"hooks-old?agent=old&kind=hook": "pruned", "hooks-half?agent=half&kind=hook": "pruned", "hooks-new?agent=new&kind=hook": "unproven",
		"steps-old?agent=old&kind=statement": "pruned", "steps-half?agent=half&kind=statement": "pruned",
		"steps-new?agent=new&kind=statement": "complete",
	} {
		b.goTo("#/sessions/" + page)
		// the agents' keys are not confirmed
		tone := map[string]string{"complete": "warn"}[want]
		b.shows(fmt.Sprintf(`[data-whole=%q][data-whole-tone=%q]`, want, tone))
		if is := eval[bool](b, `document.querySelector('.session-summary [data-unsearched]') !== null`); is != (want == "pruned") {
			t.Errorf("%s says how many of its records were pruned: %v", page, is)
		}
		b.press("Save file")
		if want == "pruned" {
			b.reads(`.session-summary .notice.warn:not([data-unsearched] *)`, c.archive)
		}
		holds(page)
	}

	b.goTo("#/verify")
	b.press("Verify the whole chain")
	b.shows(`[data-verdict="pruned"][data-tone="warn"]`)
	b.reads(`[data-verdict="pruned"]`, c.archive)
	holds("the verification")
	b.goTo("#/report")
	b.press("Create the report of everything")
	b.shows(`[data-report="warn"][data-code="PRUNED"]`)
	b.reads(`[data-report]`, c.archive)
	holds("the report")
}

var wholePayload = regexp.MustCompile(`\{"index":(\d+),"timestamp":"[^"]*","payload":(\{.*?\}),"hash":"[0-9a-f]{64}"`)

// prunedBelow leaves actions below an index without their payloads.
func prunedBelow(end int, answer []byte) []byte {
	return wholePayload.ReplaceAllFunc(answer, func(record []byte) []byte {
		at := wholePayload.FindSubmatchIndex(record)
		if index, _ := strconv.Atoi(string(record[at[2]:at[3]])); index >= end {
			return record
		}
		return append(append(append([]byte{}, record[:at[4]]...), `null,"pruned":true`...), record[at[5]:]...)
	})
}

// A server hides no record by calling it pruned, and no find by calling records unsearched: without
// a control record that says so, the record is red, and so is the session of it.
func TestBrowserPrunedByALiar(t *testing.T) {
	c := startPruned(t)
	control := regexp.MustCompile(`"log":"control"`)
	base := lie(t, c.service, func(path string, answer []byte) []byte {
		if path == "/v1/records" && !control.Match(answer) {
			return regexp.MustCompile(`"pruned":\d+`).ReplaceAll(answer, fmt.Appendf(nil, `"pruned":%d`, c.pruned+1))
		}
		if path == "/v1/chain" && !control.Match(answer) || strings.HasSuffix(path, "/hooks-new/records") {
			return prunedBelow(c.size, answer)
		}
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(c.key)
	b.confirmKey(c.service, "acme")
	const unproven = "no signed control record says so"
	b.goTo("#/records?order=oldest")
	b.look(look{1280, "light"})
	b.tall()
	b.shows(fmt.Sprintf(`[data-index="%d"][data-check="warn"]`, c.pruned-1))
	b.reads(fmt.Sprintf(`[data-index="%d"][data-check="bad"]`, c.pruned), unproven)
	b.goTo(fmt.Sprint("#/records/", c.pruned))
	b.reads(`dialog section[data-check="bad"]`, unproven)
	b.goTo("#/sessions/hooks-new?agent=new&kind=hook")
	b.shows(`[data-whole="fails"][data-whole-tone="bad"]`)
	b.goTo("#/records?agent=old")
	b.reads(`.notice.bad`, unproven[:len(unproven)-3])
	b.goTo("#/agents/old")
	b.reads(`[aria-label="Records of this agent"] .notice.bad`, unproven[:len(unproven)-3])
	b.goTo("#/verify")
	b.press("Verify the whole chain")
	b.shows(fmt.Sprintf(`[data-verdict="failed"][data-failed-at="%d"]`, c.size-1))
}

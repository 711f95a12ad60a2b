package web_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// exchange lets an agent act on the token of a principal: the delegation token, and the SVID of an
// agent that is registered for it.
func (s *service) exchange(key, subjectToken, actor string) string {
	s.t.Helper()
	return s.api("POST", "/v1/token/exchange", key, map[string]any{
		"grant_type":    "urn:ietf:params:oauth:grant-type:token-exchange",
		"subject_token": subjectToken, "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
		"actor_token": s.svid(key, actor), "actor_token_type": "urn:ietf:params:oauth:token-type:jwt",
	})["access_token"].(string)
}

func (s *service) svid(key, agent string) string {
	s.t.Helper()
	return s.api("GET", "/v1/agents/"+agent+"/svid", key, nil)["svid"].(string)
}

// delegated gives a company agents of which planner acts for the company, and two others for
// planner, one of them for both; and records of that: three of the company's planner, two of the
// searcher for planner, and one of the writer for searcher for planner.
func delegated(s *service) (key string) {
	s.t.Helper()
	key = s.company("acme")
	for _, agent := range []string{"planner", "searcher", "writer"} {
		s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": agent, "metadata": map[string]any{"team": "payments", "model": "m-1"}})
	}
	record := func(agent, token string, n int) {
		for i := range n {
			s.api("POST", "/v1/attest", key, map[string]any{"agentId": agent, "actionType": "tool.call", "payload": i, "delegation": token})
		}
	}
	company := s.api("POST", "/v1/companies/svid", key, nil)["svid"].(string)
	planner := s.exchange(key, company, "planner")
	searcher := s.exchange(key, s.svid(key, "planner"), "searcher")
	record("planner", planner, 3)
	record("searcher", searcher, 2)
	record("writer", s.exchange(key, searcher, "writer"), 1)
	s.api("POST", "/v1/attest", key, map[string]any{"agentId": "planner", "actionType": "plan", "payload": "alone", "delegation": s.svid(key, "planner")})
	s.api("POST", "/v1/attest", key, map[string]any{"agentId": "planner", "actionType": "plan", "payload": "without any"})
	return key
}

// edges are those of the picture, and of the list below it, as "from>to count".
func (b *browser) edges(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf(`[...document.querySelectorAll(%q)].map((e) => [e.dataset.from, e.dataset.to].map((id) => id.split('/').at(-1)).join('>') + ' ' + (e.dataset.count ?? e.textContent.match(/in ([0-9]+)/)[1])).sort().join(', ')`, selector))
}

// The page of an agent shows its records, verified in the browser, and who acted for whom: the
// edges of the picture are those of the delegation chains of its records, the page gives the number
// of records that were drawn, and a list has the same content.
func TestBrowserAgentPage(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := delegated(s)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/agents/planner")
	b.shows(`[data-drawn="7"]`)
	b.shows(`[aria-label="Delegations"] .badge.warn`) // the server also chose the key
	if green := eval[int](b, `document.querySelectorAll('main .ok').length`); green > 0 {
		t.Errorf("%d things are green before the key is confirmed", green)
	}
	b.confirmKey(s, "acme")
	b.goTo("#/agents/planner")
	b.shows(`[data-drawn="7"][data-failed="0"]`)
	b.shows(`[aria-label="Delegations"] .badge.ok`)
	const want = "acme>planner 3, planner>searcher 3, searcher>writer 1"
	b.shows(`.delegations path.acts`)
	if got := b.edges(`.delegations path.acts`); got != want {
		t.Errorf("the picture has the edges %s, want %s", got, want)
	}
	if got := b.edges(`.acted li[data-from]`); got != want {
		t.Errorf("the list has the edges %s, want %s", got, want)
	}
	b.reads(`.acted`, "acted with its own token, on no one’s behalf, in 1 record")
	b.reads(`[aria-label="Delegations"]`, "Based on 7 records: those in which it acted under a delegation (4), and those in which others acted for it (4)")
	b.shows(`[data-records="5"] li[data-index="7"][data-check="ok"]`)
	b.reads(`[aria-label="Records of this agent"]`, "All 5 records")
	b.shows(`[aria-label="Records of this agent"] .bars a`)
	if hash := eval[string](b, `document.querySelector('[aria-label="Records of this agent"] .card-head a').hash`); hash != "#/records?agent=planner" {
		t.Errorf("all records are at %s", hash)
	}
	b.shows(`a.principal-box[href="#/agents/searcher"]`)

	// The agent's registration and all its changes are in the control log, and are verified in the
	// browser.
	b.shows(`[data-authority="7"] .change-line[data-check="ok"]`)
	b.reads(`[aria-label="Authority"]`, "the agent was registered at that time")
	b.shows(`[aria-label="Changes of this agent"] .change-line[data-action="agent.registered"][data-check="ok"]`)

	// The URL names the requested record: a record leads there, also one that is not among the
	// newest, and never one of another agent.
	b.goTo("#/records/0")
	b.press("Authorization at that time")
	b.shows(`[data-authority="0"] .change-line[data-check="ok"]`)
	eval[bool](b, `(() => { const s = document.querySelector('select[name="record"]'); s.value = '6'; return s.dispatchEvent(new Event('change', { bubbles: true })); })()`)
	b.shows(`[data-authority="6"]`)
	b.wait(`location.hash === '#/agents/planner?record=6'`)
	b.goTo("#/agents/planner?record=3")
	b.reads(`[aria-label="Authority"] .notice.bad`, "belongs to another agent")
}

// A picture of many records is drawn from the newest 500 at first, with a note, and from more on
// request.
func TestBrowserAgentOfManyRecords(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	token := s.exchange(key, s.api("POST", "/v1/companies/svid", key, nil)["svid"].(string), "bot")
	for range 6 {
		items := make([]map[string]any, 85)
		for i := range items {
			items[i] = map[string]any{"agentId": "bot", "actionType": "tool.call", "payload": i, "delegation": token}
		}
		s.api("POST", "/v1/attest/batch", key, map[string]any{"records": items})
	}
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/agents/bot")
	b.shows(`[data-drawn="500"][data-failed="0"]`)
	b.reads(`[aria-label="Delegations"]`, "Based on 500 records: those in which it acted under a delegation (the newest 500 of 510)")
	b.press("Include up to 5,000 records")
	b.shows(`[data-drawn="510"]`)
	b.wait(`document.querySelector('.delegations path.acts[data-count="510"]')`)
}

// A server that changes one principal in the delegation of a record is detected: the record's
// delegation is not drawn, and the page reports it in red.
func TestBrowserAgentDelegationLies(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := delegated(s)
	base := lie(t, s, func(path string, answer []byte) []byte {
		if path != "/v1/records" {
			return answer
		}
		// Record 0, of planner for the company, becomes one for the writer.
		at := bytes.Index(answer, []byte(`"index":0,`))
		if at < 0 {
			return answer
		}
		lied := bytes.Replace(answer[at:], []byte(`"delegationChain":["spiffe://attestd.local/company/acme"`), []byte(`"delegationChain":["spiffe://attestd.local/company/acme/agent/writer"`), 1)
		return append(bytes.Clone(answer[:at]), lied...)
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/agents/planner")
	b.shows(`[data-drawn="6"][data-failed="1"]`)
	b.reads(`[aria-label="Delegations"] .notice.bad`, "Record 0: its content does not hash to the hash that it names")
	b.reads(`[aria-label="Delegations"] .badge.bad`, "1 record of 7 fail")
	if got, want := b.edges(`.delegations path.acts`), "acme>planner 2, planner>searcher 3, searcher>writer 1"; got != want {
		t.Errorf("the picture has the edges %s, want %s", got, want)
	}
	b.shows(`[data-records] li[data-index="0"][data-check="bad"]`)

	// A record of another agent is none that was asked for.
	other := openBrowser(t, lie(t, s, func(path string, answer []byte) []byte {
		if path == "/v1/records" {
			return bytes.ReplaceAll(answer, []byte(`"agentId":"planner"`), []byte(`"agentId":"writer"`))
		}
		return answer
	}))
	other.signIn(key)
	other.goTo("#/agents/planner")
	other.reads(`[aria-label="Records of this agent"] [role="alert"]`, "is not one that was asked for")
}

// A control record that differs from the service's statement about it, and a changed one, are shown
// in red.
func TestBrowserAgentAuthorityLies(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := delegated(s)
	base := lie(t, s, func(path string, answer []byte) []byte {
		switch path {
		case "/v1/authority/7":
			return bytes.ReplaceAll(answer, []byte(`"actionType":"agent.registered"`), []byte(`"actionType":"agent.enabled"`))
		case "/v1/records":
			return bytes.ReplaceAll(answer, []byte(`"actionType":"agent.registered"`), []byte(`"actionType":"agent.enabled"`))
		}
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/agents/planner")
	b.reads(`[data-authority="7"] .change-line[data-check="bad"]`, "differs from what the service says about it")
	b.reads(`[aria-label="Changes of this agent"] .change-line[data-check="bad"]`, "does not hash")
}

// Agents are searched on the server, by a part of their ID and by status, with totals; what is
// sought is in the URL.
func TestBrowserAgentSearch(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	for i := range 120 {
		s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": fmt.Sprintf("%s-%03d", []string{"Deploy", "mail"}[i%2], i)})
	}
	s.api("POST", "/v1/agents/mail-001/disable", key, nil)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/agents?q=deploy")
	b.shows(`[data-total="60"]`)
	b.wait(`document.querySelectorAll('.rows li').length === 50`)
	b.press("Show more")
	b.wait(`document.querySelectorAll('.rows li').length === 60`)
	b.fill(`input[name="q"]`, "MAIL-0")
	b.shows(`[data-total="50"]`)
	b.wait(`location.hash === '#/agents?q=MAIL-0'`)
	eval[bool](b, `(() => { const s = document.querySelector('select[name=status]'); s.value = 'disabled'; return s.dispatchEvent(new Event('change')); })()`)
	b.shows(`[data-total="1"]`)
	b.reads(`li[data-agent="mail-001"] .badge`, "disabled")
	b.wait(`location.hash === '#/agents?q=MAIL-0&status=disabled'`)
	eval[bool](b, `(document.querySelector('li[data-agent="mail-001"] a').click(), true)`)
	b.reads("h1", "mail-001")
	eval[bool](b, `(history.back(), true)`)
	b.wait(`document.activeElement.textContent === 'Agents' && document.querySelector('[data-total="1"]')`)
	b.fill(`input[name="q"]`, "nobody")
	b.reads(`.empty`, "No agent matches.")
}

// An agent is disabled and enabled after a question. Its page shows its passports, which are
// issued, revoked and asked for there; disabling it revokes what it has.
func TestBrowserAgentDisabled(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/agents/bot")
	for n := range 2 {
		b.shows(fmt.Sprintf(`[data-passports="%d"]`, n))
		b.press("Issue passport")
		b.shows(fmt.Sprintf(`[data-passports="%d"]`, n+1))
	}
	b.press("Signed status")
	b.reads(`[data-signed-status="valid"] .badge.ok`, "not revoked, signed")
	b.press("Revoke")
	b.fill("dialog input", "lost")
	eval[bool](b, `(document.querySelector('dialog .danger').click(), true)`)
	b.reads(`tr[data-status="revoked"]`, "lost")
	b.shows(`tr[data-status="valid"]`)
	if green := eval[int](b, `document.querySelectorAll('tr .ok:not([data-signed-status] *)').length`); green > 0 {
		t.Errorf("%d states that the server says are green", green)
	}

	b.press("Disable")
	b.reads(`dialog[open]`, "All its passports are revoked permanently")
	b.press("Cancel")
	b.wait(`!document.querySelector('dialog')`)
	if s.api("GET", "/v1/agents/bot", key, nil)["disabledAt"] != nil {
		t.Fatal("the agent is disabled after Cancel")
	}
	b.press("Disable")
	b.press("Disable agent")
	b.shows(`[data-agent-status="disabled"]`)
	b.reads(`.notice`, "1 passport was revoked with it")
	b.wait(`document.querySelectorAll('tr[data-status="revoked"]').length === 2`)
	b.shows(`[aria-label="Changes of this agent"] .change-line[data-action="agent.disabled"]`)
	b.press("Enable")
	b.press("Enable agent")
	b.shows(`[data-agent-status="active"]`)
	b.shows(`[aria-label="Changes of this agent"] .change-line[data-action="agent.enabled"]`)
}

// Registering an agent that is there shows what would become of its metadata, member by member, and
// asks; Cancel leaves it as it is.
func TestBrowserAgentReload(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, `{"agentId":"bot","metadata":{"team":"payments","limit":10,"tags":["a"],"owner":{"name":"Ann"}}}`)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/agents")
	b.fill(`input[name="agentId"]`, "bot")
	b.fill(`textarea[name="metadata"]`, `{"team":"pay\u202ements","limit":10.0,"owner":{"name":"Bob","since":2},"new/one":true}`)
	b.press("Register agent")
	b.reads(`dialog[open] h2`, "Edit the metadata of bot?")
	b.shows(`.differences`)
	const want = `/new~1one: nothing > true, /owner/name: "Ann" > "Bob", /owner/since: nothing > 2, /tags: ["a"] > nothing, /team: "payments" > "pay\u202ements"`
	got := eval[string](b, `[...document.querySelectorAll('.differences li')].map((li) => li.dataset.pointer + ': ' + [...li.querySelectorAll('dd')].map((dd) => dd.textContent).join(' > ')).sort().join(', ')`)
	if got != want {
		t.Errorf("the difference is %s\nwant %s", got, want)
	}
	b.press("Cancel")
	b.wait(`!document.querySelector('dialog')`)
	metadata := func() string { return fmt.Sprint(s.api("GET", "/v1/agents/bot", key, nil)["metadata"]) }
	if was := metadata(); !strings.Contains(was, "Ann") {
		t.Fatalf("the metadata after Cancel is %s", was)
	}
	b.press("Register agent")
	b.press("Replace metadata")
	b.reads(`form .notice`, "is registered")
	if now := metadata(); !strings.Contains(now, "Bob") {
		t.Errorf("the metadata is %s", now)
	}

	// On its own page its metadata is in the form, and what is left out is gone.
	b.goTo("#/agents/bot")
	b.press("Edit metadata")
	b.wait(`document.querySelector('textarea[name="metadata"]').value.includes('Bob')`)
	b.fill(`textarea[name="metadata"]`, " ")
	b.press("Register")
	b.wait(`document.querySelectorAll('.differences li').length === 4`)
	eval[bool](b, `(document.querySelector('dialog .danger').click(), true)`)
	b.reads(`[aria-label="Registration"]`, "none")
	b.reads(`[aria-label="Registration"] .notice`, "is registered")

	// Records may name an unregistered agent; its page says so and shows them.
	s.api("POST", "/v1/attest", key, map[string]any{"agentId": "no/body", "actionType": "x", "payload": 1})
	b.goTo("#/agents/no%2Fbody")
	b.reads(`[aria-label="Registration"]`, "No agent with this ID is registered")
	b.shows(`[data-records="1"] li[data-check="warn"]`)
	b.reads(`[aria-label="Authority"]`, "the agent was not registered at that time")
}

// A company that the operator has suspended sees that above every page, with the reason as text,
// and reads on.
func TestBrowserSuspendedCompany(t *testing.T) {
	s := startService(t, "", "")
	key := s.company("acme")
	s.attest(key, 2)
	path, err := binary()
	must.OK(t, err)
	if out, err := exec.Command(path, "company", "suspend", "acme", "--reason", "unpaid <b>bills</b>", "--db", s.db).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.reads("[data-suspended]", "The operator of this service has suspended acme")
	b.reads("[data-suspended]", "“unpaid <b>bills</b>”")
	b.goTo("#/records")
	b.reads("[data-suspended]", "has suspended acme")
	b.wait(`document.querySelector('[data-index="1"]')`)
	b.goTo("#/control")
	b.wait(`document.body.textContent.includes('The operator of the service suspended the company')`)
}

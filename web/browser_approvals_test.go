package web_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

const askingPolicies = `permit (principal, action, resource) unless { resource == Tool::"Bash" || resource == Tool::"bank/transfer" };
permit (principal, action, resource == Tool::"Bash") when { context.approved };
@quorum("2") permit (principal, action, resource == Tool::"bank/transfer") when { context.approved };`

// tampering lets a test change what a page hears: tamper(path, text) returns the text instead.
const tampering = `window.tamper = null; window.asked = 0;
const heard = window.fetch;
window.fetch = async (request, options) => {
	const response = await heard(request, options);
	if (!tamper || !/json/.test(response.headers.get('Content-Type'))) return response;
	const text = tamper(new URL(request.url ?? request, location.href).pathname, await response.text());
	return new Response(text, { status: response.status, headers: response.headers });
};
const get = navigator.credentials.get.bind(navigator.credentials);
navigator.credentials.get = (...all) => { window.asked++; return get(...all); };`

// asks records a call of a tool that the policies decide, and returns the decision in its record.
func (s *service) asks(key, tool, input string) (verdict, approval string) {
	s.t.Helper()
	answer := s.api("POST", "/v1/attest", key, map[string]any{
		"agentId": "bot", "actionType": "tool.requested", "decide": true,
		"payload": json.RawMessage(fmt.Sprintf(`{"source":"claude-code","sessionId":"s-1","callId":"c-1","tool":%q,"input":%s}`, tool, input)),
	})
	var record struct {
		Payload struct {
			Decision struct{ Verdict, Approval string }
		}
	}
	must.OK(s.t, json.Unmarshal([]byte(jsonOf(s.t, answer)), &record))
	return record.Payload.Decision.Verdict, record.Payload.Decision.Approval
}

// person makes a person, and a browser in which that person is signed in.
func (s *service) person(key, id string) *browser {
	s.t.Helper()
	s.api("POST", "/v1/people", key, map[string]any{"personId": id, "name": strings.ToUpper(id), "roles": []string{"approver"}, "groups": []string{}})
	at, err := url.Parse(s.api("POST", "/v1/people/"+id+"/invitations", key, nil)["url"].(string))
	must.OK(s.t, err)
	b := openBrowser(s.t, strings.Replace(s.base, "127.0.0.1", "localhost", 1))
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: tampering})
	b.reload()
	b.authenticator()
	b.goTo("#" + at.Fragment)
	b.press("Make a passkey")
	b.reads(`.top .who`, strings.ToUpper(id))
	return b
}

// A call that a policy answers with ask appears in the inbox, and a person approves it with a
// passkey: the same call is allowed once. Another one is denied, and one ends. What the server
// offers to sign is what the page has computed from the record, or the passkey is not asked.
func TestBrowserApprovals(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	s.api("PUT", "/v1/policies/asking", key, map[string]any{"cedar": askingPolicies})
	b := s.person(key, "alice")
	b.confirmKey(s, "acme")
	b.goTo("#/approvals")
	b.shows(`[data-waiting="0"]`)
	const push = `{"command":"git push --force"}`
	verdict, id := s.asks(key, "Bash", push)
	if verdict != "ask" || id == "" {
		t.Fatalf("the decision is %s with the approval %q", verdict, id)
	}
	state := func(id string) string {
		t.Helper()
		return s.api("GET", "/v1/approvals/"+id, key, nil)["state"].(string)
	}
	b.shows(fmt.Sprintf(`[data-waiting="1"] [data-approval=%q] [data-left]`, id))
	b.loadAxe()
	for _, l := range looks(390, 1280) {
		b.look(l)
		b.goTo("#/approvals")
		b.shows(`[data-waiting="1"]`)
		b.audit("approvals " + l.String())
		b.fits("approvals " + l.String())
		b.goTo("#/approvals/" + id)
		b.shows(`[data-request="ok"]`)
		b.shows(`[data-rules="1"] .code`)
		b.wait(`document.querySelector('[data-signs="approve"]')?.textContent.length === 43`)
		b.audit("approval " + l.String())
		b.fits("approval " + l.String())
	}
	b.reads(`[data-request]`, "git push --force")
	b.reads(`[data-rules="1"]`, `when { context.approved }`)
	b.reads(`[aria-label="Decide"] h2`, "ALICE")
	b.goTo("#/start")
	b.reads(`[aria-label="Incidents"]`, "1 call waits for you")
	b.goTo("#/approvals/" + id)
	b.shows(`[data-request="ok"]`)
	for what, tamper := range map[string]string{
		"something else to sign": `text.replace(/"index":(\d+)/, (all, n) => '"index":' + (Number(n) + 1))`,
		"another challenge":      `text.replace(/("publicKey":.*"challenge":")(.)/, (all, before, c) => before + (c === 'A' ? 'B' : 'A'))`,
	} {
		eval[bool](b, fmt.Sprintf(`(window.tamper = (path, text) => path.endsWith('/options') ? %s : text, true)`, tamper))
		b.press("Approve with a passkey")
		b.reads(`[aria-label="Decide"] [role=alert]`, what)
	}
	if n := eval[int](b, `asked`); n != 0 || state(id) != "pending" {
		t.Errorf("the passkey was asked %d times, and the approval is %s", n, state(id))
	}
	eval[bool](b, `(window.tamper = null, true)`)
	b.fill(`[name=reason]`, "release day")
	b.press("Approve with a passkey")
	b.shows(`[data-approval-state="approved"]`)
	b.reads(`[data-decided="approved"]`, "release day")
	b.reads(`[data-decided="approved"]`, "alice approved the call of Bash by bot")
	b.wait(`!document.querySelector('[data-misstated], [data-refused]')`)
	if verdict, by := s.asks(key, "Bash", push); verdict != "allow" || by != id {
		t.Errorf("the same call is decided %s, by %q", verdict, by)
	}
	b.shows(`[data-decided="used"]`)
	b.wait(`!document.querySelector('[data-misstated], [data-refused]')`)
	b.picture("approval-used-1280-light", "")

	_, id = s.asks(key, "Bash", push)
	b.goTo("#/approvals/" + id)
	b.shows(`[data-request="ok"]`)
	b.press("Deny with a passkey")
	b.shows(`[data-decided="denied"]`)
	if now := state(id); now != "denied" {
		t.Errorf("the call is %s", now)
	}
	b.goTo("#/approvals")
	b.shows(fmt.Sprintf(`[data-approval=%q][data-state="denied"]`, id))
	eval[bool](b, `(window.tamper = (path, text) => path.includes('/approvals/') ? text.replace('"denied"', '"withdrawn"') : text, true)`)
	b.goTo("#/approvals/" + id)
	b.reads(`[data-misstated] [role=alert]`, "it is denied, and not withdrawn")
	eval[bool](b, `(window.tamper = (path, text) => path.includes('/approvals/') ? text.replace('"bot"', '"bat"') : text, true)`)
	b.goTo("#/approvals")
	b.goTo("#/approvals/" + id)
	b.reads(`[data-refused] [role=alert]`, `it names "bat" as its agentId`)
	eval[bool](b, `(window.tamper = null, true)`)

	id = s.api("POST", "/v1/approvals", key, map[string]any{
		"agentId": "bot", "tool": "Bash", "arguments": map[string]any{"command": "make release"}, "reason": "the release of May", "expiresIn": 1,
	})["approvalId"].(string)
	b.goTo("#/approvals/" + id)
	b.shows(`[data-approval-state="expired"]`)
	b.reads(`[data-request]`, "make release")
	b.wait(`!document.querySelector('[data-misstated], [data-refused]')`)

	_, id = s.asks(key, "bank/transfer", `{"amount":500}`)
	b.goTo("#/approvals/" + id)
	b.shows(`[data-quorum="2"][data-missing="2"]`)
	b.shows(`[data-request="ok"]`)
	b.press("Approve with a passkey")
	b.shows(`[data-quorum="2"][data-missing="1"]`)
	b.reads(`[data-missing="1"]`, "person:alice")
	second := s.person(key, "bob")
	second.goTo("#/approvals/" + id)
	second.shows(`[data-request]`)
	second.reads(`[aria-label="Decide"] h2`, "BOB")
	second.press("Approve with a passkey")
	second.shows(`[data-approval-state="approved"]`)
	b.shows(`[data-missing="0"]`)

	other := openBrowser(t, s.base)
	other.signIn(key)
	_, id = s.asks(key, "Bash", push)
	other.goTo("#/approvals/" + id)
	other.reads(`[data-person-first]`, "Only a person")
	other.wait(`!document.querySelector('[aria-label="Decide"]')`)
}

// Once a person has allowed it by a click, the browser shows a notification of each call that
// waits, on whatever page they are; it opens the call.
func TestBrowserNotifiesOfApprovals(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := s.company("acme")
	s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": "bot"})
	s.api("PUT", "/v1/policies/asking", key, map[string]any{"cedar": askingPolicies})
	b := openBrowser(t, s.base)
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `window.notified = [];
window.Notification = class {
	static permission = 'default';
	static async requestPermission() { return (Notification.permission = 'granted'); }
	constructor(title, options) { Object.assign(this, options, { title }); notified.push(this); }
	close() {}
};`})
	b.reload()
	b.signIn(key)
	s.asks(key, "Bash", `{"command":"make"}`) // which waits already
	b.goTo("#/approvals")
	b.shows(`[data-waiting="1"]`)
	b.press("Notify me in this browser")
	b.shows(`[data-notifies]`)
	b.goTo("#/records")
	b.shows(`.records`)
	b.wait(`document.querySelector('[data-connection="open"]')`)
	_, id := s.asks(key, "Bash", `{"command":"make install"}`)
	b.wait(`notified.length === 1`)
	if got := eval[string](b, `notified[0].title + ' / ' + notified[0].body + ' / ' + notified[0].tag`); got != "A call waits for your approval / bot: Bash / "+id {
		t.Errorf("the notification is %s", got)
	}
	eval[bool](b, `(notified[0].onclick(), true)`)
	b.reads(`[data-request]`, "make install")
}

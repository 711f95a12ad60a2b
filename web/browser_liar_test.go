package web_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// alteration is a text of JSON of which one value was altered: where that is, with an asterisk for
// each index, and what it is now; "" where it was left out or is no text.
type alteration struct{ text, place, now string }

// alterations returns a text with one alteration each: a text with another character in it, so that
// it is nowhere in what was heard, a number that is one more, a truth turned round, a member or an
// element left out, and null.
func alterations(t *testing.T, text, heard string) (changed []alteration) {
	t.Helper()
	var root any
	must.OK(t, json.Unmarshal([]byte(text), &root))
	names := pointers("", root)
	placesOf(t, text, func(v any, with func(any) string) {
		at := names[0]
		names = names[1:]
		for _, to := range othersThan(v, heard) {
			now, _ := to.value.(string)
			changed = append(changed, alteration{with(to.value), at + to.member, now})
		}
	})
	return changed
}

// pointers returns where the values inside v are, in the order of each.
func pointers(at string, v any) (all []string) {
	all = append(all, at)
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = append(all, pointers(at+"/"+name, v[name])...)
		}
	case []any:
		for _, item := range v {
			all = append(all, pointers(at+"/*", item)...)
		}
	}
	return all
}

// other is what may stand in place of a value, and the member or element of it that is changed.
type other struct {
	member string
	value  any
}

// othersThan returns what may stand in place of a value.
func othersThan(v any, heard string) (others []other) {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		others = append(others, other{"", otherText(v, heard)})
	case json.Number:
		if n, err := v.Int64(); err == nil {
			others = append(others, other{"", n + 1})
		}
	case bool:
		others = append(others, other{"", !v})
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			rest := maps.Clone(v)
			delete(rest, name)
			others = append(others, other{"/" + name, rest})
		}
	case []any:
		for i := range v {
			others = append(others, other{"/*", slices.Delete(slices.Clone(v), i, i+1)})
		}
	}
	return append(others, other{"", nil})
}

// otherText changes one character of a text, from its middle on, a digit or letter into the next
// one, or makes it longer, until it is nowhere in what was heard.
func otherText(text, heard string) string {
	for i := len(text) / 2; i < len(text); i++ {
		switch c := text[i]; {
		case c >= '0' && c < '9', c >= 'a' && c < 'z', c >= 'A' && c < 'Z':
			if now := text[:i] + string(c+1) + text[i+1:]; !strings.Contains(heard, now) {
				return now
			}
		}
	}
	for text += "x"; strings.Contains(heard, text); text += "x" {
	}
	return text
}

// greenUnits are what is green on a page: of each green mark what it stands beside, as it reads.
const greenUnits = `window.greenUnits = () => [...new Set([...document.querySelectorAll('#app .ok, #app [data-check="ok"], #app [data-tone="ok"], #app [data-verified="ok"]')]
	.filter((e) => e.checkVisibility())
	.map((e) => (e.closest('[data-check], tr, li, [role=row], .verified, .card-head, dd, p') ?? e).textContent.replace(/\s+/g, ' ').trim()))]; true`

// contradicted says of what the server lists which signed record, read by the page that shows it,
// says otherwise once it is altered: path of the request, place in the answer, and the record. The
// member is named by the last part of a place; what follows it is a part of the member.
var contradicted = []struct{ path, place, record string }{
	{"/v1/agents", "/total", "the agents of the same answer"},
	{"/v1/agents", "/agents/*/agentId", "agent.registered: subject"},
	{"/v1/agents", "/agents/*/registeredAt", "agent.registered: registeredAt"},
	{"/v1/agents", "/agents/*/disabledAt", "agent.disabled: disabledAt"},
	{"/v1/agents/agent-1", "/registeredAt", "agent.registered: registeredAt"},
	{"/v1/agents/agent-1", "/metadata", "agent.registered: metadataHash"},
	{"/v1/agents/agent-1", "/metadataAsSent", "agent.registered: metadataHash"},
	{"/v1/agents/agent-2", "/disabledAt", "agent.disabled: disabledAt"},
	{"/v1/agents/agent-1/keys", "/keys/*/thumbprint", "agent-key.enrolled: thumbprint"},
	{"/v1/agents/agent-1/keys", "/keys/*/label", "agent-key.enrolled: label"},
	{"/v1/agents/agent-1/keys", "/keys/*/expiresAt", "agent-key.enrolled: expiresAt"},
	{"/v1/agents/agent-1/keys", "/keys/*/revokedAt", "agent-key.revoked: revokedAt"},
	{"/v1/credentials", "/credentials/*/fingerprint", "api-key.created and oauth-client.created: fingerprint"},
	{"/v1/credentials", "/credentials/*/clientId", "oauth-client.created: clientId"},
	{"/v1/credentials", "/credentials/*/role", "api-key.created and oauth-client.created: role"},
	{"/v1/credentials", "/credentials/*/label", "api-key.created: label"},
	{"/v1/credentials", "/credentials/*/expiresAt", "api-key.created and oauth-client.created: expiresAt"},
	{"/v1/credentials", "/credentials/*/madeBy", "api-key.created and oauth-client.created: by"},
	{"/v1/credentials", "/credentials/*/createdAt", "api-key.created and oauth-client.created: the record's time"},
	{"/v1/federation", "/federations/*/name", "federation.created: federation"},
	{"/v1/federation", "/federations/*/issuer", "federation.created: issuer"},
	{"/v1/federation", "/federations/*/audience", "federation.created: audience"},
	{"/v1/federation", "/federations/*/jwks", "federation.created: jwks"},
	{"/v1/federation", "/federations/*/rules", "federation.created: rules"},
	{"/v1/federation", "/federations/*/createdAt", "federation.created: the record's time"},
	{"/v1/webhooks", "/webhooks/*/webhookId", "webhook.created: webhookId"},
	{"/v1/webhooks", "/webhooks/*/url", "webhook.created: urlHash"},
	{"/v1/webhooks", "/webhooks/*/agents", "webhook.created: agents"},
	{"/v1/webhooks", "/webhooks/*/actions", "webhook.created: actions"},
	{"/v1/webhooks", "/webhooks/*/createdAt", "webhook.created: the record's time"},
	{"/v1/webhooks", "/webhooks/*/fingerprint", "webhook.created and webhook.secret-rotated: fingerprint"},
	{"/v1/webhooks", "/webhooks/*/disabledAt", "webhook.disabled: the record's time"},
	{"/v1/webhooks", "/webhooks/*/disabledReason", "webhook.disabled: reason"},
	{"/v1/people", "/people/*/personId", "person.created: personId"},
	{"/v1/people", "/people/*/name", "person.created and person.changed: name"},
	{"/v1/people", "/people/*/email", "person.created and person.changed: email"},
	{"/v1/people", "/people/*/roles", "person.created and person.changed: roles"},
	{"/v1/people", "/people/*/groups", "person.created and person.changed: groups"},
	{"/v1/people", "/people/*/createdAt", "person.created: the record's time"},
	{"/v1/people", "/people/*/disabledAt", "person.changed: disabledAt"},
	{"/v1/passports", "/passports/*/jti", "passport.issued: jti"},
	{"/v1/passports", "/passports/*/agentId", "passport.issued: agentId"},
	{"/v1/passports", "/passports/*/scopes", "passport.issued: scopes"},
	{"/v1/passports", "/passports/*/issuedAt", "passport.issued: issuedAt"},
	{"/v1/passports", "/passports/*/expiresAt", "passport.issued: expiresAt"},
	{"/v1/passports", "/passports/*/status", "passport.issued: expiresAt, and passport.revoked"},
	{"/v1/passports", "/passports/*/revokedAt", "passport.revoked: revokedAt"},
	{"/v1/passports", "/passports/*/reason", "passport.revoked: reason"},
	{"/v1/policies", "/policies/*/policyId", "policy.put and policy.deleted: policyId"},
	{"/v1/policies", "/sha256", "policy.put and policy.deleted: set"},
	{"/v1/policies", "/revision", "policy.put and policy.deleted: revision"},
	{"/v1/sessions", "/sessions/*/firstAt", "the first record of the session: its time"},
	{"/v1/sessions", "/sessions/*/lastAt", "the last record of the session: its time"},
	{"/v1/sessions", "/sessions/*/source", "the first record of the session: source"},
	{"/v1/approvals/ID", "/approvalId", "the record that asks: decision or approvalId"},
	{"/v1/approvals/ID", "/log", "the checkpoint over the record that asks: origin"},
	{"/v1/approvals/ID", "/index", "the record that asks: index"},
	{"/v1/approvals/ID", "/hash", "the record that asks: hash"},
	{"/v1/approvals/ID", "/agentId", "the record that asks: agentId"},
	{"/v1/approvals/ID", "/tool", "the record that asks: tool"},
	{"/v1/approvals/ID", "/requestReason", "approval.requested: reason"},
	{"/v1/approvals/ID", "/state", "approval.granted, approval.denied, approval.used and approval.withdrawn"},
	{"/v1/approvals/ID", "/by", "approval.granted and approval.denied: by"},
	{"/v1/approvals/ID", "/controlIndex", "the newest control record of the approval"},
	{"/v1/records", "/records/*/payload", "the record itself: hash"},
	{"/v1/records", "/records/*/hash", "the record itself: hash"},
	{"/v1/records", "/records/*/signature", "the record itself: signature"},
	{"/v1/records", "/records/*/timestamp", "the record itself: hash"},
}

var approvalID = regexp.MustCompile(`apr_[A-Za-z0-9_-]{22}`)

// onPage restricts entries of contradicted to the pages that read the record: others show what the
// server lists under its own name.
var onPage = map[string]string{"/v1/sessions": "#/sessions/", "/v1/credentials": "#/keys", "/v1/webhooks": "#/webhooks",
	"/v1/federation": "#/federation", "/v1/agents": "#/agents"}

// recordAgainst returns the record that contradicts an alteration; "" for none. An element that was
// left out is contradicted by the record that says that it is there.
func recordAgainst(hash, path, place string) string {
	path, _, _ = strings.Cut(path, "?")
	path = approvalID.ReplaceAllString(path, "ID")
	if page, is := onPage[path]; is && !strings.HasPrefix(hash, page) {
		return ""
	}
	for _, c := range contradicted {
		if c.path == path && (place == c.place || strings.HasPrefix(place, c.place+"/")) {
			return c.record
		}
	}
	return ""
}

// shownMarks are what a page reads, and what it has that is red or amber.
const shownMarks = `(() => {
	const text = (e) => (e.innerText ?? e.textContent).replace(/\s+/g, ' ').trim();
	// as if a person had acknowledged all that was found before
	window.forgetFindings = () => {
		localStorage.setItem('attestd.findings', '[]');
		dispatchEvent(new StorageEvent('storage', { key: 'attestd.findings' }));
	};
	window.pageText = () => text(document.querySelector('main') ?? document.body);
	const marks = '.bad, .warn, .bad-text, .warn-text, [role=alert], [data-tone=bad], [data-tone=warn], [data-check=bad]';
	window.pageMarks = () => [...document.querySelectorAll('#app :is(' + marks + ')')]
		.filter((e) => e.checkVisibility()).map(text).sort().join('\n');
	// whether a page reads as of the honest answers, or has another mark than with them
	window.isMarked = async ([words, marks]) => {
		const end = performance.now() + 5000;
		while (pageText() !== words && pageMarks() === marks && performance.now() < end)
			await new Promise((done) => setTimeout(done, 20));
		return pageText() === words || pageMarks() !== marks;
	};
	return true;
})()`

// A server changes one value of one answer. Whatever it is, no page breaks, and nothing that it has
// written stands in anything green. Where a signed record that the page reads says otherwise, the
// page reads as before, or has something red or amber more: what is contradicted is not neutral.
func TestBrowserLyingServer(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := furnish(s)
	s.hookSession(key, "agent-2", "s-1")
	s.api("POST", "/v1/people", key, map[string]any{
		"personId": "bob", "name": "Bob", "email": "bob@example.com", "roles": []string{"reader"}, "groups": []string{"finance"},
	})
	s.api("PATCH", "/v1/people/bob", key, map[string]any{"disabled": true})
	hook := s.api("POST", "/v1/webhooks", key, map[string]any{"url": "https://hooks.example.com/second", "agents": []string{"agent-1"}})
	s.api("POST", "/v1/webhooks/"+hook["webhookId"].(string)+"/disable", key, nil)
	s.api("POST", "/v1/agents/agent-2/disable", key, nil)
	approvals := make([]string, 2)
	for i := range approvals {
		approvals[i] = s.api("POST", "/v1/approvals", key, map[string]any{
			"agentId": "agent-0", "tool": "Bash", "arguments": map[string]any{"command": "make release", "run": i},
			"reason": "the release of May", "expiresIn": 86400,
		})["approvalId"].(string)
	}
	s.api("DELETE", "/v1/approvals/"+approvals[1], key, nil)
	driver := fmt.Sprintf(fuzzDriver, jsonOf(t, ownNames(t)))
	begin := func(b *browser) {
		t.Helper()
		b.reload()
		b.signIn(key)
		eval[bool](b, driver)
		eval[bool](b, greenUnits)
		eval[bool](b, shownMarks)
	}
	open := func() *browser {
		t.Helper()
		b := openBrowser(t, s.base, chromedp.Flag("disable-frame-rate-limit", true), chromedp.Flag("disable-gpu-vsync", true))
		call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: fuzzHooks})
		b.signIn(key)
		b.confirmKey(s, "acme")
		b.tall() // so that no row that is green is out of sight
		begin(b)
		return b
	}
	b := open()

	type lie struct {
		alteration
		hash, path, record string
	}
	var lies, known []lie
	type answer struct{ hash, path, text string }
	var answers []answer
	var heard strings.Builder
	hashes := append(b.allPages(), "#/agents/agent-1", "#/agents/agent-2", "#/proof/5", "#/records/8", "#/control/3",
		"#/approvals/"+approvals[0], "#/approvals/"+approvals[1],
		"#/sessions/run-1?agent=agent-1&kind=statement", "#/sessions/s-1?agent=agent-2&kind=hook")
	honest := map[string][2]string{}
	for _, hash := range hashes {
		asked := map[string]bool{}
		for _, got := range eval[[][2]string](b, fmt.Sprintf(`visit(%q)`, hash)) {
			heard.WriteString(got[1])
			// longer is the API's description, which claims nothing
			if !asked[got[0]] && len(got[1]) <= 100_000 {
				answers = append(answers, answer{hash, got[0], got[1]})
			}
			asked[got[0]] = true
		}
		heard.WriteString(eval[string](b, `document.body.textContent`))
		honest[hash] = eval[[2]string](b, `[pageText(), pageMarks()]`)
	}
	r := rand.New(rand.NewPCG(1, 1))
	seen := map[string]bool{}
	for _, a := range answers {
		for _, one := range alterations(t, a.text, heard.String()) {
			lie := lie{one, a.hash, a.path, recordAgainst(a.hash, a.path, one.place)}
			lies = append(lies, lie)
			if lie.record != "" && one.place != "" {
				known = append(known, lie)
				seen[lie.record] = true
			}
		}
	}
	for _, c := range contradicted {
		if !seen[c.record] {
			t.Errorf("no answer has %s of %s, which %s contradicts", c.place, c.path, c.record)
		}
	}
	total := len(lies)
	shuffle := func(all []lie) { r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) }
	shuffle(lies)
	shuffle(known)
	most := 40
	if testenv.Night() {
		most = 1600
	} else {
		known = oneOfEach(known, func(one lie) string { return one.hash + one.path + one.place })
	}
	lies = append(lies[:min(len(lies), most)], known[:min(len(known), 2*most)]...)
	slices.SortStableFunc(lies, func(a, b lie) int { return strings.Compare(a.hash, b.hash) })
	green, missed, marked := 0, 0, 0
	for i, lie := range lies {
		if i%200 == 0 { // no browser is used for longer than it may be
			b = open()
		}
		before := eval[int](b, `missed`)
		eval[any](b, fmt.Sprintf(`(forgetFindings(), feedAsked(%s).then(() => true))`,
			jsonOf(t, []string{lie.hash, lie.path, lie.text})))
		heardOf := eval[int](b, `missed`) == before
		if !heardOf {
			missed++
		}
		for _, unit := range eval[[]string](b, `greenUnits()`) {
			green++
			if lie.now != "" && strings.Contains(unit, lie.now) {
				t.Errorf("%s: %q is green, with %s answering %.2000s", lie.hash, unit, lie.path, lie.text)
			}
		}
		if lie.record != "" && heardOf {
			marked++
			if !eval[bool](b, fmt.Sprintf(`isMarked(%s)`, jsonOf(t, honest[lie.hash]))) {
				t.Errorf("%s: %s of %s is neutral although %s contradicts it, with %.2000s",
					lie.hash, lie.place, lie.path, lie.record, lie.text)
			}
		}
		if broken := eval[string](b, `document.querySelector('[data-broken]')?.textContent ?? ''`); broken != "" {
			t.Errorf("%s: %s breaks the page, %s: %.2000s", lie.hash, lie.path, broken, lie.text)
			begin(b)
		}
	}
	if green == 0 || marked < len(contradicted)/2 || missed > len(lies)/3 {
		t.Errorf("of %d lies %d were not asked for, %d were contradicted, and %d things were green: this tests nothing",
			len(lies), missed, marked, green)
	}
	t.Logf("%d of %d lies, %d of them contradicted, over %d pages; %d were not asked for again",
		len(lies), total, marked, len(hashes), missed)
}

// oneOfEach returns the first of those that have the same name.
func oneOfEach[T any](all []T, name func(T) string) (some []T) {
	seen := map[string]bool{}
	for _, one := range all {
		if n := name(one); !seen[n] {
			seen[n] = true
			some = append(some, one)
		}
	}
	return some
}

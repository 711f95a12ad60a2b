package web_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/cmd/demo"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// firstScreenOfDemo checks what somebody sees first in the demo company: all is checked and green
// but for one finding.
func (b *browser) firstScreenOfDemo() {
	b.t.Helper()
	b.reads(".top-company", "demo")
	b.reads(`[data-demo]`, "Its records tell of a week.")
	b.shows(`[data-activity="39"] tr[data-agent="coder"]`)
	b.reads(`[data-verified="ok"]`, "39 records verified")
	b.reads("h1", "1 refused call ran all the same, 2 calls denied, 1 call failed. Log intact since 20")
	b.reads(`[data-attention="1"] [data-incident="disobeyed"]`, "was refused, and ran all the same")
	b.reads(`[data-week="ok"]`, "opens SHOP-142")
	if got := eval[int](b, `document.querySelectorAll('[data-week] section').length`); got != 5 {
		b.t.Errorf("the story has %d days", got)
	}
	b.wait(`document.querySelectorAll('main [data-control][data-check="ok"]').length === 4`)
	if got := eval[[]string](b, `[...document.querySelectorAll('main .badge.warn, main .badge.bad, main [data-check="warn"], main [data-check="bad"]')].map((e) => e.innerText)`); len(got) > 0 {
		b.t.Errorf("not green: %q", got)
	}
}

// Who has nothing yet gets a company with the story of a week by one click, and is signed in to it.
// This page has registered it, so its key is confirmed, and so are those of the agents, which this
// page has made. A second click makes demo-2.
func TestBrowserDemo(t *testing.T) {
	s := startService(t, "", "")
	b := openBrowser(t, s.base)
	b.look(look{1280, "light"})
	b.press("Fill a demo company")
	b.reads(`.value`, "svc_")
	b.press("I’ve saved it")
	b.firstScreenOfDemo()
	b.picture("demo-first-screen", "")
	b.goTo("#/sessions/shop-142?agent=coder&kind=statement")
	b.shows(`[data-whole="complete"][data-whole-tone="ok"]`)
	b.reads(`[data-demo]`, "Demo company.") // on each page
	b.goTo("#/sessions/incident-7?agent=on-call&kind=hook")
	b.reads(`[data-whole="disobeyed"]`, "refused at record 29, done at record 30")
	b.goTo("#/delegations")
	b.reads("main", "https://id.shop.example#alice")
	b.press("Sign out")
	b.goTo("#/start")
	b.press("Fill a demo company")
	b.press("I’ve saved it")
	b.reads(".top-company", "demo-2")
}

// The link that the command prints has the fingerprint of the company's key, so that who signs in
// there confirms it. A link with the fingerprint of another key confirms nothing.
func TestBrowserDemoOfCommand(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	made := playedDemo(t, s)
	for _, c := range []struct {
		fingerprint string
		shows       func(b *browser)
	}{
		{made.Fingerprint, (*browser).firstScreenOfDemo},
		{"SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", func(b *browser) {
			b.reads(`[data-other-link] [role=alert]`, "The link is for another key, SHA256:AAAA")
			b.shows(`[data-verified="warn"]`)
		}},
	} {
		b := openPage(t, s.base+"/#/start?fingerprint="+c.fingerprint)
		b.reads("main", "Confirms the signing key "+c.fingerprint)
		b.fill(`input[name="key"]`, made.APIKey)
		b.press("Sign in")
		c.shows(b)
	}
}

func playedDemo(t *testing.T, s *service) demo.Company {
	t.Helper()
	made, err := demo.Play(t.Context(), s.base, "demo", time.Now(), func(string) {})
	must.OK(t, err)
	return made
}

// The button of the console and the command leave companies of the same content.
func TestBrowserDemoIsThatOfTheCommand(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	byButton, byCommand := startService(t, "", ""), startService(t, "", "")
	b := openBrowser(t, byButton.base)
	b.press("Fill a demo company")
	b.shows(`[data-verified="ok"]`)
	key := eval[string](b, `document.querySelector('.value code').textContent`)
	made := playedDemo(t, byCommand)
	for _, log := range []string{"actions", "control"} {
		a, b := contentOf(t, byButton, key, log), contentOf(t, byCommand, made.APIKey, log)
		if len(a) < 15 || !slices.Equal(a, b) {
			t.Errorf("the %s differ:\n%s\n\n%s", log, strings.Join(a, "\n"), strings.Join(b, "\n"))
		}
	}
}

// contentOf is what the records of a log say, without what is another each time: keys, IDs of
// tokens, and what is signed.
func contentOf(t *testing.T, s *service, key, log string) (lines []string) {
	t.Helper()
	var answer struct {
		Records []struct {
			Payload struct {
				AgentID, ActionType, Statement string
				Payload                        map[string]any
			}
			Delegation struct{ DelegationChain []string }
		}
	}
	must.OK(t, json.Unmarshal(s.raw(key, "/v1/chain?log="+log, "application/json"), &answer))
	for _, r := range answer.Records {
		result := r.Payload.Payload
		if log == "control" {
			result = map[string]any{"agentId": result["agentId"], "role": result["role"], "label": result["label"], "tool": result["tool"]}
		}
		for _, name := range []string{"witness", "checkpoint"} {
			if text, ok := result[name].(string); ok {
				result[name] = strings.Count(text, "\n")
			}
		}
		signed := map[string]any{}
		if parts := strings.Split(r.Payload.Statement, "."); len(parts) == 3 {
			claims, err := base64.RawURLEncoding.DecodeString(parts[1])
			must.OK(t, err)
			must.OK(t, json.Unmarshal(claims, &signed))
			for _, name := range []string{"action_hash", "jti", "iat", "log", "prev"} {
				if name != "prev" && signed[name] == nil {
					t.Errorf("a statement has no %s", name)
				}
				delete(signed, name)
			}
		}
		line := fmt.Sprint(r.Payload.AgentID, " ", r.Payload.ActionType, jsonOf(t, result), jsonOf(t, signed), r.Delegation.DelegationChain)
		lines = append(lines, strings.ReplaceAll(line, "\n", " "))
	}
	if log == "control" {
		slices.Sort(lines) // the finding comes when the service has looked
	}
	return lines
}

package web_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// administer makes a change of every kind that the API can make, some with texts that no one would
// see, and returns the company's key.
func administer(s *service) (key string) {
	s.t.Helper()
	key = s.company("acme")
	reader := s.api("POST", "/v1/keys", key, map[string]any{"label": "audit\u202etfel", "role": "reader", "expiresAt": "2126-04-01T00:00:00.000Z"})["key"].(string)
	s.api("DELETE", "/v1/keys/"+reader, key, nil)
	clientID := s.api("POST", "/v1/oauth/clients", key, nil)["clientId"].(string)
	s.api("DELETE", "/v1/oauth/clients/"+clientID, key, nil)
	for _, id := range []string{"planner", "builder"} {
		s.api("POST", "/v1/agents/register", key, map[string]any{"agentId": id, "metadata": map[string]any{"team": "a"}})
	}
	s.api("POST", "/v1/agents/planner/passport", key, map[string]any{"scopes": []string{"files:read"}})
	passport := s.api("POST", "/v1/agents/builder/passport", key, nil)["passport"].(string)
	r, err := http.NewRequest("POST", s.base+"/v1/agents/builder/passport/rotate", nil)
	must.OK(s.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Attestd-Passport", passport)
	response, err := client.Do(r)
	must.OK(s.t, err)
	must.OK(s.t, response.Body.Close())
	s.api("POST", "/v1/agents/planner/disable", key, nil)
	s.api("POST", "/v1/agents/planner/enable", key, nil)
	s.api("POST", "/v1/companies/rotate-keys", key, map[string]any{"compromised": true})
	s.attest(key, 3)
	return key
}

// The control log's page describes each change, its subject and its credential in words with links,
// and verifies its record with the key of its time: the result is amber, and green if the key was
// confirmed. Kind, subject, credential and time filter the list and are in the URL.
func TestBrowserControlLog(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := administer(s)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/control")
	b.shows(`.change[data-check="warn"][data-index="0"]`)
	b.reads("[data-failed]", "This browser verified the hash and signature of each")
	if green := eval[int](b, `document.querySelectorAll('main .ok').length`); green > 0 {
		t.Errorf("%d things are green before the key is confirmed", green)
	}
	b.confirmKey(s, "acme")
	b.goTo("#/control")
	b.shows(`.change[data-check="ok"][data-index="0"]`)
	b.wait(`document.querySelectorAll('.change').length > 10 && document.querySelectorAll('.change:not([data-check="ok"])').length === 0`)
	answer := eval[string](b, `document.querySelector('.changes').innerText`)
	for _, words := range []string{
		"The company was registered, with the signing key", "“audit⟨U+202E⟩tfel” was created, as reader, until 2126-04-01", "was deleted", "The OAuth client",
		"The agent planner was registered, with metadata", "was issued to planner, for files:read, until", "it replaces", "The agent planner was disabled; 1 passport was revoked with it",
		"The agent planner was enabled again", "the previous key was declared compromised",
	} {
		if !strings.Contains(answer, words) {
			t.Errorf("%q is not said in\n%s", words, answer)
		}
	}
	if strings.Contains(answer, "does not know") {
		t.Errorf("a record is not understood:\n%s", answer)
	}
	times := eval[[]string](b, `[...document.querySelectorAll('.change-time')].map((e) => e.title)`)
	if slices.Reverse(times); !slices.IsSorted(times) {
		t.Errorf("the newest is not the first: %v", times)
	}

	only := func(what string) {
		t.Helper()
		b.wait(fmt.Sprintf(`document.querySelector('.changes') && [...document.querySelectorAll('.change')].every((e) => e.innerText.includes(%q))`, what))
	}
	b.goTo("#/control?kind=" + "agent.*&subject=planner")
	b.wait(`document.querySelectorAll('.change').length === 3`)
	only("planner")
	b.press("Clear")
	b.wait(`location.hash === '#/control' && document.querySelectorAll('.change').length > 10`)
	b.fill(`input[name="subject"]`, "builder\n")
	// with what happened to its passports
	b.wait(`document.querySelectorAll('.change').length === 4 && location.hash.includes('subject=builder')`)
	b.goTo("#/control?by=service")
	only("by no credential")
	b.goTo("#/control?until=" + times[0])
	b.reads(".empty", "No matching changes")
	b.goTo("#/control?since=" + times[0])
	b.wait(`document.querySelectorAll('.change').length > 10`)

	b.goTo("#/control?kind=signing-key.rotated")
	b.press(eval[string](b, `new Promise((done) => { const look = () => { const e = document.querySelector('.change-index'); if (e) done(e.textContent); else setTimeout(look, 30); }; look(); })`))
	b.shows(`dialog [data-check="ok"]`)
	b.reads("dialog", "This record is exactly what the company signed.")
	b.press("Close")
	b.wait(`!document.querySelector('dialog') && location.hash === '#/control?kind=signing-key.rotated'`)

	options := eval[[]string](b, `[...document.querySelectorAll('select[name="kind"] option')].map((e) => e.value)`)
	source, err := os.ReadFile("../store/control.go")
	must.OK(t, err)
	for _, kind := range regexp.MustCompile(`ControlAction = "(.*)"`).FindAllSubmatch(source, -1) {
		if !slices.Contains(options, string(kind[1])) {
			t.Errorf("the console has no words for %s", kind[1])
		}
	}

	b.lookAt("control", "#/control", `.change[data-check="ok"]`)
	b.lookAt("control-record", "#/control/3", `dialog [data-check="ok"]`)
}

// A control record that the server changes is red in the list and when it is opened; one that it
// leaves out or puts in another's place is refused, and so is an action that it shows as a change.
func TestBrowserControlLogFindsLies(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := administer(s)
	action := chainLine(t, s, key, 0)
	lies := map[string]func([]byte) []byte{
		"changed": func(answer []byte) []byte {
			return bytes.Replace(answer, []byte(`"role":"reader"`), []byte(`"role":"writer"`), 1)
		},
		"left out": func(answer []byte) []byte {
			from, to := bytes.Index(answer, []byte(`{"index":9,`)), bytes.Index(answer, []byte(`{"index":8,`))
			if to < 0 {
				return answer
			}
			return slices.Concat(answer[:from], answer[to:])
		},
		"moved": func(answer []byte) []byte {
			return bytes.Replace(answer, []byte(`{"index":2,`), []byte(`{"index":3,`), 1)
		},
		"action": func(answer []byte) []byte {
			at, end := bytes.Index(answer, []byte(`{"index":1,`)), bytes.Index(answer, []byte(`,{"index":0,`))
			if end < 0 {
				return answer
			}
			return slices.Concat(answer[:at], action, answer[end:])
		},
	}
	told := ""
	base := lie(t, s, func(path string, answer []byte) []byte {
		change := lies[told]
		if path != "/v1/chain" && path != "/v1/records" || !bytes.Contains(answer, []byte(`"log":"control"`)) || change == nil {
			return answer
		}
		return change(answer)
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	told = "changed"
	b.goTo("#/control")
	b.shows(`.change.bad[data-check="bad"]`)
	b.reads("[data-failed]", "1 record failed verification")
	index := eval[string](b, `document.querySelector('.change.bad').dataset.index`)
	b.goTo("#/control/" + index)
	b.shows(`dialog [data-check="bad"]`)
	b.reads("dialog", "its content does not hash to the hash that it names")
	for lie, message := range map[string]string{
		"moved": "Before control record 3 the server shows record 3", "left out": "Before control record 10 the server shows record 8", "action": "The control record before 2 is none",
	} {
		told = ""
		b.goTo("#/start")
		b.shows(".overview")
		told = lie
		b.goTo("#/control")
		b.reads(`.page [role="alert"]`, message)
		if n := eval[int](b, `document.querySelectorAll('main .ok').length`); n > 0 {
			t.Errorf("%s: %d things are green", lie, n)
		}
	}
}

// chainLine returns the text of an action as the server has it.
func chainLine(t *testing.T, s *service, key string, index int) []byte {
	t.Helper()
	return bytes.TrimSpace(s.raw(key, fmt.Sprintf("/v1/chain?from=%d&limit=1", index), "application/x-ndjson"))
}

// raw returns the body of an answer.
func (s *service) raw(key, path, accept string) []byte {
	s.t.Helper()
	r, err := http.NewRequest("GET", s.base+path, nil)
	must.OK(s.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Accept", accept)
	response, err := client.Do(r)
	must.OK(s.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must.OK(s.t, err)
	if response.StatusCode != http.StatusOK {
		s.t.Fatalf("GET %s: %s: %s", path, response.Status, body)
	}
	return body
}

package web_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// A list of rights has what the control log says that there is. One that the server leaves out, one
// that it makes up and one that was deleted are named in red; a change that comes between the two
// answers is none of these.
func TestBrowserListsAreThoseOfTheControlLog(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s := startService(t, "", "")
	key := furnish(s)
	gone := s.api("POST", "/v1/webhooks", key, map[string]any{"url": "https://gone.example.com/"})["webhookId"].(string)
	s.api("DELETE", "/v1/webhooks/"+gone, key, nil)
	var told atomic.Value // what is said of the list: a function
	told.Store(func(items []map[string]any) []map[string]any { return items })
	var asked atomic.Int64
	lists := map[string]string{"/v1/webhooks": "webhooks", "/v1/federation": "federations", "/v1/credentials": "credentials"}
	base := lie(t, s, func(path string, answer []byte) []byte {
		list, is := lists[path]
		if !is {
			return answer
		}
		asked.Add(1)
		var body map[string][]map[string]any
		must.OK(t, json.Unmarshal(answer, &body))
		body[list] = told.Load().(func([]map[string]any) []map[string]any)(body[list])
		answer, err := json.Marshal(body)
		must.OK(t, err)
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	shows := func(hash, selector string) {
		t.Helper()
		b.goTo("#/start")
		b.shows(".overview")
		b.goTo(hash)
		b.shows(selector)
	}
	first := func(path string, kind string) map[string]any {
		for _, item := range s.api("GET", path, key, nil)[lists[path]].([]any) {
			if one := item.(map[string]any); kind == "" || one["kind"] == kind {
				return one
			}
		}
		t.Fatalf("%s has no %s", path, kind)
		return nil
	}
	for _, page := range []struct{ hash, path, kind, name, what string }{
		{"#/webhooks", "/v1/webhooks", "", "webhookId", "webhook"},
		{"#/federation", "/v1/federation", "", "name", "federation"},
		{"#/keys", "/v1/credentials", "apiKey", "fingerprint", "API key"},
		{"#/keys", "/v1/credentials", "oauthClient", "clientId", "OAuth client"},
	} {
		item := first(page.path, page.kind)
		name := item[page.name].(string)
		honest := func(items []map[string]any) []map[string]any { return items }
		hidden := func(items []map[string]any) []map[string]any {
			rest := []map[string]any{}
			for _, one := range items {
				if one[page.name] != name {
					rest = append(rest, one)
				}
			}
			return rest
		}
		other := maps.Clone(item)
		other[page.name] = "made-up"
		invented := func(items []map[string]any) []map[string]any { return append(items, other) }

		told.Store(honest)
		shows(page.hash, `[data-listed="same"]`)
		told.Store(hidden)
		shows(page.hash, fmt.Sprintf(`[data-listed="differs"] .notice.bad [data-differs="lacking %s"]`, name))
		b.reads(`[data-listed="differs"]`, fmt.Sprintf("The control log has the %s %s, created by control record", page.what, name))
		b.reads(`[data-listed="differs"]`, "and the list lacks it")
		told.Store(invented)
		shows(page.hash, `[data-listed="differs"] .notice.bad [data-differs="unknown made-up"]`)
		b.reads(`[data-listed="differs"]`, fmt.Sprintf("The list has the %s made-up, and no control record says that it was created", page.what))
		if n := eval[int](b, `document.querySelectorAll('[data-differs]').length`); n != 1 {
			t.Errorf("%s: %d differences", page.hash, n)
		}
		// As where a change comes between the two answers: both are read again.
		told.Store(func(items []map[string]any) []map[string]any {
			if asked.Load() == 1 {
				return hidden(items)
			}
			return items
		})
		b.goTo("#/start")
		b.shows(`[data-overview="ready"]`)
		asked.Store(0) // the first page reads the lists too
		b.goTo(page.hash)
		b.shows(`[data-listed="same"]`)
		if n := asked.Load(); n != 2 {
			t.Errorf("%s: the list was read %d times", page.hash, n)
		}
	}
	told.Store(func(items []map[string]any) []map[string]any {
		again := maps.Clone(items[0])
		again["webhookId"] = gone
		return append(items, again)
	})
	shows("#/webhooks", fmt.Sprintf(`[data-differs="ended %s"]`, gone))
	b.reads(`[data-listed="differs"]`, "says that it was deleted")
}

// A list that cannot be compared with the control log says so, and no more; who may not read it is
// told nothing about it.
func TestBrowserListsThatCannotBeCompared(t *testing.T) {
	s := startService(t, "", "")
	key := furnish(s)
	reader := s.api("POST", "/v1/keys", key, map[string]any{"role": "reader"})["key"].(string)
	base := between(t, s, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/records" || r.URL.Query().Get("log") != "control" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":"The store is busy"}`)
		return true
	}, nil)
	b := openBrowser(t, base)
	b.signIn(key)
	b.goTo("#/webhooks")
	b.shows(`[data-webhook] ~ section`)
	b.reads(`[data-listed="unread"] .notice:not(.bad)`, "The list was not compared with the control log: The store is busy")
	other := openBrowser(t, s.base)
	other.signIn(reader)
	for _, hash := range []string{"#/webhooks", "#/federation", "#/keys"} {
		other.goTo(hash)
		other.reads(`main .notice`, "role")
		if eval[bool](other, `document.querySelector('[data-listed]') !== null`) {
			t.Errorf("%s speaks of a list that the reader may not see", hash)
		}
	}
}

package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"attestd/internal/must"
)

// FuzzRequest sends anything to any endpoint, as a company that has one of everything. The answer
// is always a JSON object and never a redirect or a 5xx; an error says what is wrong.
//
// place is the number of the endpoint; param replaces the variable part of its path; query and body
// are sent unchanged. testdata/fuzz/FuzzRequest has a sample of what clients get wrong.
func FuzzRequest(f *testing.F) {
	s := start(f)
	acme := s.company(f, "acme")
	svid := acme.agent(f, "bot")
	passport := acme.passport(f, "bot", "")
	token, _ := acme.exchange(f, svid, acme.agent(f, "other"))
	acme.attestMany(f, 3)
	places := append([]string{
		"POST /v1/companies", "POST /v1/setup", "POST /v1/recover-key", "POST /v1/oauth/token",
		"GET /v1/ca/public-key", "GET /v1/ca/well-known", "GET /v1/health", "GET /v1/openapi.json", "GET /v1/ws",
	}, keyed...)
	add := func(call, param, body string) {
		place := slices.Index(places, call)
		if place < 0 {
			f.Fatalf("there is no place %s", call)
		}
		f.Add(uint8(place), param, "", body)
	}
	// What only this run knows.
	add("POST /v1/attest", "", `{"agentId":"a","actionType":"b","payload":{"n":1.50},"delegation":"`+token+`"}`)
	add("POST /v1/token/exchange", "", exchangeBody(f, token, svid, nil))
	add("POST /v1/passport/verify", "", `{"passport":"`+passport+`","tool":"x"}`)
	add("POST /v1/agents/bot/passport/rotate", "bot", "")
	add("POST /v1/passports/x/revoke", jti(f, acme, passport), `{"reason":"\u0000"}`)

	f.Fuzz(func(t *testing.T, place uint8, param, query, body string) {
		method, path, _ := strings.Cut(places[int(place)%len(places)], " ")
		for _, part := range []string{"bot", "svc_some-key-that-is-none", "x", "0"} {
			path = strings.Replace(path, "/"+part, "/"+url.PathEscape(param), 1)
		}
		where, err := url.Parse("http://localhost" + path)
		must.OK(t, err)
		req := httptest.NewRequestWithContext(t.Context(), method, "http://localhost/", strings.NewReader(body))
		req.URL, req.RemoteAddr = where, "127.0.0.1:1"
		req.URL.RawQuery = query
		req.Header.Set("Authorization", "Bearer "+acme.credential)
		req.Header.Set("Service-Passport", passport)
		req.Header.Set("Content-Type", []string{"application/json", "application/x-www-form-urlencoded"}[len(query)%2])
		w := newRecorder()
		s.handler().ServeHTTP(w, req)

		answer := w.Body.Bytes()
		var e struct{ Error string }
		switch err := json.Unmarshal(answer, &e); {
		case w.Code >= 500 || w.Code < 200 || w.Code >= 300 && w.Code < 400:
			t.Errorf("%s %s: %d %s", method, req.URL, w.Code, answer)
		case err != nil || !utf8.Valid(answer):
			t.Errorf("%s %s: %d is not a JSON object: %q", method, req.URL, w.Code, answer)
		case w.Code == http.StatusUnauthorized && !strings.HasSuffix(path, "/rotate") && path != "/v1/oauth/token":
			t.Errorf("%s %s: a good key is refused", method, req.URL)
		case w.Code >= 400 && e.Error == "":
			t.Errorf("%s %s: %d does not say what is wrong: %s", method, req.URL, w.Code, answer)
		}
	})
}

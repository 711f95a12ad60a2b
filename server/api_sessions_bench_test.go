package server_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/server"
	"attestd/server/limit"
)

// A list of five sessions of statements, each with 500 or 5,000 places, in which five agents take
// turns. What has been read once is remembered: first is the list of a server that has just begun.
func BenchmarkListSessions(b *testing.B) {
	for _, places := range []int{500, 5000} {
		s := start(b)
		acme := s.company(b, "acme")
		var all [][]string
		for n := range 5 {
			a := acme.signer(b, fmt.Sprint("bot-", n), jose.EdDSA)
			var items []string
			for i, text := range a.run(b, "run", places, true) {
				items = append(items, attestBody(a.agentID, fmt.Sprint(i), text.Compact))
			}
			all = append(all, items)
		}
		for i := 0; i < places; i += 100 {
			var batch []string
			for at := i; at < i+100; at++ {
				for n := range all {
					batch = append(batch, all[n][at])
				}
			}
			acme.do(b, "POST /v1/attest/batch", `{"records":[`+strings.Join(batch, ",")+`]}`).status(201)
		}
		begin := func() http.Handler {
			return server.New(server.Config{Store: s.store, MaxBody: 4 << 20, Budgets: limit.Defaults(4 << 20), Live: server.Live{Bounds: server.DefaultBounds},
				Log: slog.New(slog.DiscardHandler)}).Handler()
		}
		list := func(b *testing.B, h http.Handler) {
			sealed := 0
			for cursor := "?limit=100"; cursor != ""; {
				request := httptest.NewRequest("GET", "/v1/sessions"+cursor, nil)
				request.Header.Set("Authorization", "Bearer "+acme.credential)
				answer := httptest.NewRecorder()
				h.ServeHTTP(answer, request)
				var page struct {
					Sessions []struct{ State string }
					Next     string
				}
				must.OK(b, json.Unmarshal(answer.Body.Bytes(), &page))
				for _, s := range page.Sessions {
					if s.State == "sealed" {
						sealed++
					}
				}
				if cursor = ""; page.Next != "" {
					cursor = "?cursor=" + page.Next
				}
			}
			if sealed != len(all) {
				b.Fatalf("%d sessions are sealed", sealed)
			}
		}
		b.Run(fmt.Sprintf("places=%d/again", places), func(b *testing.B) {
			h := begin()
			list(b, h)
			for b.Loop() {
				list(b, h)
			}
		})
		b.Run(fmt.Sprintf("places=%d/first", places), func(b *testing.B) {
			for b.Loop() {
				list(b, begin())
			}
		})
	}
}

package attestd_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attestd/sdk/attestd"
)

// issues answers each request for a token with another one, or with 503.
type issues struct {
	made  atomic.Int64
	fails atomic.Bool
}

func (s *issues) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(time.Second) // of the bubble
	status, body := 201, fmt.Sprintf(`{"token":"a.b.%d","tokenType":"t","expiresAt":""}`, s.made.Add(1))
	if s.fails.Load() {
		status, body = 503, `{"error":"no","code":"NOT_DONE"}`
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// A token is the same for all calls until a minute before its end, of many calls at once one asks
// for it, and one that is still valid is used where no new one can be had.
func TestTokenIsRenewedBeforeItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var service issues
		c, err := attestd.New(attestd.Config{URL: "https://attest.example", Credential: attestd.Key("k"), HTTP: &http.Client{Transport: &service}, Retry: &attestd.Retry{}})
		if err != nil {
			t.Fatal(err)
		}
		get := func(audience string) string {
			made, err := c.Token(t.Context(), attestd.TokenRequest{AgentID: "bot", Audience: []string{audience}})
			if err != nil {
				return err.Error()
			}
			return made.Token
		}
		answers := make(chan string, 20)
		for range cap(answers) {
			go func() { answers <- get("a") }()
		}
		for range cap(answers) {
			if token := <-answers; token != "a.b.1" {
				t.Errorf("at once: %s", token)
			}
		}
		if token := get("b"); token != "a.b.2" {
			t.Errorf("another audience: %s", token)
		}
		time.Sleep(3 * time.Minute)
		if token := get("a"); token != "a.b.1" {
			t.Errorf("while it is valid: %s", token)
		}
		time.Sleep(time.Minute)
		if token := get("a"); token != "a.b.3" {
			t.Errorf("a minute before its end: %s", token)
		}
		service.fails.Store(true)
		time.Sleep(270 * time.Second)
		if token := get("a"); token != "a.b.3" {
			t.Errorf("without the service: %s", token)
		}
		time.Sleep(time.Minute)
		if token := get("a"); !strings.Contains(token, "503") {
			t.Errorf("after its end: %s", token)
		}
		if text := fmt.Sprintf("%v %+v", attestd.IssuedToken{Token: "secret"}, attestd.IssuedToken{Token: "secret"}); strings.Contains(text, "secret") {
			t.Error(text)
		}
	})
}

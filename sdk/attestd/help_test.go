package attestd_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/sdk/attestd"
)

// script is a service that answers by a script, one step for each request. It runs in the bubble
// of a synctest, without a network.
type script struct {
	mu    sync.Mutex
	steps []step
	seen  []seen
}

type step struct {
	status int // 0: the connection is lost
	header http.Header
	body   string
	cut    bool          // the connection is lost in the body
	after  time.Duration // how long the answer takes
}

type seen struct {
	method, url, body, key, bearer string
	at                             time.Time
}

var errLost = errors.New("connection reset by peer")

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.seen = append(s.seen, seen{r.Method, r.URL.String(), string(body), r.Header.Get("Idempotency-Key"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), time.Now()})
	n := min(len(s.seen), len(s.steps)) - 1 // the last step is for ever
	now := s.steps[n]
	s.mu.Unlock()
	select {
	case <-time.After(now.after):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if now.status == 0 {
		return nil, errLost
	}
	if now.header == nil {
		now.header = http.Header{}
	}
	if now.header.Get("X-Request-ID") == "" {
		now.header.Set("X-Request-ID", "r")
	}
	var answer io.Reader = strings.NewReader(now.body)
	if now.cut {
		answer = io.MultiReader(bytes.NewReader([]byte(now.body)[:len(now.body)/2]), failing{})
	}
	return &http.Response{StatusCode: now.status, Header: now.header, Body: io.NopCloser(answer), Request: r}, nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// client returns a client of the script.
func (s *script) client(t *testing.T, credential attestd.Credential) *attestd.Client {
	t.Helper()
	c, err := attestd.New(attestd.Config{URL: "http://attestd.test", Credential: credential, HTTP: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const recordJSON = `{"index":7,"timestamp":"2026-03-02T09:05:04.218Z","payload":{"agentId":"bot","companyId":"acme","actionType":"a","payload":{"n":1.0}},"hash":"00","signature":"AA"}`

var created = step{status: 201, body: recordJSON + "\n"}

// contextFor ends after d; 0 is never.
func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return context.WithCancel(t.Context())
	}
	return context.WithTimeout(t.Context(), d)
}

package witness_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// testWitness is a Cosigner behind HTTP, and a client of it.
type testWitness struct {
	*witness.Client
	state  *memory
	answer http.HandlerFunc // replaces the Cosigner's answer when it is set
	bodies []string         // of all requests
}

func newTestWitness(t *testing.T) *testWitness {
	t.Helper()
	a := &testWitness{state: newMemory()}
	c := cosigner(t, a.state)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/prefix/add-checkpoint" {
			t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		}
		a.bodies = append(a.bodies, string(body))
		if a.answer != nil {
			a.answer(w, r)
			return
		}
		answer, err := c.AddCheckpoint(r.Context(), body, noon)
		if err != nil {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", answer.ContentType)
		w.WriteHeader(answer.Status)
		_, _ = io.WriteString(w, answer.Body)
	}))
	t.Cleanup(server.Close)
	client, err := witness.NewClient(server.URL+"/prefix/", c.VKey())
	must.OK(t, err)
	t.Cleanup(client.Close)
	a.Client = client
	return a
}

// olds returns the old size of each request.
func (a *testWitness) olds() (olds []string) {
	for _, body := range a.bodies {
		old, _, _ := strings.Cut(strings.TrimPrefix(body, "old "), "\n")
		olds = append(olds, old)
	}
	return olds
}

// A client needs one request for each checkpoint of a growing log, because it remembers the
// witness's size. A new client, or a witness that was restored, costs one more.
func TestClientRemembersSize(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	h, a := grow(t, "leaf", 300), newTestWitness(t)
	for _, size := range []int64{0, 1, 2, 255, 256, 256, 300} {
		cosignature, err := a.Cosign(ctx, h.checkpoint(t, size, logKey), h.prove)
		if err != nil || cosignature.Key.String() != a.Key().String() || cosignature.Time != noon.Unix() {
			t.Fatalf("size %d: %+v, %v", size, cosignature, err)
		}
	}
	if want := []string{"0", "0", "1", "2", "255", "256", "256"}; !slices.Equal(a.olds(), want) {
		t.Errorf("asked from %q, want %q", a.olds(), want)
	}
	b := newTestWitness(t)
	b.state.latest[origin] = h.tree(t, 255)
	if _, err := b.Cosign(ctx, h.checkpoint(t, 300, logKey), h.prove); err != nil || !slices.Equal(b.olds(), []string{"0", "255"}) {
		t.Errorf("asked from %q: %v", b.olds(), err)
	}
	b.state.latest[origin] = h.tree(t, 255) // a witness that was restored
	if _, err := b.Cosign(ctx, h.checkpoint(t, 300, logKey), h.prove); err != nil || !slices.Equal(b.olds()[2:], []string{"300", "255"}) {
		t.Errorf("asked from %q: %v", b.olds(), err)
	}
}

// A cosignature dated more than MaxAhead ahead of our clock is refused, and the client does not
// remember its size.
func TestClientRefusesCosignaturesOfTheFuture(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	h, a := grow(t, "leaf", 10), newTestWitness(t)
	at := time.Now()
	a.answer = func(w http.ResponseWriter, _ *http.Request) {
		answer, err := cosigner(t, newMemory()).AddCheckpoint(ctx, []byte(a.bodies[len(a.bodies)-1]), at)
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(answer.Status)
		_, _ = io.WriteString(w, answer.Body)
	}
	for _, ahead := range []time.Time{time.Unix(1<<62, 0), time.Unix(1<<40, 0), time.Now().Add(witness.MaxAhead + time.Minute)} {
		at = ahead
		if c, err := a.Cosign(ctx, h.checkpoint(t, 5, logKey), h.prove); err == nil || !strings.Contains(err.Error(), "ahead of the clock") {
			t.Errorf("%v: %+v, %v", ahead.Unix(), c, err)
		}
	}
	at = time.Now().Add(witness.MaxAhead - time.Minute)
	if _, err := a.Cosign(ctx, h.checkpoint(t, 5, logKey), h.prove); err != nil {
		t.Error(err)
	}
	if want := []string{"0", "0", "0", "0"}; !slices.Equal(a.olds(), want) {
		t.Errorf("asked from %q, want %q", a.olds(), want)
	}
}

// When the witness has cosigned a larger tree, Cosign returns an AheadError, whether the client
// knew that size or not.
func TestClientReportsLargerTree(t *testing.T) {
	t.Parallel()
	h, a := grow(t, "leaf", 300), newTestWitness(t)
	_, err := a.Cosign(ctx, h.checkpoint(t, 300, logKey), h.prove)
	must.OK(t, err)
	fresh := newTestWitness(t)
	fresh.state.latest[origin] = h.tree(t, 300)
	for name, client := range map[string]*testWitness{"known": a, "new": fresh} {
		_, err := client.Cosign(ctx, h.checkpoint(t, 299, logKey), h.prove)
		var ahead *witness.AheadError
		if !errors.As(err, &ahead) || *ahead != (witness.AheadError{Witness: witnessName, Origin: origin, Known: 300, Asked: 299}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Only the log's own signatures are sent.
func TestClientSendsOwnSignatures(t *testing.T) {
	t.Parallel()
	h, a := grow(t, "leaf", 9), newTestWitness(t)
	own := string(h.checkpoint(t, 9, logKey))
	c := tlog.Checkpoint{Origin: origin, Tree: h.tree(t, 9)}
	other, err := c.Cosign("other.example", otherKey, noon)
	must.OK(t, err)
	_, err = a.Cosign(ctx, []byte(own+other.Line), h.prove)
	must.OK(t, err)
	if want := "old 0\n\n" + own; a.bodies[0] != want {
		t.Errorf("sent was %q, want %q", a.bodies[0], want)
	}
}

// Responses of real witnesses that deviate from the standard, and responses that no witness should
// send.
func TestClientIsTolerantAndBounded(t *testing.T) {
	t.Parallel()
	h := grow(t, "leaf", 9)
	c := tlog.Checkpoint{Origin: origin, Tree: h.tree(t, 9)}
	good, err := c.Cosign(witnessName, witnessKey, noon)
	must.OK(t, err)
	newer, err := c.Cosign(witnessName, witnessKey, noon.Add(time.Second))
	must.OK(t, err)
	other, err := c.Cosign("other.example", otherKey, noon)
	must.OK(t, err)
	forged, err := c.Cosign(witnessName, otherKey, noon)
	must.OK(t, err)
	elsewhere, err := tlog.Checkpoint{Origin: origin, Tree: h.tree(t, 8)}.Cosign(witnessName, witnessKey, noon)
	must.OK(t, err)
	for _, test := range []struct {
		name, contentType string
		status            int
		body, line        string // line is the cosignature that is returned; "" for an error
	}{
		{"no content type", "", 200, good.Line, good.Line},
		{"another's beside it", "text/plain", 200, other.Line + good.Line, good.Line},
		{"two", "text/plain", 200, good.Line + newer.Line + good.Line, newer.Line},
		{"one of another key in the witness's name beside it", "text/plain", 200, forged.Line + good.Line, good.Line},
		{"one that does not verify beside it", "text/plain", 200, elsewhere.Line + good.Line, good.Line},
		{"another's alone", "text/plain", 200, other.Line, ""},
		{"one that does not verify", "text/plain", 200, elsewhere.Line, ""},
		{"nothing", "text/plain", 200, "", ""},
		{"no signature line", "text/plain", 200, "ok\n", ""},
		{"too much", "text/plain", 200, good.Line + strings.Repeat(other.Line, 1000), ""},
		{"an unknown origin, as omniwitness says it", "text/plain", 500, "unknown log", ""},
		{"too many requests", "text/plain", 429, "", ""},
		{"a conflict without a size", "text/plain", 409, "conflict\n", ""},
		{"a conflict with a negative size", "text/x.tlog.size", 409, "-1\n", ""},
		{"a conflict with the size that it was asked from", "text/x.tlog.size", 409, "0\n", ""},
		{"a conflict with a size as no other has it", "text/plain", 409, "4", ""},
		{"no content", "text/plain", 204, "", ""},
	} {
		a := newTestWitness(t)
		a.answer = func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = []string{test.contentType}
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		}
		got, err := a.Cosign(ctx, h.checkpoint(t, 9, logKey), h.prove)
		if got.Line != test.line || (err == nil) != (test.line != "") {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
		var status *witness.StatusError
		if test.status != 200 && (!errors.As(err, &status) || status.Status != test.status) {
			t.Errorf("%s: %v", test.name, err)
		}
		if len(a.bodies) > 2 {
			t.Errorf("%s: asked %d times", test.name, len(a.bodies))
		}
	}
}

// A client accepts a 409 whose size has no content type or line break, and tries again from that
// size.
func TestClientAcceptsAnySpellingOfSize(t *testing.T) {
	t.Parallel()
	h, a := grow(t, "leaf", 9), newTestWitness(t)
	c := tlog.Checkpoint{Origin: origin, Tree: h.tree(t, 9)}
	good, err := c.Cosign(witnessName, witnessKey, noon)
	must.OK(t, err)
	a.answer = func(w http.ResponseWriter, r *http.Request) {
		if len(a.bodies) == 1 {
			http.Error(w, "4", http.StatusConflict)
			return
		}
		_, _ = io.WriteString(w, good.Line)
	}
	if _, err := a.Cosign(ctx, h.checkpoint(t, 9, logKey), h.prove); err != nil || !slices.Equal(a.olds(), []string{"0", "4"}) {
		t.Errorf("asked from %q: %v", a.olds(), err)
	}
}

// A redirect is an error, and is not followed.
func TestClientRefusesRedirects(t *testing.T) {
	t.Parallel()
	h, a := grow(t, "leaf", 9), newTestWitness(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	a.answer = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}
	var status *witness.StatusError
	if _, err := a.Cosign(ctx, h.checkpoint(t, 9, logKey), h.prove); !errors.As(err, &status) || status.Status != http.StatusTemporaryRedirect {
		t.Errorf("%v", err)
	}
}

// Cosign returns when its context ends, and returns the errors of its Prover.
func TestClientStopsWithContext(t *testing.T) {
	t.Parallel()
	h, a := grow(t, "leaf", 9), newTestWitness(t)
	limited, cancel := context.WithCancel(ctx)
	a.answer = func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}
	if _, err := a.Cosign(limited, h.checkpoint(t, 9, logKey), h.prove); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	broken := errors.New("no proof")
	if _, err := a.Cosign(ctx, h.checkpoint(t, 9, logKey), func(context.Context, int64, tlog.Tree) ([]tlog.Hash, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if _, err := a.Cosign(ctx, []byte("no checkpoint"), h.prove); !errors.Is(err, tlog.ErrMalformed) {
		t.Errorf("%v", err)
	}
}

// NewClient demands https for a witness on another machine, and the key of a witness.
func TestNewClientRefuses(t *testing.T) {
	t.Parallel()
	key := vkey(witnessName, tlog.TypeCosignature, witnessKey)
	for _, prefix := range []string{"https://witness.example", "https://10.0.0.1:8443/a/b/", "http://127.0.0.1:8080", "http://[::1]:8080/v1/witness", "http://localhost:1"} {
		if _, err := witness.NewClient(prefix, key); err != nil {
			t.Errorf("%s: %v", prefix, err)
		}
	}
	for _, prefix := range []string{"", "witness.example", "http://witness.example", "http://10.0.0.1", "http://localhost.example", "ftp://localhost", "https://u:p@w.example", "https://w.example?a=b", "https://w.example#a", "https:///x"} {
		if _, err := witness.NewClient(prefix, key); err == nil {
			t.Errorf("%q is accepted", prefix)
		}
	}
	if _, err := witness.NewClient("https://witness.example", vkey(origin, tlog.TypeEd25519, logKey)); err == nil {
		t.Error("the key of a log is accepted")
	}
}

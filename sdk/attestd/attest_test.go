package attestd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attestd/internal/testenv"
	"attestd/sdk/attestd"
)

var attestation = attestd.Attestation{AgentID: "bot", ActionType: "a", Payload: json.RawMessage(`{"n":1.0}`)}

// Each fault that may pass is tried again, at most twice, with the same idempotency key and body,
// after 0.5 to 8 seconds.
func TestAttestIsRetried(t *testing.T) {
	refusal := func(status int) step { return step{status: status, body: `{"error":"no"}`} }
	for name, fault := range map[string]step{
		"connection lost": {}, "answer cut": {status: 201, body: recordJSON, cut: true}, "201 of a proxy": {status: 201, body: "<html>"},
		"408": refusal(408), "409": refusal(409), "429": refusal(429), "500": refusal(500), "503": refusal(503), "504": refusal(504),
		"no answer in time": {status: 201, body: recordJSON, after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{steps: []step{fault, fault, created}}
				r, err := s.client(t, attestd.Key("svc_k")).Attest(t.Context(), attestation)
				if err != nil || r.Index != 7 {
					t.Fatal(r, err)
				}
				if len(s.seen) != 3 {
					t.Fatalf("%d requests", len(s.seen))
				}
				for i, r := range s.seen {
					if r.key == "" || r.key != s.seen[0].key || r.body != s.seen[0].body || r.bearer != "svc_k" {
						t.Errorf("request %d differs: %+v", i, r)
					}
					if i == 0 {
						continue
					}
					waited := r.at.Sub(s.seen[i-1].at) - min(fault.after, 30*time.Second)
					if waited < 500*time.Millisecond || waited > 8*time.Second {
						t.Errorf("waited %v", waited)
					}
				}

				s = &script{steps: []step{fault}}
				if _, err := s.client(t, nil).Attest(t.Context(), attestation); err == nil || len(s.seen) != 3 {
					t.Errorf("after %d requests: %v", len(s.seen), err)
				}
			})
		})
	}
}

// What the service has refused for good is not sent again, and is an *Error with all that the
// service answered. Nothing but 201 is a success.
func TestAttestResolvesOnlyOn201(t *testing.T) {
	for _, status := range []int{200, 202, 204, 301, 307, 400, 401, 403, 404, 413, 422} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{steps: []step{{status: status, body: `{"error":"refused","code":"WHY","pointer":"/payload/x"}`, header: http.Header{"X-Request-Id": {"r1"}, "Location": {"http://elsewhere"}}}}}
			_, err := s.client(t, attestd.Key("svc_k")).Attest(t.Context(), attestation)
			var refused *attestd.Error
			if !errors.As(err, &refused) || refused.Status != status || refused.Code != "WHY" || refused.Message != "refused" || refused.Pointer != "/payload/x" || refused.RequestID != "r1" {
				t.Errorf("%d: %#v", status, err)
			}
			if len(s.seen) != 1 {
				t.Errorf("%d was sent %d times", status, len(s.seen))
			}
		})
	}
}

// Retry-After is waited for, also when it is longer than the longest wait of our own, but not past
// the caller's time nor for longer than a minute.
func TestRetryAfter(t *testing.T) {
	limited := func(after string) step {
		return step{status: 429, body: `{"error":"Too Many Requests"}`, header: http.Header{"Retry-After": {after}}}
	}
	for after, want := range map[string]time.Duration{"0": 500 * time.Millisecond, "20": 20 * time.Second, "60": 60 * time.Second, "61": 0, "Sat, 01 Jan 2000 00:00:30 GMT": 30 * time.Second, "soon": 500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{steps: []step{limited(after), created}}
			start := time.Now()
			_, err := s.client(t, nil).Attest(t.Context(), attestation)
			if took := time.Since(start); want == 0 && (err == nil || took > 0) || want > 0 && (err != nil || took < want || took > want+time.Second) {
				t.Errorf("Retry-After %s: %v after %v", after, err, took)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := contextFor(t, 10*time.Second)
		defer cancel()
		s := &script{steps: []step{limited("20"), created}}
		start := time.Now()
		if _, err := s.client(t, nil).Attest(ctx, attestation); !errors.Is(err, &attestd.Error{Status: 429}) || time.Since(start) > 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// A request other than an append is not idempotent. It is sent again only if it had no effect.
func TestOtherWritesAreNotRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		fault step
		sent  int
	}{
		"connection lost": {step{}, 1}, "500": {step{status: 500}, 1}, "409": {step{status: 409}, 1},
		"503 unknown": {step{status: 503, body: `{"error":"?","code":"OUTCOME_UNKNOWN"}`}, 1},
		"503":         {step{status: 503, body: `{"error":"?","code":"NOT_DONE"}`}, 3}, "429": {step{status: 429}, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{steps: []step{c.fault}}
			if _, err := s.client(t, nil).CreateKey(t.Context(), attestd.NewCredential{}); err == nil || len(s.seen) != c.sent {
				t.Errorf("%s: sent %d times, %v", name, len(s.seen), err)
			}
		})
	}
}

// Text is made well-formed before it is sent; JSON that is at hand stays byte for byte otherwise.
func TestTextIsWellFormed(t *testing.T) {
	for _, c := range []struct {
		payload any
		want    string
	}{
		{json.RawMessage(`{ "n":1.0,"s":"a\ud83dz" }`), `{ "n":1.0,"s":"a\ufffdz" }`},
		{json.RawMessage(`"\ude00\ud83d\ude00\ud83d"`), `"\ufffd\ud83d\ude00\ufffd"`},
		{json.RawMessage(`"\ud83d\ud83d\ude00\\ud83d\\\ud83d"`), `"\ufffd\ud83d\ude00\\ud83d\\\ufffd"`},
		{json.RawMessage(`"\uD83D\uDE00<&>\u0000"`), `"\uD83D\uDE00<&>\u0000"`},
		{json.RawMessage("\"a\xffb\xed\xa0\xbdc\""), "\"a\uFFFDb\uFFFDc\""},
		{map[string]any{"s": "a\xff<&>", "n": 1}, `{"n":1,"s":"a\ufffd<&>"}`},
		{nil, "null"},
	} {
		a, err := attestd.Attestation{AgentID: "b\xff", ActionType: "a\xffb", Payload: c.payload}.Prepare()
		if got := string(a.Payload.(json.RawMessage)); err != nil || got != c.want {
			t.Errorf("%s becomes %s, want %s (%v)", c.payload, got, c.want, err)
		}
		if a.AgentID != "b\uFFFD" || a.ActionType != "a\uFFFDb" {
			t.Errorf("%q %q", a.AgentID, a.ActionType)
		}
	}
}

// A key that is no token is sent in the header as a quoted string.
func TestKeysInHeaders(t *testing.T) {
	for key, want := range map[string]string{"k:1/2~!": "k:1/2~!", "a b": `"a b"`, `"k"`: `"\"k\""`, `a\b`: `"a\\b"`} {
		s := &script{steps: []step{created}}
		a := attestation
		a.IdempotencyKey = key
		if _, err := s.client(t, nil).Attest(t.Context(), a); err != nil || s.seen[0].key != want {
			t.Errorf("%s goes as %s, %v", key, s.seen[0].key, err)
		}
	}
}

// What can never be a record is refused before anything is sent.
func TestPrepareRefuses(t *testing.T) {
	long := strings.Repeat("é", 257)
	for name, a := range map[string]attestd.Attestation{
		"not JSON":         {AgentID: "b", ActionType: "a", Payload: json.RawMessage(`1,"agentId":"other"`)},
		"no value":         {AgentID: "b", ActionType: "a", Payload: json.RawMessage(nil)},
		"a channel":        {AgentID: "b", ActionType: "a", Payload: make(chan int)},
		"no agent":         {ActionType: "a", Payload: 1},
		"no action":        {AgentID: "b", Payload: 1},
		"long agent":       {AgentID: long, ActionType: "a", Payload: 1},
		"key of two lines": {AgentID: "b", ActionType: "a", Payload: 1, IdempotencyKey: "k\nk"},
		"key beyond ASCII": {AgentID: "b", ActionType: "a", Payload: 1, IdempotencyKey: "é"},
		"long key":         {AgentID: "b", ActionType: "a", Payload: 1, IdempotencyKey: strings.Repeat("k", 256)},
	} {
		s := &script{steps: []step{created}}
		if _, err := s.client(t, nil).Attest(t.Context(), a); err == nil || len(s.seen) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A batch is one request in the order given, each item with a key of its own; the answer must have
// as many records.
func TestAttestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []step{{}, {status: 201, body: `{"records":[` + recordJSON + `,` + recordJSON + `]}`}}}
		named := attestation
		named.IdempotencyKey = "mine"
		rs, err := s.client(t, nil).AttestBatch(t.Context(), []attestd.Attestation{attestation, named})
		if err != nil || len(rs) != 2 || s.seen[0].body != s.seen[1].body {
			t.Fatal(rs, err)
		}
		var sent struct {
			Records []struct{ AgentID, ActionType, IdempotencyKey string }
		}
		if err := json.Unmarshal([]byte(s.seen[0].body), &sent); err != nil || len(sent.Records) != 2 || len(sent.Records[0].IdempotencyKey) < 20 || sent.Records[1].IdempotencyKey != "mine" {
			t.Errorf("%+v %v", sent, err)
		}
		if again, err := json.Marshal(rs[0]); err != nil || string(again) != recordJSON {
			t.Errorf("a record is marshalled as %s, %v", again, err)
		}
		if _, err := s.client(t, nil).AttestBatch(t.Context(), []attestd.Attestation{attestation}); err == nil {
			t.Error("two records for one attestation are taken")
		}
		for _, n := range []int{0, attestd.MaxBatch + 1} {
			if _, err := s.client(t, nil).AttestBatch(t.Context(), make([]attestd.Attestation, n)); err == nil {
				t.Errorf("a batch of %d is sent", n)
			}
		}
	})
}

// A token is fetched once for many calls, again before it expires, and once more when the service
// refuses it; a secret is not printed.
func TestOAuth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := func(n int) step {
			return step{status: 200, body: fmt.Sprintf(`{"access_token":"oauth_%d","token_type":"bearer","expires_in":3600}`, n)}
		}
		s := &script{steps: []step{token(1), created, created, token(2), created, {status: 401, body: `{"error":"Unauthorized"}`}, token(3), created}}
		credential := attestd.OAuth("cc_1", "secret")
		c := s.client(t, credential)
		var bearers []string
		for range 2 {
			for range 2 {
				if _, err := c.Attest(t.Context(), attestation); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(59*time.Minute + time.Second)
		}
		for _, r := range s.seen {
			bearers = append(bearers, r.bearer)
		}
		if got := strings.Join(bearers, " "); got != " oauth_1 oauth_1  oauth_2 oauth_2  oauth_3" {
			t.Errorf("presented: %q", got)
		}
		if s.seen[5].key != s.seen[7].key {
			t.Error("the retry with a new token has another key")
		}
		if text := fmt.Sprintf("%v %+v %#v %s", credential, attestd.Config{Credential: credential}, attestd.Key("svc_k"), attestd.Key("svc_k")); strings.Contains(text, "secret") || strings.Contains(text, "svc_k") {
			t.Error(text)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []step{{status: 401, body: `{"error":"Unauthorized"}`}}}
		if _, err := s.client(t, attestd.Key("svc_k")).Attest(t.Context(), attestation); !errors.Is(err, &attestd.Error{Status: 401}) || len(s.seen) != 1 {
			t.Errorf("%d requests, %v", len(s.seen), err)
		}
	})
}

// Keys are in paths and in URLs; no error names them.
func TestErrorsNameNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, fault := range []step{{}, {status: 500}} {
			s := &script{steps: []step{fault}}
			if err := s.client(t, attestd.Key("svc_own")).DeleteKey(t.Context(), "svc_other"); err == nil || strings.Contains(err.Error(), "svc_") || !strings.Contains(s.seen[0].url, "svc_other") {
				t.Error(err)
			}
		}
	})
	for _, u := range []string{"", "attestd.test", "ftp://a", "http://u:secret@a", "http://a?key=secret", "http://a/%zz:secret@"} {
		if _, err := attestd.New(attestd.Config{URL: u}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", u, err)
		}
	}
}

// The end of the context ends the waiting between attempts.
func TestContextEndsRetries(t *testing.T) {
	testenv.Concurrent(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := contextFor(t, 0)
		s := &script{steps: []step{{}}}
		c := s.client(t, nil)
		go func() {
			time.Sleep(100 * time.Millisecond)
			cancel()
		}()
		if _, err := c.Attest(ctx, attestation); !errors.Is(err, errLost) || len(s.seen) != 1 {
			t.Errorf("%d requests, %v", len(s.seen), err)
		}
	})
}

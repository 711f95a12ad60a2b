package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// journal is the log of a service at every level, with all secrets that it sent or received.
type journal struct {
	mu      sync.Mutex
	text    bytes.Buffer
	secrets map[string]bool
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// says counts the occurrences of a text in the log.
func (j *journal) says(what string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), what)
}

// remember adds a secret. Very short ones are omitted.
func (j *journal) remember(secret string) {
	if len(secret) < 12 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.secrets == nil {
		j.secrets = make(map[string]bool)
	}
	j.secrets[secret] = true
	// A part of a token reveals as much as the whole.
	if part := strings.Split(secret, "."); len(part) == 3 {
		for _, p := range part[1:] {
			if len(p) >= 12 {
				j.secrets[p] = true
			}
		}
	}
}

// secretsOf adds the secrets in a body.
func (j *journal) secretsOf(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if s, ok := value.(string); ok && isSecret(name) {
				j.remember(s)
			}
			j.secretsOf(value)
		}
	case []any:
		for _, value := range v {
			j.secretsOf(value)
		}
	}
}

// secretsOfRequest adds the secrets in all parts of a request.
func (j *journal) secretsOfRequest(req *http.Request, body string) {
	for name, values := range req.Header {
		if name == "Authorization" || strings.HasSuffix(name, "-Passport") {
			for _, v := range values {
				_, credential, ok := strings.Cut(v, " ")
				if !ok {
					credential = v
				}
				j.remember(strings.TrimSpace(credential))
			}
		}
	}
	if _, password, ok := req.BasicAuth(); ok {
		j.remember(password)
	}
	if key, ok := strings.CutPrefix(req.URL.Path, "/v1/keys/"); ok {
		j.remember(key)
	}
	var v any
	if json.Unmarshal([]byte(body), &v) == nil {
		j.secretsOf(v)
	} else if form, err := url.ParseQuery(body); err == nil {
		j.remember(form.Get("client_secret"))
	}
}

// leaks returns the lines of the log that show a secret, one for each secret.
func (j *journal) leaks() (lines []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for secret := range j.secrets {
		at := bytes.Index(j.text.Bytes(), []byte(secret))
		if at < 0 {
			continue
		}
		from := bytes.LastIndexByte(j.text.Bytes()[:at], '\n') + 1
		line, _, _ := bytes.Cut(j.text.Bytes()[from:], []byte{'\n'})
		lines = append(lines, string(line))
	}
	return lines
}

// lines returns the decoded lines of the log.
func (j *journal) lines(t testing.TB) (lines []map[string]any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	scan := bufio.NewScanner(bytes.NewReader(j.text.Bytes()))
	for scan.Scan() {
		var line map[string]any
		must.OK(t, json.Unmarshal(scan.Bytes(), &line))
		lines = append(lines, line)
	}
	must.OK(t, scan.Err())
	return lines
}

// Every request has one line, with the request's ID and the route in place of the path.
func TestLogOfARequest(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	second := acme.do(t, "POST /v1/keys", "").status(201).str("key")
	acme.do(t, "DELETE /v1/keys/"+second, "", "X-Request-ID: deletion").status(200)
	acme.do(t, "DELETE /v1/keys/svc_not-a-key-but-looks-like-one", "").status(404)
	s.anyone().do(t, "GET /v1/chain?api_key="+acme.credential, "", "X-Request-ID: refused").status(401)
	s.anyone().do(t, "GET /nowhere/"+acme.credential, "", "X-Request-ID: lost").status(404)
	s.anyone().do(t, "BREW /v1/health", "", "X-Request-ID: tea").status(405)

	// A line may be written just after its answer has arrived; stopping the service waits for it.
	s.stop()
	find := func(id string) map[string]any {
		t.Helper()
		lines := slices.DeleteFunc(s.log.lines(t), func(l map[string]any) bool { return l["id"] != id })
		if len(lines) != 1 {
			t.Fatalf("%d lines with the ID %s, want 1", len(lines), id)
		}
		return lines[0]
	}
	for id, want := range map[string]map[string]any{
		"deletion": {"method": "DELETE", "route": "/v1/keys/{key}", "status": 200.0, "company": "acme"},
		"refused":  {"method": "GET", "route": "/v1/chain", "status": 401.0, "company": nil},
		"lost":     {"method": "GET", "status": 404.0, "company": nil},
		"tea":      {"status": 405.0, "company": nil},
	} {
		line := find(id)
		for name, value := range want {
			if line[name] != value {
				t.Errorf("%s: %s is %v, want %v", id, name, line[name], value)
			}
		}
		if _, ok := line["duration"]; !ok {
			t.Errorf("%s: no duration", id)
		}
	}
}

// The search for secrets finds a key or a part of a token in a log that shows one.
func TestLogSearchFindsSecrets(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	const key, token = "svc_0123456789abcdef0123456789abcdef0123456789a", "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJzcGlmZmUifQ.c2lnbmF0dXJlLWJ5dGVz"
	for _, line := range []string{"path=/v1/keys/" + key, "header " + token, "claims eyJzdWIiOiJzcGlmZmUifQ"} {
		j := &journal{}
		j.remember(key)
		j.remember(token)
		j.Write([]byte("one line\nanother with " + line + "\nthe last\n"))
		if leaked := j.leaks(); len(leaked) == 0 || leaked[0] != "another with "+line {
			t.Errorf("%q was not found: %q", line, leaked)
		}
	}
}

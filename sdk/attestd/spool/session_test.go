package spool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"attestd/crypto/statement"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// notary records statements as the real service does: each once, no place of a session twice.
type notary struct {
	mu      sync.Mutex
	status  int // what it answers an append; 0 is no answer, 201 to take
	code    string
	loses   bool                         // the answer, after it has recorded
	refuses string                       // an action type
	known   map[string]bool              // statements
	ids     map[string]bool              // jti
	places  map[string]map[int64]*record // by session
	tokens  int
	appends int
}

type record struct {
	*statement.Statement
	action string
}

func newNotary() *notary {
	return &notary{status: 201, known: map[string]bool{}, ids: map[string]bool{}, places: map[string]map[int64]*record{}}
}

func (n *notary) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	answer := func(status int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	text, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		return nil, err
	case strings.HasSuffix(r.URL.Path, "/oauth/token"):
		n.tokens++
		return answer(200, `{"access_token":"t","token_type":"Bearer","expires_in":3600}`)
	case r.Method == "GET":
		return answer(200, `{"keys":[]}`)
	case n.status == 0:
		return nil, errors.New("connection refused")
	case n.status != 201:
		return answer(n.status, `{"error":"no","code":"`+n.code+`"}`)
	}
	type item struct{ ActionType, Statement string }
	var batch struct{ Records []item }
	single := !strings.HasSuffix(r.URL.Path, "/batch")
	if single {
		batch.Records = make([]item, 1)
		err = json.Unmarshal(text, &batch.Records[0])
	} else {
		err = json.Unmarshal(text, &batch)
	}
	if err != nil {
		return nil, err
	}
	for i, item := range batch.Records {
		code := ""
		if n.refuses != "" && item.ActionType == n.refuses {
			code = "WHY"
		}
		s, err := statement.Parse(item.Statement)
		if err != nil {
			return nil, err
		}
		if !n.known[item.Statement] && (n.ids[s.ID] || n.places[s.Session][s.Seq] != nil) {
			code = attestd.StatementReused
		}
		if code != "" {
			return answer(409-map[bool]int{true: 6}[code == "WHY"], fmt.Sprintf(`{"error":"refused","code":%q,"pointer":"/records/%d/statement"}`, code, i))
		}
	}
	var records []string
	for _, item := range batch.Records {
		s, _ := statement.Parse(item.Statement)
		if !n.known[item.Statement] {
			n.known[item.Statement], n.ids[s.ID] = true, true
			if n.places[s.Session] == nil {
				n.places[s.Session] = map[int64]*record{}
			}
			n.places[s.Session][s.Seq] = &record{s, item.ActionType}
			n.appends++
		}
		records = append(records, `{"hash":"00","signature":"AA"}`)
	}
	if n.loses {
		return nil, errors.New("connection reset")
	}
	if single {
		return answer(201, records[0])
	}
	return answer(201, `{"records":[`+strings.Join(records, ",")+`]}`)
}

// open opens the session in a folder, as one process of several does.
func (n *notary) open(t *testing.T, dir, id string, key *attestd.AgentKey) (*spool.Session, *spool.Spool) {
	t.Helper()
	identity, err := attestd.NewIdentity(attestd.IdentityConfig{Key: key, SPIFFEID: "spiffe://attestd.local/company/acme/agent/bot", Alarm: func(error) {}})
	must(t, err)
	c, err := attestd.New(attestd.Config{URL: "http://attestd.test", Credential: identity, HTTP: &http.Client{Transport: n}, Retry: &attestd.Retry{}})
	must(t, err)
	s, err := spool.Open(dir, c)
	must(t, err)
	made, err := s.Session(identity, id)
	must(t, err)
	return made, s
}

// check requires that a session has the places 0 to want-1, each naming the one before.
func (n *notary) check(t *testing.T, id string, want int) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if got := len(n.places[id]); got != want {
		t.Errorf("the session %s has %d records, want %d", id, got, want)
	}
	for seq := range int64(want) {
		r := n.places[id][seq]
		if r == nil {
			t.Fatalf("the session %s lacks %d", id, seq)
		}
		if seq > 0 && r.Previous != n.places[id][seq-1].Hash() {
			t.Errorf("%d does not name the one before", seq)
		}
		if r.End != (r.action == "end") {
			t.Errorf("%d: %s, end %v", seq, r.action, r.End)
		}
	}
}

func newAgentKey(t *testing.T) *attestd.AgentKey {
	t.Helper()
	key, err := attestd.NewAgentKey(attestd.EdDSA)
	must(t, err)
	return key
}

// Processes that share a session number its statements without a hole, at the same time and while
// the service comes and goes; nothing stays in the folder.
func TestSessionOfManyProcesses(t *testing.T) {
	t.Parallel()
	there, dir, key := newNotary(), filepath.Join(t.TempDir(), "spool"), newAgentKey(t)
	const processes, each = 6, 12
	var all sync.WaitGroup
	for p := range processes {
		session, folder := there.open(t, dir, "one", key)
		all.Go(func() {
			for i := range each {
				if p == 0 && i%4 == 0 {
					there.mu.Lock()
					there.status = 201 - there.status
					there.mu.Unlock()
				}
				if _, _, err := session.Attest(t.Context(), attestation(p*each+i)); err != nil {
					t.Error(err)
				}
				if i%5 == p%5 {
					_ = folder.Flush(t.Context()) // the service may be away
				}
			}
		})
	}
	all.Wait()
	there.status = 201
	session, folder := there.open(t, dir, "one", key)
	_, _, err := session.End(t.Context(), attestd.Attestation{AgentID: "bot", ActionType: "end", Payload: 1})
	must(t, err)
	must(t, folder.Flush(t.Context()))
	there.check(t, "one", processes*each+1)
	if n := folder.Pending(); n != 0 {
		t.Errorf("%d still wait", n)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.queue*")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

// A process may be killed after the line of the queue and before its place, or in the middle of
// either: the next process goes on without a hole and without using a number twice, whichever
// session and whether signed or not it adds first.
func TestSessionGoesOnAfterKill(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(t *testing.T, there *notary, dir string, key *attestd.AgentKey){
		"the same session": func(*testing.T, *notary, string, *attestd.AgentKey) {},
		"another session": func(t *testing.T, there *notary, dir string, key *attestd.AgentKey) {
			other, _ := there.open(t, dir, "other", key)
			must(t, other.Add(t.Context(), attestation(9)))
		},
		"a flush": func(t *testing.T, there *notary, dir string, key *attestd.AgentKey) {
			_, folder := there.open(t, dir, "other", key)
			must(t, folder.Flush(t.Context()))
		},
	} {
		for where, cut := range map[string]func(before, after int) int{
			"before the place": func(before, _ int) int { return before },
			"in its beginning": func(before, _ int) int { return before + 1 },
			"in its end":       func(_, after int) int { return after - 1 },
		} {
			t.Run(name+" "+where, func(t *testing.T) {
				there, dir, key := newNotary(), filepath.Join(t.TempDir(), "spool"), newAgentKey(t)
				session, folder := there.open(t, dir, "one", key)
				must(t, session.Add(t.Context(), attestation(0)))
				before := placesIn(t, dir)
				must(t, session.Add(t.Context(), attestation(1)))
				after := placesIn(t, dir)
				for path, text := range after {
					must(t, os.WriteFile(path, []byte(text[:cut(len(before[path]), len(text))]), 0o600))
				}
				next(t, there, dir, key)
				again, _ := there.open(t, dir, "one", key)
				must(t, again.Add(t.Context(), attestation(2)))
				must(t, folder.Flush(t.Context()))
				there.check(t, "one", 3)
				for path := range after {
					if lines := strings.Count(placesIn(t, dir)[path], "\n"); lines != 3 {
						t.Errorf("the file has %d places", lines)
					}
				}
			})
		}
	}
}

// placesIn reads the files of all sessions, by path.
func placesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "sessions", "*"))
	must(t, err)
	texts := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must(t, err)
		texts[path] = string(text)
	}
	return texts
}

// What the service refuses has no place; the credential's trouble is not the attestation's fault.
func TestRefusedStatementLeavesNoHole(t *testing.T) {
	t.Parallel()
	there, dir, key := newNotary(), filepath.Join(t.TempDir(), "spool"), newAgentKey(t)
	session, folder := there.open(t, dir, "one", key)
	there.refuses = "a1"
	for n := range 3 {
		_, queued, err := session.Attest(t.Context(), attestation(n))
		if refused := errors.Is(err, &attestd.Error{Code: "WHY"}); queued || refused != (n == 1) {
			t.Errorf("%d: queued %v, %v", n, queued, err)
		}
	}
	there.check(t, "one", 2)
	for _, away := range []struct {
		status int
		code   string
	}{{401, ""}, {403, "FORBIDDEN_ROLE"}, {404, ""}, {429, ""}, {503, "OUTCOME_UNKNOWN"}, {0, ""}} {
		there.status, there.code = away.status, away.code
		if _, queued, err := session.Attest(t.Context(), attestation(5)); !queued || err != nil {
			t.Errorf("%+v: queued %v, %v", away, queued, err)
		}
		if _, err := session.AttestNow(t.Context(), attestation(5)); err == nil {
			t.Errorf("%+v: no error without an answer", away)
		}
	}
	there.status = 201
	must(t, folder.Flush(t.Context()))
	there.check(t, "one", 14)
}

// An event that is reported twice is signed once, also by another process.
func TestSessionSignsAKeyOnce(t *testing.T) {
	t.Parallel()
	there, dir, key := newNotary(), filepath.Join(t.TempDir(), "spool"), newAgentKey(t)
	for range 2 {
		session, _ := there.open(t, dir, "one", key)
		a := attestation(1)
		a.IdempotencyKey = "event-1"
		_, _, err := session.Attest(t.Context(), a)
		if again := errors.Is(err, spool.ErrSigned); err != nil && !again || again != (there.appends == 1 && err != nil) {
			t.Error(err)
		}
	}
	there.check(t, "one", 1)
	if !there.ids["event-1"] {
		t.Error("the key is not the jti")
	}
}

// A session that has ended goes on under another ID, and so does one whose places are lost.
func TestSessionGoesOnUnderAnotherID(t *testing.T) {
	t.Parallel()
	there, dir, key := newNotary(), filepath.Join(t.TempDir(), "spool"), newAgentKey(t)
	session, folder := there.open(t, dir, "one", key)
	for n := range 2 {
		_, _, err := session.Attest(t.Context(), attestation(n))
		must(t, err)
	}
	_, _, err := session.End(t.Context(), attestd.Attestation{AgentID: "bot", ActionType: "end", Payload: 1})
	must(t, err)
	_, _, err = session.Attest(t.Context(), attestation(3))
	must(t, err)
	there.check(t, "one", 3)
	if len(there.places) != 2 {
		t.Errorf("%d sessions, want 2", len(there.places))
	}
	must(t, os.RemoveAll(filepath.Join(dir, "sessions")))
	again, _ := there.open(t, dir, "one", key)
	for n := range 2 {
		_, _, err = again.Attest(t.Context(), attestation(4+n))
		must(t, err)
	}
	there.check(t, "one", 3)
	if len(there.places) != 3 || folder.Pending() != 0 {
		t.Errorf("%d sessions, want 3; %d wait", len(there.places), folder.Pending())
	}
	for id := range there.places {
		if id != "one" {
			there.check(t, id, map[bool]int{true: 2, false: 1}[len(there.places[id]) == 2])
		}
	}
}

// An answer that is lost makes no second record.
func TestLostAnswerOfStatement(t *testing.T) {
	t.Parallel()
	there, dir, key := newNotary(), filepath.Join(t.TempDir(), "spool"), newAgentKey(t)
	session, folder := there.open(t, dir, "one", key)
	there.loses = true
	if _, queued, err := session.Attest(context.Background(), attestation(0)); !queued || err != nil {
		t.Error(queued, err)
	}
	there.loses = false
	_, _, err := session.Attest(t.Context(), attestation(1))
	must(t, err)
	must(t, folder.Flush(t.Context()))
	there.check(t, "one", 2)
	if there.appends != 2 {
		t.Errorf("%d records", there.appends)
	}
}

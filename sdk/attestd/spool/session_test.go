package spool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/crypto/statement"
	"attestd/internal/must"
	"attestd/internal/notary"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/spool"
)

// machine is where an agent has a key and a folder.
type machine struct {
	*notary.Notary
	t   *testing.T
	dir string
	attestd.IdentityConfig
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	return &machine{
		Notary: notary.New(t), t: t, dir: filepath.Join(t.TempDir(), "spool"),
		IdentityConfig: attestd.IdentityConfig{
			Key: newAgentKey(t), SPIFFEID: "spiffe://attestd.local/company/acme/agent/bot", Log: notary.Log, Alarm: func(error) {},
		},
	}
}

// open opens a session in the folder, as one process of several does.
func (m *machine) open(id string) (*spool.Session, *spool.Spool) {
	m.t.Helper()
	identity, err := attestd.NewIdentity(m.IdentityConfig)
	must.OK(m.t, err)
	c, err := attestd.New(attestd.Config{URL: "http://attestd.test", Credential: identity, HTTP: &http.Client{Transport: m.Notary}, Retry: &attestd.Retry{}})
	must.OK(m.t, err)
	s, err := spool.Open(m.dir, c)
	must.OK(m.t, err)
	made, err := s.Session(identity, id)
	must.OK(m.t, err)
	return made, s
}

// nextKey makes the agent go on with its next key.
func (m *machine) nextKey() {
	m.Known = append(slices.Clone(m.Known), m.Key.Thumbprint())
	m.Key = newAgentKey(m.t)
}

func newAgentKey(t *testing.T) *attestd.AgentKey {
	t.Helper()
	key, err := attestd.NewAgentKey(attestd.EdDSA)
	must.OK(t, err)
	return key
}

var end = attestd.Attestation{AgentID: "bot", ActionType: "end", Payload: 1, Last: true}

// attest attests, and requires that the service has recorded it.
func attest(t *testing.T, s *spool.Session, as ...attestd.Attestation) {
	t.Helper()
	for _, a := range as {
		if _, queued, err := s.Attest(t.Context(), a); queued || err != nil {
			t.Fatalf("%s: queued %v, %v", a.ActionType, queued, err)
		}
	}
}

// isRefused requires that the service refuses an attestation, which is then set apart.
func isRefused(t *testing.T, s *spool.Session, a attestd.Attestation) {
	t.Helper()
	var apart *spool.ApartError
	if _, queued, err := s.Attest(t.Context(), a); queued || !errors.As(err, &apart) {
		t.Fatalf("%s: queued %v, %v", a.ActionType, queued, err)
	}
}

// after returns the session of an ID that goes on from another one, and requires that its first
// statement names the last one there.
func (m *machine) after(id, before string) string {
	m.t.Helper()
	for _, sid := range m.Sessions() {
		c := m.Records(sid)[0].Continues
		if !strings.HasPrefix(sid, id+"~") || c == nil || c.Session != before {
			continue
		}
		former := m.Records(before)
		if last := former[int64(len(former))-1]; last.Hash() != c.Hash || last.KeyID != c.KeyID {
			m.t.Errorf("%s does not name the last statement of %s", sid, before)
		}
		return sid
	}
	m.t.Fatalf("no session goes on from %s: %q", before, m.Sessions())
	return ""
}

// Processes that share a session number its statements without a hole, at the same time and while
// the service comes and goes and refuses some of them; nothing stays in the folder.
func TestSessionOfManyProcesses(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	const processes, each = 6, 12
	m.With(func() {
		m.Decide = func(action string, s *statement.Statement) notary.Decision {
			return map[bool]notary.Decision{true: {Refuse: 400, Code: "WHY"}}[s.Seq%7 == 3]
		}
	})
	var all sync.WaitGroup
	for p := range processes {
		session, folder := m.open("one")
		all.Go(func() {
			for i := range each {
				if p == 0 && i%4 == 0 {
					m.With(func() { m.Status = 201 - m.Status })
				}
				if _, _, err := session.Attest(t.Context(), attestation(p*each+i)); err != nil && !errors.As(err, new(*spool.ApartError)) {
					t.Error(err)
				}
				if i%5 == p%5 {
					_ = folder.Flush(t.Context()) // the service may be away
				}
			}
		})
	}
	all.Wait()
	m.With(func() { m.Status = 201 })
	session, folder := m.open("one")
	if err := folder.Flush(t.Context()); err != nil && !errors.As(err, new(*spool.RefusedError)) {
		t.Error(err)
	}
	m.With(func() { m.Decide = nil })
	attest(t, session, end)
	m.Is("one", "complete: 0 to 72, sealed, 10 refused")
	if n := folder.Pending(); n != 0 {
		t.Errorf("%d still wait", n)
	}
	if left, err := filepath.Glob(filepath.Join(m.dir, "*.queue*")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	if apart, err := folder.Refused(); err != nil || len(apart) != 10 {
		t.Errorf("%d are set apart, want 10, %v", len(apart), err)
	}
}

// A process may be killed after the line of the queue and before its place, or in the middle of
// either: the next process goes on without a hole and without using a number twice, whichever
// session and whether signed or not it adds first.
func TestSessionGoesOnAfterKill(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(t *testing.T, m *machine){
		"the same session": func(*testing.T, *machine) {},
		"another session": func(t *testing.T, m *machine) {
			other, _ := m.open("other")
			must.OK(t, other.Add(t.Context(), attestation(9)))
		},
		"a flush": func(t *testing.T, m *machine) {
			_, folder := m.open("other")
			must.OK(t, folder.Flush(t.Context()))
		},
	} {
		for where, cut := range map[string]func(before, after int) int{
			"before the place": func(before, _ int) int { return before },
			"in its beginning": func(before, _ int) int { return before + 1 },
			"in its end":       func(_, after int) int { return after - 1 },
		} {
			t.Run(name+" "+where, func(t *testing.T) {
				m := newMachine(t)
				session, folder := m.open("one")
				must.OK(t, session.Add(t.Context(), attestation(0)))
				before := placesIn(t, m.dir)
				must.OK(t, session.Add(t.Context(), attestation(1)))
				after := placesIn(t, m.dir)
				for path, text := range after {
					must.OK(t, os.WriteFile(path, []byte(text[:cut(len(before[path]), len(text))]), 0o600))
				}
				next(t, m)
				again, _ := m.open("one")
				must.OK(t, again.Add(t.Context(), attestation(2)))
				must.OK(t, folder.Flush(t.Context()))
				m.Is("one", "open at 2")
				for path := range after {
					if lines := strings.Count(placesIn(t, m.dir)[path], "\n"); lines != 3 {
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
	must.OK(t, err)
	texts := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must.OK(t, err)
		texts[path] = string(text)
	}
	return texts
}

// What the service refuses has its place, and the next statement says that it was refused; the
// credential's trouble is not the attestation's fault.
func TestRefusedStatementHasItsPlace(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	session, folder := m.open("one")
	m.Refuse("a1", notary.Decision{Refuse: 403, Code: "WHY"})
	attest(t, session, attestation(0))
	isRefused(t, session, attestation(1))
	attest(t, session, attestation(2))
	m.Is("one", "open at 2, 1 refused")
	if r := m.Records("one")[2].Refused; len(r) != 1 || r[0].Seq != 1 || r[0].Code != "WHY" {
		t.Errorf("refused: %+v", r)
	}
	for _, away := range []struct {
		status int
		code   string
	}{{401, ""}, {403, "FORBIDDEN_ROLE"}, {404, ""}, {429, ""}, {503, "OUTCOME_UNKNOWN"}, {0, ""}} {
		m.With(func() { m.Status, m.Code = away.status, away.code })
		if _, queued, err := session.Attest(t.Context(), attestation(5)); !queued || err != nil {
			t.Errorf("%+v: queued %v, %v", away, queued, err)
		}
		if _, err := session.AttestNow(t.Context(), attestation(5)); err == nil {
			t.Errorf("%+v: no error without an answer", away)
		}
	}
	m.With(func() { m.Status = 201 })
	must.OK(t, folder.Flush(t.Context()))
	m.Is("one", "open at 14, 1 refused")
	apart, err := folder.Refused()
	if err != nil || len(apart) != 1 || apart[0].Code != "WHY" || !strings.Contains(string(apart[0].Attestation), `"actionType":"a1"`) {
		t.Errorf("set apart: %+v, %v", apart, err)
	}
}

// A refusal without a code that a statement can name is named by its status.
func TestRefusalWithoutCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{"": "HTTP_422", "lower": "HTTP_422", "A B": "HTTP_422", strings.Repeat("A", 65): "HTTP_422", "A_9": "A_9"} {
		m := newMachine(t)
		session, _ := m.open("one")
		m.Refuse("a0", notary.Decision{Refuse: 422, Code: code})
		isRefused(t, session, attestation(0))
		attest(t, session, attestation(1))
		if r := m.Records("one")[1].Refused; len(r) != 1 || r[0].Code != want {
			t.Errorf("%q: %+v, want %s", code, r, want)
		}
	}
}

// A service that answers one attestation with 400 and has recorded it gets no second statement for
// its place: the agent says that it was refused, and the record shows that this was not so.
func TestServiceThatRefusesAndRecords(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	session, _ := m.open("one")
	m.Refuse("a1", notary.Decision{Refuse: 400, Code: "STATEMENT_MALFORMED", Record: true})
	attest(t, session, attestation(0))
	isRefused(t, session, attestation(1))
	attest(t, session, attestation(2), end)
	m.Is("one", "complete: 0 to 3, sealed, recorded 1 after its refusal")
}

// A service that refuses everything, for however long, makes no hole: later statements name it all,
// a hundred at a time.
func TestServiceThatRefusesEverything(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	session, folder := m.open("one")
	const many = 250
	m.With(func() { m.Status, m.Code = 400, "NO" })
	for n := range many {
		isRefused(t, session, attestation(n))
	}
	m.With(func() { m.Status = 201 })
	for n := range 2 {
		attest(t, session, attestation(n))
	}
	m.Is("one", "missing 200")
	attest(t, session, end)
	m.Is("one", "complete: 0 to 252, sealed, 250 refused")
	if apart, err := folder.Refused(); err != nil || len(apart) != many {
		t.Errorf("%d are set apart, want %d, %v", len(apart), many, err)
	}
}

// A service that says of everything that it has another statement there gets no second one for any
// place, and the agent goes on from its last run when that has an end.
func TestServiceThatSaysReused(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	session, folder := m.open("one")
	attest(t, session, attestation(0), attestation(1))
	m.With(func() { m.Status, m.Code = 409, attestd.StatementReused })
	for n := range 3 {
		isRefused(t, session, attestation(n))
	}
	m.With(func() { m.Status = 201 })
	attest(t, session, attestation(2), end)
	m.Is("one", "open at 1")
	m.Is(m.after("one", "one"), "complete: 0 to 1, sealed")
	if apart, err := folder.Refused(); err != nil || len(apart) != 6 || len(m.Sessions()) != 2 {
		t.Errorf("%d are set apart, want 6, %v; %q", len(apart), err, m.Sessions())
	}
}

// What a Flush finds refused is named by the statements after it, also where a statement that named
// it was refused itself.
func TestFlushFindsRefusals(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	session, folder := m.open("one")
	for n := range 4 {
		must.OK(t, session.Add(t.Context(), attestation(n)))
	}
	refused := map[string]bool{"a1": true, "a3": true}
	m.With(func() {
		m.Decide = func(action string, _ *statement.Statement) notary.Decision {
			return map[bool]notary.Decision{true: {Refuse: 403, Code: "WHY"}}[refused[action]]
		}
	})
	var apart *spool.RefusedError
	if err := folder.Flush(t.Context()); !errors.As(err, &apart) || len(apart.Refused) != 2 {
		t.Error(err)
	}
	refused["a4"] = true
	must.OK(t, session.Add(t.Context(), attestation(4))) // which names two, and is refused
	if err := folder.Flush(t.Context()); !errors.As(err, &apart) {
		t.Error(err)
	}
	attest(t, session, attestation(5), end)
	m.Is("one", "complete: 0 to 6, sealed, 3 refused")
	if r := m.Records("one")[5].Refused; len(r) != 3 {
		t.Errorf("%+v", r)
	}
	if r := m.Records("one")[6].Refused; r != nil {
		t.Errorf("named twice: %+v", r)
	}
}

// An end that was refused ends nothing: the session goes on, and ends at a later place.
func TestRefusedEnd(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	session, folder := m.open("one")
	attest(t, session, attestation(0))
	m.Refuse("end", notary.Decision{Refuse: 403, Code: "AGENT_DISABLED"})
	isRefused(t, session, end)
	must.OK(t, session.Add(t.Context(), attestation(1)))
	must.OK(t, session.Add(t.Context(), end)) // the next Flush gets the refusal
	if err := folder.Flush(t.Context()); !errors.As(err, new(*spool.RefusedError)) {
		t.Error(err)
	}
	m.With(func() { m.Decide = nil })
	attest(t, session, end)
	m.Is("one", "complete: 0 to 4, sealed, 2 refused")
}

// A process is killed at every step of a refusal: after it has signed, after the service has
// answered, after the refusal is noted, and after it is set apart.
func TestKillsDuringARefusal(t *testing.T) {
	t.Parallel()
	type state map[string]string // files by path
	read := func(t *testing.T, dir string) state {
		files := placesIn(t, dir)
		for _, name := range []string{"queue", "refused"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil {
				files[filepath.Join(dir, name)] = string(text)
			}
		}
		return files
	}
	for name, killed := range map[string]struct {
		places, apart bool // are as they were after the refusal
		want          string
	}{
		"before it is noted":     {false, false, "open at 2"}, // it is sent again, and recorded
		"before it is set apart": {true, false, "open at 2, 1 refused"},
		"before its line goes":   {true, true, "open at 2, 1 refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			session, folder := m.open("one")
			attest(t, session, attestation(0))
			must.OK(t, session.Add(t.Context(), attestation(1)))
			before := read(t, m.dir)
			m.Refuse("a1", notary.Decision{Refuse: 403, Code: "AGENT_DISABLED"})
			if err := folder.Flush(t.Context()); !errors.As(err, new(*spool.RefusedError)) {
				t.Error(err)
			}
			after := read(t, m.dir)
			for path, text := range before {
				isPlaces := filepath.Base(path) != "queue" && filepath.Base(path) != "refused"
				if isPlaces && killed.places {
					text = after[path]
				}
				must.OK(t, os.WriteFile(path, []byte(text), 0o600))
			}
			if !killed.apart {
				must.OK(t, os.Remove(filepath.Join(m.dir, "refused")))
			}
			m.With(func() { m.Decide = nil }) // from now on the service would record it
			again, folder := m.open("one")
			if err := folder.Flush(t.Context()); err != nil && !errors.As(err, new(*spool.RefusedError)) {
				t.Error(err)
			}
			attest(t, again, attestation(2))
			m.Is("one", killed.want)
			apart, err := folder.Refused()
			if want := map[bool]int{true: 1, false: 0}[killed.places]; err != nil || len(apart) != want {
				t.Errorf("%d are set apart, want %d, %v", len(apart), want, err)
			}
			if folder.Pending() != 0 {
				t.Error("it still waits")
			}
		})
	}
}

// An event that is reported twice is signed once, also by another process. One that was refused may
// be signed again, at another place and with another jti.
func TestSessionSignsAKeyOnce(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	keyed := attestation(1)
	keyed.IdempotencyKey = "event-1"
	first, _ := m.open("one")
	m.Refuse("a1", notary.Decision{Refuse: 403, Code: "AGENT_DISABLED"})
	for range 2 {
		isRefused(t, first, keyed)
	}
	m.With(func() { m.Decide = nil })
	attest(t, first, keyed)
	second, _ := m.open("one")
	if _, _, err := second.Attest(t.Context(), keyed); !errors.Is(err, spool.ErrSigned) {
		t.Error(err)
	}
	keyed.Payload = "another"
	if _, _, err := second.Attest(t.Context(), keyed); !errors.Is(err, spool.ErrKeyReused) {
		t.Error(err)
	}
	m.Is("one", "open at 2, 2 refused")
	other, _ := m.open("two")
	keyed.IdempotencyKey = "event-2"
	attest(t, other, keyed)
	if id := m.Records("two")[0].ID; id != "event-2" {
		t.Errorf("the jti is %s", id)
	}
}

// A session that has ended goes on under another ID, and says from what.
func TestSessionGoesOnAfterItsEnd(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	session, _ := m.open("one")
	other, _ := m.open("one")
	attest(t, session, attestation(0), attestation(1), end)
	if _, _, err := session.Attest(t.Context(), attestation(2)); !errors.Is(err, attestd.ErrEnded) {
		t.Error(err)
	}
	m.Is("one", "complete: 0 to 2, sealed")
	attest(t, other, attestation(2))
	next := m.after("one", "one")
	attest(t, session, end) // which is that of the run that goes on
	again, _ := m.open("one")
	attest(t, again, attestation(3))
	m.Is(next, "complete: 0 to 1, sealed")
	m.Is(m.after("one", next), "open at 0")
	if n := len(m.Sessions()); n != 3 {
		t.Errorf("%d sessions, want 3", n)
	}
}

// A session goes on from another one, of whichever ID and folder, where the caller says so.
func TestSessionAfterAnother(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first, _ := m.open("one")
	if last, err := first.Last(); last != nil || err != nil {
		t.Error(last, err)
	}
	attest(t, first, attestation(0), end)
	last, err := first.Last()
	must.OK(t, err)
	m.dir = filepath.Join(t.TempDir(), "another")
	m.nextKey()
	_, folder := m.open("-")
	identity, err := attestd.NewIdentity(m.IdentityConfig)
	must.OK(t, err)
	if _, err := folder.SessionAfter(identity, "one", *last); err == nil {
		t.Error("it goes on under the same ID")
	}
	second, err := folder.SessionAfter(identity, "two", *last)
	must.OK(t, err)
	attest(t, second, attestation(1), attestation(2))
	records := m.Records("two")
	if c := records[0].Continues; c == nil || *c != *last || c.Hash != m.Records("one")[1].Hash() || records[1].Continues != nil {
		t.Errorf("it goes on from %+v, want %+v", c, last)
	}
}

// Under the agent's next key a session goes on under another ID, and says from what. A process that
// still has the former key does so, too: nothing is added to a run that another one goes on from.
func TestSessionGoesOnUnderTheNextKey(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	former, _ := m.open("one")
	attest(t, former, attestation(0), attestation(1))
	m.nextKey()
	session, _ := m.open("one")
	attest(t, session, attestation(2), attestation(3))
	m.Is("one", "open at 1")
	second := m.after("one", "one")
	m.Is(second, "open at 1")
	if m.Records(second)[0].KeyID != m.Key.Thumbprint() {
		t.Error("the former key has signed")
	}
	attest(t, former, attestation(4))
	m.Is("one", "open at 1")
	if n := len(m.Sessions()); n != 3 {
		t.Errorf("%q, want 3 sessions", m.Sessions())
	}
	m.nextKey()
	third, _ := m.open("one")
	attest(t, third, attestation(5), end)
	for _, sid := range m.Sessions() {
		if r := m.Records(sid)[0]; r.KeyID == m.Key.Thumbprint() && (r.Continues == nil || r.Continues.Session == "one") {
			t.Errorf("the third key goes on from %+v, not from the newest run", r.Continues)
		}
	}
}

// Where a key is not known to be the former one of the same agent, the service says that it has the
// session, and the session goes on under another ID.
func TestSessionOfAnUnknownKey(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	former, _ := m.open("one")
	attest(t, former, attestation(0))
	m.Key = newAgentKey(t)
	session, folder := m.open("one")
	attest(t, session, attestation(1))
	m.Is("one", "open at 0")
	if all := m.Sessions(); len(all) != 2 || !strings.HasPrefix(all[1], "one~") || folder.Pending() != 0 {
		t.Errorf("%q, %d wait", all, folder.Pending())
	}
}

// A session of which the folder was lost goes on under another ID. With an idempotency key the
// caller gets an error, for the service may have that very action.
func TestSessionOfALostFolder(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"without a key": "", "with a key": "event"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			session, _ := m.open("one")
			attest(t, session, attestation(0), attestation(1))
			must.OK(t, os.RemoveAll(m.dir))
			m.Forget()
			again, folder := m.open("one")
			a := attestation(2)
			a.IdempotencyKey = key
			if key != "" {
				_, queued, err := again.Attest(t.Context(), a)
				if !errors.Is(err, &attestd.Error{Code: attestd.StatementReused}) || queued {
					t.Errorf("queued %v, %v", queued, err)
				}
			}
			attest(t, again, a, attestation(3))
			m.Is("one", "open at 1")
			for _, sid := range m.Sessions() {
				if sid != "one" {
					m.Is(sid, "open at 1")
				}
			}
			if len(m.Sessions()) != 2 || folder.Pending() != 0 {
				t.Errorf("%q; %d wait", m.Sessions(), folder.Pending())
			}
		})
	}
}

// What an older folder says is read: places without what was added since, and a mark after which a
// session goes on under another ID.
func TestPlacesOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	older := func(text string) string {
		var read map[string]any
		var lines strings.Builder
		for line := range strings.Lines(text) {
			must.OK(t, json.Unmarshal([]byte(line[9:]), &read))
			delete(read, "names")
			lines.WriteString(spool.Checked(read))
		}
		return lines.String()
	}
	for name, change := range map[string]func(text string) string{
		"as it was": func(text string) string { return text },
		"a mark": func(text string) string {
			return text + spool.Checked(map[string]any{"sid": "one", "seq": 2, "hash": "", "end": true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			session, folder := m.open("one")
			attest(t, session, attestation(0), attestation(1))
			must.OK(t, session.Add(t.Context(), attestation(2)))
			must.OK(t, folder.Flush(t.Context()))
			for path, text := range placesIn(t, m.dir) {
				must.OK(t, os.WriteFile(path, []byte(change(older(text))), 0o600))
			}
			again, _ := m.open("one")
			attest(t, again, attestation(3))
			if name == "as it was" {
				m.Is("one", "open at 3")
				return
			}
			m.Is("one", "open at 2")
			m.Is(m.after("one", "one"), "open at 0")
		})
	}
}

// After a line that the disk has changed, a session goes on under another ID.
func TestDamagedPlaces(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	session, _ := m.open("one")
	attest(t, session, attestation(0), attestation(1))
	for path, text := range placesIn(t, m.dir) {
		must.OK(t, os.WriteFile(path, []byte(text[:len(text)-3]+"x\n"), 0o600))
	}
	again, _ := m.open("one")
	attest(t, again, attestation(2), attestation(3))
	m.Is("one", "open at 1")
	for _, sid := range m.Sessions() {
		if sid != "one" {
			m.Is(sid, "open at 1")
		}
	}
}

// The file of a session that is over for long is removed, and none of its places is used again.
func TestOldPlacesAreRemoved(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	session, _ := m.open("one")
	attest(t, session, attestation(0), attestation(1))
	for path := range placesIn(t, m.dir) {
		long := time.Now().Add(-61 * 24 * time.Hour)
		must.OK(t, os.Chtimes(path, long, long))
	}
	other, _ := m.open("two")
	attest(t, other, attestation(2))
	if n := len(placesIn(t, m.dir)); n != 1 {
		t.Errorf("%d files, want 1", n)
	}
	attest(t, session, attestation(3))
	again, _ := m.open("one")
	attest(t, again, attestation(4))
	m.Is("one", "open at 1")
	m.Is(m.after("one", "one"), "open at 1")
}

// An answer that is lost makes no second record.
func TestLostAnswerOfStatement(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	session, folder := m.open("one")
	m.With(func() { m.Loses = true })
	if _, queued, err := session.Attest(context.Background(), attestation(0)); !queued || err != nil {
		t.Error(queued, err)
	}
	m.With(func() { m.Loses = false })
	attest(t, session, attestation(1))
	must.OK(t, folder.Flush(t.Context()))
	m.Is("one", "open at 1")
	if m.Appends != 2 {
		t.Errorf("%d records", m.Appends)
	}
}

// A service that names another log gets nothing of what waits, and nothing more is signed.
func TestFolderOfAnotherLog(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	session, _ := m.open("one")
	must.OK(t, session.Add(t.Context(), attestation(0)))
	m.With(func() { m.Names = "attestd.test/another" })
	again, folder := m.open("one")
	var other *attestd.OtherLogError
	if err := folder.Flush(t.Context()); !errors.As(err, &other) || other.Named != "attestd.test/another" {
		t.Error(err)
	}
	if err := again.Add(t.Context(), attestation(1)); !errors.As(err, &other) {
		t.Error(err)
	}
	if m.Appends != 0 || folder.Pending() != 1 {
		t.Errorf("%d records, %d wait", m.Appends, folder.Pending())
	}
	m.With(func() { m.Names = notary.Log })
	_, folder = m.open("one")
	must.OK(t, folder.Flush(t.Context()))
	m.Is("one", "open at 0")
}

// An identity that does not know its log signs as before, and learns it when it signs in. What was
// refused before is named then.
func TestSessionLearnsItsLog(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.Log = ""
	session, folder := m.open("one")
	for n := range 3 {
		must.OK(t, session.Add(t.Context(), attestation(n)))
	}
	m.Refuse("a1", notary.Decision{Refuse: 400, Code: "STATEMENT_MALFORMED"})
	if err := folder.Flush(t.Context()); !errors.As(err, new(*spool.RefusedError)) {
		t.Error(err)
	}
	attest(t, session, attestation(3))
	m.Is("one", "open at 3, 1 refused")
	for seq, version := range map[int64]int{0: 1, 2: 1, 3: 2} {
		if got := m.Records("one")[seq].Version(); got != version {
			t.Errorf("%d is of version %d, want %d", seq, got, version)
		}
	}
}

// The places of a session in mid-use and their refusals are read within bounds, however many there
// are.
func TestSessionOfManyRefusals(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	session, folder := m.open("one")
	const many = 120
	for n := range many {
		must.OK(t, session.Add(t.Context(), attestation(n)))
	}
	m.With(func() {
		m.Decide = func(_ string, s *statement.Statement) notary.Decision {
			return map[bool]notary.Decision{true: {Refuse: 400, Code: "ODD"}}[s.Seq%2 == 1 && s.Seq < many]
		}
	})
	if err := folder.Flush(t.Context()); !errors.As(err, new(*spool.RefusedError)) {
		t.Error(err)
	}
	attest(t, session, end)
	m.Is("one", fmt.Sprintf("complete: 0 to %d, sealed, %d refused", many, many/2))
}

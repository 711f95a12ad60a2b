// Package notary simulates the service for tests of what agents sign: it records each statement
// once, and no two of them at one place. It also plays services that fail and that lie. It
// remembers every statement that it was ever sent, so that it can say whether an agent has obeyed
// the rules.
package notary

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"attestd/crypto/statement"
)

// Log is the origin that a notary names unless a test sets another.
const Log = "attestd.test/acme"

// Decision is what becomes of an attestation.
type Decision struct {
	Refuse int    // the status of a refusal; 0 for none
	Code   string // of the refusal
	Record bool   // it is recorded although it is refused
}

// Notary is the transport of a client. Its fields are to be set by With.
type Notary struct {
	t testing.TB

	Status int    // what it answers every append; 0 is no answer, 201 decides each
	Code   string // of that answer
	Loses  bool   // it records, and its answer is lost
	Names  string // the log that it names; "" as an older service
	// Decide decides an attestation that could be recorded; nil records it.
	Decide func(action string, s *statement.Statement) Decision

	mu       sync.Mutex
	sent     map[place]*statement.Statement // every statement, recorded or not
	ids      map[id]string                  // jti of every statement
	recorded map[place]Record
	known    map[string]bool // the recorded ones
	usedIDs  map[id]bool     // their jti
	owner    map[string]string
	SignIns  int
	Appends  int
}

type place struct {
	kid, sid string
	seq      int64
}

type id struct{ kid, jti string }

// Record is a recorded statement.
type Record struct {
	*statement.Statement
	Action string
}

// New returns a notary that records everything. At the end of the test it requires that no one has
// sent two statements for one place, or two with one jti.
func New(t testing.TB) *Notary {
	return &Notary{
		t: t, Status: 201, Names: Log, sent: map[place]*statement.Statement{}, ids: map[id]string{}, recorded: map[place]Record{},
		known: map[string]bool{}, usedIDs: map[id]bool{}, owner: map[string]string{},
	}
}

// With changes the notary.
func (n *Notary) With(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// Refuse makes the notary refuse an action type.
func (n *Notary) Refuse(action string, d Decision) {
	n.With(func() {
		n.Decide = func(asked string, _ *statement.Statement) Decision {
			if asked == action {
				return d
			}
			return Decision{}
		}
	})
}

func answer(r *http.Request, status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{"X-Request-Id": {"r"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// RoundTrip answers a request.
func (n *Notary) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var text []byte
	if r.Body != nil {
		var err error
		if text, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/oauth/token"):
		n.SignIns++
		return answer(r, 200, `{"access_token":"t","token_type":"Bearer","expires_in":3600}`)
	case r.Method == http.MethodGet:
		log, err := json.Marshal(n.Names)
		if err != nil {
			return nil, err
		}
		return answer(r, 200, `{"keys":[],"log":`+string(log)+`}`)
	}
	return n.append(r, text)
}

type item struct{ ActionType, Statement string }

func (n *Notary) append(r *http.Request, text []byte) (*http.Response, error) {
	var batch struct{ Records []item }
	single := !strings.HasSuffix(r.URL.Path, "/batch")
	var err error
	if single {
		batch.Records = make([]item, 1)
		err = json.Unmarshal(text, &batch.Records[0])
	} else {
		err = json.Unmarshal(text, &batch)
	}
	if err != nil {
		return nil, err
	}
	stmts := make([]*statement.Statement, len(batch.Records))
	for i, it := range batch.Records {
		if stmts[i], err = statement.Parse(it.Statement); err != nil {
			return nil, err
		}
		n.compare(stmts[i])
	}
	switch {
	case n.Status == 0:
		return nil, errors.New("connection refused")
	case n.Status != 201:
		return answer(r, n.Status, fmt.Sprintf(`{"error":"no","code":%q}`, n.Code))
	}
	for i, it := range batch.Records {
		if d := n.decide(it, stmts[i]); d.Refuse != 0 {
			if d.Record {
				n.record(it, stmts[i])
			}
			return answer(r, d.Refuse, fmt.Sprintf(`{"error":"refused","code":%q,"pointer":"/records/%d/statement"}`, d.Code, i))
		}
	}
	records := Records(text, "acme")
	for i, it := range batch.Records {
		n.record(it, stmts[i])
	}
	switch {
	case n.Loses:
		return nil, errors.New("connection reset")
	case single:
		return answer(r, 201, records[0])
	}
	return answer(r, 201, `{"records":[`+strings.Join(records, ",")+`]}`)
}

// compare compares a statement with those that were sent before.
func (n *Notary) compare(s *statement.Statement) {
	at, own := place{s.KeyID, s.Session, s.Seq}, id{s.KeyID, s.ID}
	if before, ok := n.sent[at]; ok && s.Session != "" && before.Compact != s.Compact {
		n.t.Errorf("the agent has signed two statements for the place %d of the session %s", s.Seq, s.Session)
	}
	if before, ok := n.ids[own]; ok && before != s.Compact {
		n.t.Errorf("the agent has signed two statements with the jti %s", s.ID)
	}
	n.sent[at], n.ids[own] = s, s.Compact
}

// Forget makes the notary forget what it was sent and has not recorded, for a test in which the
// agent forgets it, too.
func (n *Notary) Forget() {
	n.With(func() { clear(n.sent); clear(n.ids) })
}

func (n *Notary) decide(it item, s *statement.Statement) Decision {
	switch at := (place{s.KeyID, s.Session, s.Seq}); {
	case n.known[s.Compact]:
		return Decision{}
	case n.usedIDs[id{s.KeyID, s.ID}]:
		return Decision{Refuse: 409, Code: statement.CodeReused}
	case s.Session == "":
	case n.recorded[at].Statement != nil, n.owner[s.Session] != "" && n.owner[s.Session] != s.KeyID:
		return Decision{Refuse: 409, Code: statement.CodeReused}
	}
	if n.Decide == nil {
		return Decision{}
	}
	return n.Decide(it.ActionType, s)
}

func (n *Notary) record(it item, s *statement.Statement) {
	if n.known[s.Compact] {
		return
	}
	n.known[s.Compact], n.usedIDs[id{s.KeyID, s.ID}], n.owner[s.Session] = true, true, s.KeyID
	n.recorded[place{s.KeyID, s.Session, s.Seq}] = Record{s, it.ActionType}
	n.Appends++
}

// Records are the recorded statements of a session, by their places.
func (n *Notary) Records(session string) map[int64]Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[int64]Record{}
	for at, r := range n.recorded {
		if at.sid == session {
			all[at.seq] = r
		}
	}
	return all
}

// Sessions are the IDs of the sessions with records, ascending.
func (n *Notary) Sessions() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	ids := map[string]bool{}
	for at := range n.recorded {
		ids[at.sid] = true
	}
	return slices.Sorted(maps.Keys(ids))
}

// Verdict is what a checker says of a session: "complete: 0 to 3, sealed, 1 refused", "open at 2"
// or "missing 1". It says, too, which places the service has recorded although it refused them.
func (n *Notary) Verdict(session string) string {
	records := n.Records(session)
	last, end := int64(-1), int64(-1)
	refused := map[int64]string{}
	for seq, r := range records {
		last = max(last, seq)
		if r.End {
			end = seq
		}
		for _, place := range r.Refused {
			if before, ok := refused[place.Seq]; ok && before != place.Hash {
				return fmt.Sprintf("failed: two hashes of the refused place %d", place.Seq)
			}
			refused[place.Seq] = place.Hash
		}
	}
	gone, lied := 0, ""
	for seq := int64(0); seq <= last; seq++ {
		at, there := records[seq]
		hash, named := refused[seq]
		switch {
		case there && named && at.Hash() != hash:
			return fmt.Sprintf("failed: the place %d is recorded with another hash than the refused one", seq)
		case there && named:
			lied += fmt.Sprintf(", recorded %d after its refusal", seq)
		case named:
			gone++
		case !there:
			return fmt.Sprintf("missing %d", seq)
		}
		if there {
			hash = at.Hash()
		}
		if next, ok := records[seq+1]; ok && next.Previous != hash {
			return fmt.Sprintf("failed: the place %d does not name the one before", seq+1)
		}
	}
	text := fmt.Sprintf("open at %d", last)
	if end >= 0 && end == last {
		text = fmt.Sprintf("complete: 0 to %d, sealed", last)
	}
	if gone > 0 {
		text += fmt.Sprintf(", %d refused", gone)
	}
	return text + lied
}

// Is requires a verdict.
func (n *Notary) Is(session, want string) {
	n.t.Helper()
	if got := n.Verdict(session); got != want {
		n.t.Errorf("the session %s is %q, want %q", session, got, want)
	}
}

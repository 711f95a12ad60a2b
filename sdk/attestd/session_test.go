package attestd_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/statement"
	"attestd/internal/must"
	"attestd/internal/notary"
	"attestd/sdk/attestd"
)

// signer returns the client of an agent with a new key, at a notary that plays the service.
func signer(t *testing.T, n *notary.Notary, change func(*attestd.IdentityConfig)) (*attestd.Client, *attestd.Identity) {
	t.Helper()
	key, err := attestd.NewAgentKey(attestd.EdDSA)
	must.OK(t, err)
	config := attestd.IdentityConfig{Key: key, SPIFFEID: "spiffe://attestd.local/company/acme/agent/bot", Log: notary.Log, Alarm: func(error) {}}
	if change != nil {
		change(&config)
	}
	identity, err := attestd.NewIdentity(config)
	must.OK(t, err)
	c, err := attestd.New(attestd.Config{URL: "http://attestd.test", Credential: identity, HTTP: &http.Client{Transport: n}, Retry: &attestd.Retry{}})
	must.OK(t, err)
	return c, identity
}

func did(n int) attestd.Attestation {
	return attestd.Attestation{AgentID: "bot", ActionType: fmt.Sprint("a", n), Payload: n}
}

// An attestation in a session need not say whose action it is, for the key does. One of another
// agent is refused, and has no place.
func TestSessionKnowsItsAgent(t *testing.T) {
	t.Parallel()
	n := notary.New(t)
	c, _ := signer(t, n, nil)
	s, err := c.Session("one")
	must.OK(t, err)
	other := did(1)
	other.AgentID = "planner"
	if _, err := s.Attest(t.Context(), other); err == nil || s.Last() != nil {
		t.Errorf("another agent's action: %v, and the last statement is %v", err, s.Last())
	}
	unnamed := did(2)
	unnamed.AgentID = ""
	if r, err := s.Attest(t.Context(), unnamed); err != nil || r.Payload.AgentID != "bot" {
		t.Errorf("without an agent: %+v %v", r.Payload, err)
	}
}

// What the service refuses has its place, and the next statement names it; so does one that a lying
// service has recorded all the same. The end of a session that is refused ends nothing.
func TestSessionNamesWhatWasRefused(t *testing.T) {
	t.Parallel()
	n := notary.New(t)
	c, _ := signer(t, n, nil)
	s, err := c.Session("one")
	must.OK(t, err)
	attest := func(a attestd.Attestation, code string) {
		t.Helper()
		_, err := s.Attest(t.Context(), a)
		if answer := (*attestd.Error)(nil); (err != nil) != (code != "") || err != nil && (!errors.As(err, &answer) || answer.Code != code) {
			t.Errorf("%s: %v, want %q", a.ActionType, err, code)
		}
	}
	attest(did(0), "")
	n.Refuse("a1", notary.Decision{Refuse: 400, Code: "STATEMENT_MALFORMED", Record: true})
	attest(did(1), "STATEMENT_MALFORMED")
	n.Refuse("a2", notary.Decision{Refuse: 403, Code: "AGENT_DISABLED"})
	keyed := did(2)
	keyed.IdempotencyKey = "event"
	attest(keyed, "AGENT_DISABLED")
	attest(keyed, "AGENT_DISABLED")
	n.With(func() { n.Decide = nil })
	attest(keyed, "")
	n.Refuse("a3", notary.Decision{Refuse: 422, Code: ""})
	end := did(3)
	end.Last = true
	if _, err := s.Attest(t.Context(), end); !attestd.NotRecorded(err) {
		t.Error(err)
	}
	n.With(func() { n.Decide = nil })
	attest(did(4), "")
	attest(end, "")
	if _, err := s.Attest(t.Context(), did(5)); !errors.Is(err, attestd.ErrEnded) {
		t.Error(err)
	}
	n.Is("one", "complete: 0 to 7, sealed, 3 refused, recorded 1 after its refusal")
	if r := n.Records("one")[6].Refused; len(r) != 1 || r[0].Code != "HTTP_422" {
		t.Errorf("%+v", r)
	}
}

// A session whose service refuses everything names it all once it goes on, a hundred places at a
// time.
func TestSessionOfARefusingService(t *testing.T) {
	t.Parallel()
	n := notary.New(t)
	c, _ := signer(t, n, nil)
	s, err := c.Session("one")
	must.OK(t, err)
	n.With(func() { n.Status, n.Code = 400, "NO" })
	for i := range 130 {
		if _, err := s.Attest(t.Context(), did(i)); !attestd.NotRecorded(err) {
			t.Fatal(err)
		}
	}
	n.With(func() { n.Status = 201 })
	_, err = s.Attest(t.Context(), did(0))
	must.OK(t, err)
	n.Is("one", "missing 100")
	_, err = s.End(t.Context(), did(1))
	must.OK(t, err)
	n.Is("one", "complete: 0 to 131, sealed, 130 refused")
}

// After a lost answer the same statement is sent again. Where the service refuses it then, that is
// named, and the session goes on: the statement may be recorded.
func TestSessionAfterALostAnswer(t *testing.T) {
	t.Parallel()
	n := notary.New(t)
	c, _ := signer(t, n, nil)
	s, err := c.Session("one")
	must.OK(t, err)
	keyed := did(0)
	keyed.IdempotencyKey = "event"
	n.With(func() { n.Status = 0 })
	if _, err := s.Attest(t.Context(), keyed); err == nil || attestd.NotRecorded(err) {
		t.Error(err)
	}
	n.With(func() { n.Status, n.Code = 403, "AGENT_DISABLED" })
	if _, err := s.Attest(t.Context(), keyed); !errors.Is(err, &attestd.Error{Code: "AGENT_DISABLED"}) || attestd.NotRecorded(err) {
		t.Errorf("%v, which must not say for certain that nothing is recorded", err)
	}
	n.With(func() { n.Status = 201 })
	_, err = s.Attest(t.Context(), did(1))
	must.OK(t, err)
	n.Is("one", "open at 1, 1 refused")
}

// A session that goes on after its end, or under the agent's next key, says from what, and has an
// ID of its own.
func TestSessionGoesOn(t *testing.T) {
	t.Parallel()
	n := notary.New(t)
	c, _ := signer(t, n, nil)
	first, err := c.Session("")
	must.OK(t, err)
	if first.Last() != nil {
		t.Error("there is a last statement before the first")
	}
	_, err = first.End(t.Context(), did(0))
	must.OK(t, err)
	next, _ := signer(t, n, nil)
	for _, c := range []*attestd.Client{c, next} {
		last := first.Last()
		if _, err := c.SessionAfter(first.ID(), *last); err == nil {
			t.Error("it goes on under the same ID")
		}
		second, err := c.SessionAfter("", *last)
		must.OK(t, err)
		for i := range 2 {
			_, err = second.Attest(t.Context(), did(i))
			must.OK(t, err)
		}
		records := n.Records(second.ID())
		if at := records[0].Continues; at == nil || *at != *last || at.Hash != n.Records(first.ID())[0].Hash() || records[1].Continues != nil {
			t.Errorf("it goes on from %+v, want %+v", at, last)
		}
	}
}

// A session of which the service has other statements takes no more: its ID is another session's.
func TestSessionOfAnIDThatIsTaken(t *testing.T) {
	t.Parallel()
	n := notary.New(t)
	c, _ := signer(t, n, nil)
	first, err := c.Session("one")
	must.OK(t, err)
	keyed := did(0)
	keyed.IdempotencyKey = "event"
	_, err = first.Attest(t.Context(), keyed)
	must.OK(t, err)
	n.Forget() // for the second is a mistake of the program
	second, err := c.Session("one")
	must.OK(t, err)
	if _, err = second.Attest(t.Context(), did(1)); !errors.Is(err, &attestd.Error{Code: attestd.StatementReused}) {
		t.Error(err)
	}
	if _, err = second.Attest(t.Context(), did(1)); !errors.Is(err, attestd.ErrTaken) {
		t.Error(err)
	}
	// A jti that was used before is no reason to end.
	third, err := c.Session("")
	must.OK(t, err)
	if _, err = third.Attest(t.Context(), keyed); !errors.Is(err, &attestd.Error{Code: attestd.StatementReused}) {
		t.Error(err)
	}
	_, err = third.Attest(t.Context(), did(2))
	must.OK(t, err)
	n.Is(third.ID(), "open at 1, 1 refused")
}

// A service that names another log than the agent's raises an alarm at each sign-in, and gets
// neither a statement nor an endorsement from then on. No access token of it is stored.
func TestServiceWithAnotherLog(t *testing.T) {
	t.Parallel()
	n := notary.New(t)
	n.With(func() { n.Names = "attestd.test/another" })
	var alarms []error
	file := filepath.Join(t.TempDir(), "token")
	c, identity := signer(t, n, func(config *attestd.IdentityConfig) {
		config.Alarm, config.TokenFile = func(err error) { alarms = append(alarms, err) }, file
	})
	s, err := c.Session("one")
	must.OK(t, err)
	var other *attestd.OtherLogError
	for range 2 { // the first is signed before the service has answered, and not sent
		if _, err := s.Attest(t.Context(), did(0)); !errors.As(err, &other) || other.Named != "attestd.test/another" || attestd.NotRecorded(err) {
			t.Error(err)
		}
	}
	if _, err := identity.Sign(t.Context(), did(1), attestd.Place{}); !errors.As(err, &other) {
		t.Error(err)
	}
	next, err := attestd.NewAgentKey(attestd.EdDSA)
	must.OK(t, err)
	if _, err := c.EnrolKey(t.Context(), "bot", next, attestd.NewEnrolledKey{}); !errors.As(err, &other) {
		t.Error(err)
	}
	stmt := 0
	for _, alarm := range alarms {
		if errors.As(alarm, &other) && strings.HasPrefix(alarm.Error(), "ALARM: ") {
			stmt++
		}
	}
	if stmt != n.SignIns || n.SignIns == 0 || n.Appends != 0 {
		t.Errorf("%d alarms, %d sign-ins, %d records: %v", stmt, n.SignIns, n.Appends, alarms)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a token is stored, %v", err)
	}
	n.With(func() { n.Names = notary.Log }) // which is too late for this process
	if _, err := s.Attest(t.Context(), did(0)); !errors.As(err, &other) || n.SignIns != 1 {
		t.Errorf("%v, %d sign-ins", err, n.SignIns)
	}
}

// An identity that does not know its log takes the one that the service names at the first sign-in,
// stores it with the access token for the next process, and sticks to it.
func TestIdentityLearnsItsLog(t *testing.T) {
	t.Parallel()
	n := notary.New(t)
	file := filepath.Join(t.TempDir(), "token")
	key, err := attestd.NewAgentKey(attestd.ES256)
	must.OK(t, err)
	without := func(config *attestd.IdentityConfig) { config.Key, config.Log, config.TokenFile = key, "", file }
	c, identity := signer(t, n, without)
	before, err := identity.Sign(t.Context(), did(0), attestd.Place{})
	must.OK(t, err)
	s, err := c.Session("one")
	must.OK(t, err)
	_, err = s.Attest(t.Context(), did(1))
	must.OK(t, err)
	_, again := signer(t, n, without)
	if again.Log() != "" {
		t.Error("the log is known before the token is read")
	}
	c, again = signer(t, n, without)
	c.LearnLog(t.Context())
	after, err := again.Sign(t.Context(), did(2), attestd.Place{})
	must.OK(t, err)
	for compact, want := range map[string]string{before.Statement: "", n.Records("one")[0].Compact: notary.Log, after.Statement: notary.Log} {
		if stmt, err := statement.Parse(compact); err != nil || stmt.Log != want {
			t.Errorf("log %q, %v, want %q", stmt.Log, err, want)
		}
	}
	if n.SignIns != 1 {
		t.Errorf("%d sign-ins, want 1", n.SignIns)
	}
	n.With(func() { n.Names = "spaces are none" })
	var alarms []error
	c, identity = signer(t, n, func(config *attestd.IdentityConfig) {
		config.Log, config.Alarm = "", func(err error) { alarms = append(alarms, err) }
	})
	c.LearnLog(t.Context())
	if identity.Log() != "" || len(alarms) != 2 { // one is about its own key
		t.Errorf("log %q, %v", identity.Log(), alarms)
	}
}

// A stored access token that was got for another log than the agent's is not used.
func TestStoredTokenOfAnotherLog(t *testing.T) {
	t.Parallel()
	n := notary.New(t)
	file := filepath.Join(t.TempDir(), "token")
	key, err := attestd.NewAgentKey(attestd.EdDSA)
	must.OK(t, err)
	for i, log := range []string{"attestd.test/another", notary.Log} {
		n.With(func() { n.Names = log })
		c, _ := signer(t, n, func(config *attestd.IdentityConfig) { config.Key, config.Log, config.TokenFile = key, log, file })
		s, err := c.Session(fmt.Sprint(i))
		must.OK(t, err)
		_, err = s.Attest(t.Context(), did(i))
		must.OK(t, err)
	}
	if n.SignIns != 2 {
		t.Errorf("%d sign-ins, want 2", n.SignIns)
	}
}

// The statement of an action that is done with a delegation names the hash of the record's
// delegation object, whichever of the two kinds of token carries it.
func TestStatementCoversTheDelegation(t *testing.T) {
	t.Parallel()
	n := notary.New(t)
	_, identity := signer(t, n, nil)
	domain := cred.Domain{TrustDomain: "attestd.local", Service: "attestd"}
	_, key, err := ed25519.GenerateKey(nil)
	must.OK(t, err)
	issuer := cred.NewIssuer(domain, "acme", key, new(cred.Verified))
	token, d, err := issuer.Delegate(cred.Delegation{Subject: domain.CompanyID("globex")}, domain.AgentID("acme", "bot"), "", time.Now())
	must.OK(t, err)
	a := did(0)
	a.Delegation = token
	signed, err := identity.Sign(t.Context(), a, attestd.Place{})
	must.OK(t, err)
	stmt, err := statement.Parse(signed.Statement)
	must.OK(t, err)
	info, err := json.Marshal(d)
	must.OK(t, err)
	want, err := cred.HashInfo(info)
	must.OK(t, err)
	if stmt.Delegation != want {
		t.Errorf("%s, want %s", stmt.Delegation, want)
	}
	a.Delegation = "none"
	if _, err := identity.Sign(context.Background(), a, attestd.Place{}); err == nil {
		t.Error("what is no token is signed")
	}
}

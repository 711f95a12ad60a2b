package evidence_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/chain/evidence"
	"attestd/crypto/cred"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

// statementCase is a file that the company's key has signed, the code to which every checker comes,
// and what each says of it. Other checkers read the list too.
type statementCase struct {
	Name string        `json:"name"`
	File string        `json:"file"` // evidence, or a session
	Pin  string        `json:"pin"`  // of the agent's key; "" for none
	Code evidence.Code `json:"code"` // "" where it passes
	Says []string      `json:"says"` // parts of what is checked
}

// cases writes statement cases. Its agent has the keys first, which may make either version of
// statements, and second, which makes version 2.
type cases struct {
	t             testing.TB
	list          []statementCase
	first, second *agentSigner
	c             *company // of the case that is being written
}

const (
	ownAgent   = spiffeCompany + "/agent/" + agentID
	otherAgent = spiffeCompany + "/agent/other"
)

// origin is that of the log of actions.
func (c *company) origin() string { return c.logs[0].Origin }

// secondVersion makes claims those of version 2, and changes them then.
func (c *company) secondVersion(change func(*statement.Claims)) func(*statement.Claims) {
	return func(claims *statement.Claims) {
		claims.Log = c.origin()
		if change != nil {
			change(claims)
		}
	}
}

// version2 is what the control record of a key says that makes version 2 alone.
var version2 = map[string]any{"statementVersion": 2}

// begin begins a case, with both keys enrolled.
func (s *cases) begin() *company {
	s.c = newCompany(s.t)
	s.c.enrol(agentID, s.first.key, nil)
	s.c.enrol(agentID, s.second.key, version2)
	return s.c
}

// evidence adds a file about the last record of the case, by a key.
func (s *cases) evidence(name string, code evidence.Code, key *agentSigner, message ...string) {
	f := s.c.agentKeyFile(int64(len(s.c.logs[0].records)-1), key.key.Thumbprint)
	f.Delegation = f.Record.Delegation
	s.list = append(s.list, statementCase{Name: name, File: string(f.JSON()), Code: code, Says: message})
}

// session adds the file of a session of a key with all records of the case that are named, or with
// all.
func (s *cases) session(name string, code evidence.Code, key *agentSigner, indexes []int64, message ...string) {
	if indexes == nil {
		for i := range s.c.logs[0].records {
			indexes = append(indexes, int64(i))
		}
	}
	text := s.c.session(key.key.Thumbprint, "run", []string{key.key.Thumbprint}, indexes...)
	s.list = append(s.list, statementCase{Name: "session: " + name, File: string(text), Code: code, Says: message})
}

// delegation is a DelegationInfo of a chain, act being null with the subject alone.
func delegationOf(chain ...string) string {
	return string(cred.NewDelegation(chain, "d-1", "").Canonical())
}

func hashOfInfo(t testing.TB, info string) string {
	t.Helper()
	hash, err := cred.HashInfo([]byte(info))
	must.OK(t, err)
	return hash
}

// versions are statements of either version, by keys that may make it and that may not.
func (s *cases) versions() {
	const bad = evidence.BadStatement
	message := "its statement is by " + ownAgent + ", for " + spiffeCompany
	open := message + ", and does not say which service it was made for"
	c := s.begin()
	for _, key := range []*agentSigner{s.first, s.second} {
		c.stated(key, agentID, "step", `1`, c.secondVersion(nil))
		s.evidence("version 2 by "+key.key.Algorithm, "", key, message+" and its log "+c.origin())
	}
	c.stated(s.first, agentID, "step", `1`, nil)
	s.evidence("version 1 by a key that may make it", "", s.first, open)
	c.stated(s.second, agentID, "step", `1`, nil)
	s.evidence("version 1 by a key of version 2", bad, s.second)
	logs := map[string]string{
		"another log": "log.example/v1/log/" + strings.Repeat("9", 32), "the control log": c.logs[1].Origin,
		"its log with a dot": c.origin() + ".", "its log in capitals": strings.ToUpper(c.origin()),
	}
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		c.stated(s.second, agentID, "step", `1`, func(claims *statement.Claims) { claims.Log = logs[name] })
		s.evidence("made for "+name, bad, s.second)
	}
	for _, version := range []struct {
		spelt       string
		code, code1 evidence.Code // with a statement of version 2, and of version 1
	}{
		{`1`, "", ""}, {`2`, "", bad}, {`0`, bad, bad}, {`3`, bad, bad}, {`"2"`, bad, bad}, {`null`, bad, bad}, {`true`, bad, bad}, {`2.0`, bad, bad},
		{`2e0`, bad, bad}, {`[2]`, bad, bad}, {`-2`, bad, bad},
	} {
		for n, code := range []evidence.Code{version.code, version.code1} {
			c := newCompany(s.t)
			s.c = c
			// as it is spelt: encoding/json would write another number
			c.add(1, "service", "agent-key.enrolled", fmt.Sprintf(`{"subject":"agent-key:%[1]s","by":null,"agentId":%[2]q,"thumbprint":%[1]q,"jwk":%[3]s,"expiresAt":null,"enrolment":null,"endorsement":null,"statementVersion":%[4]s}`,
				s.first.key.Thumbprint, agentID, s.first.key.JWK(), version.spelt), "")
			change := c.secondVersion(nil)
			if n == 1 {
				change = nil
			}
			c.stated(s.first, agentID, "step", `1`, change)
			s.evidence(fmt.Sprintf("statementVersion %s, with version %d", version.spelt, 2-n), code, s.first)
		}
	}
}

// delegations are exchanged under one tokenId, and given to others.
func (s *cases) delegations() {
	const bad = evidence.BadStatement
	c := s.begin()
	given, exchanged := delegationOf(spiffeCompany, ownAgent), delegationOf("spiffe://attestd.local/company/globex", ownAgent)
	delegated := func(name string, code evidence.Code, key *agentSigner, claims func(*statement.Claims), record string, message ...string) {
		c.addStated(agentID, "step", `1`, c.state(key, agentID, "step", `1`, claims).Compact, record)
		s.evidence("delegation: "+name, code, key, message...)
	}
	hash := func(info string) func(*statement.Claims) {
		return c.secondVersion(func(claims *statement.Claims) { claims.Delegation = hashOfInfo(s.t, info) })
	}
	id := func(claims *statement.Claims) { claims.Delegation = "d-1" }
	idOnly := "covers the ID of the delegation alone, not what the delegation said"
	delegated("its hash", "", s.second, hash(given), given)
	respelt := s.list[len(s.list)-1]
	respelt.Name += ", spelt in another way"
	respelt.File = strings.ReplaceAll(respelt.File, `"tokenId":"d-1"`, ` "tok\u0065nId" : "d\u002d1" `)
	s.list = append(s.list, respelt)
	delegated("exchanged under its ID", bad, s.second, hash(given), exchanged)
	delegated("with another act", bad, s.second, hash(given), strings.Replace(given, `"sub":"`+ownAgent+`"`, `"sub":"`+otherAgent+`"`, 1))
	delegated("taken away", bad, s.second, hash(given), "")
	delegated("put beside", bad, s.second, c.secondVersion(nil), given)
	delegated("version 1, its ID", "", s.first, id, given, idOnly)
	delegated("version 1, exchanged under its ID", "", s.first, id, exchanged, idOnly)
	delegated("version 1 has a hash", bad, s.first, func(claims *statement.Claims) { claims.Delegation = hashOfInfo(s.t, given) }, given)

	names := func(name, info string, message ...string) {
		delegated("given to "+name, "", s.second, hash(info), info, message...)
		c.add(0, agentID, "step", `1`, info)
		f := c.file(0, int64(len(c.logs[0].records)-1), c.checkpoint(0))
		f.Delegation = f.Record.Delegation
		s.list = append(s.list, statementCase{Name: "delegation: without a statement, given to " + name, File: string(f.JSON()), Says: message})
	}
	text := func(last string) string {
		return "is of the agent " + agentID + ", and its delegation was given to " + last
	}
	chains := map[string][]string{
		"another agent": {spiffeCompany, otherAgent}, "another agent, after its own": {spiffeCompany, ownAgent, otherAgent}, "the company": {ownAgent, spiffeCompany},
		"an agent of another company": {spiffeCompany, "spiffe://attestd.local/company/globex/agent/" + agentID}, "a person": {spiffeCompany, "https://idp.example#alice"},
		"an agent of no trust domain": {spiffeCompany, "spiffe:///company/acme/agent/" + agentID}, "a domain with a slash": {spiffeCompany, "spiffe://a/b/company/acme/agent/" + agentID},
		"a longer name": {spiffeCompany, ownAgent + "2"}, "nothing": {spiffeCompany, ""},
	}
	for _, name := range slices.Sorted(maps.Keys(chains)) {
		info := delegationOf(chains[name]...)
		last := chains[name][len(chains[name])-1]
		names(name, info, text(last))
	}
	names("it", given)
	names("it, by others", delegationOf(spiffeCompany, otherAgent, ownAgent))
	names("it in another trust domain", delegationOf(spiffeCompany, "spiffe://other/company/acme/agent/"+agentID))
	names("nobody", delegationOf(otherAgent))
	names("nobody, with act", `{"act":{},"delegationChain":[],"subject":"x","tokenId":"d-1"}`)
}

// endorsed are chains of keys whose endorsement is of some time.
func (s *cases) endorsed() {
	const bad = evidence.BadStatement
	const form = "2006-01-02T15:04:05.000Z"
	// after is the time from the first key's enrolment to the second's
	chain := func(name string, code evidence.Code, expires, after time.Duration, iat func(enrolled, next time.Time) int64) {
		c := newCompany(s.t)
		s.c = c
		enrolled := began.Add(time.Second)
		details := map[string]any{}
		if expires > 0 {
			details["expiresAt"] = enrolled.Add(expires).Format(form)
		}
		kids := []string{c.enrol(agentID, s.first.key, details)}
		next := enrolled.Add(after)
		c.now = next.Add(-time.Second)
		e, err := statement.MakeEndorsement(s.t.Context(), s.first, statement.EndorsementClaims{
			Issuer: ownAgent, Audience: spiffeCompany, IssuedAt: iat(enrolled, next), Next: s.second.key.Thumbprint,
		})
		must.OK(s.t, err)
		kids = append(kids, c.enrol(agentID, s.second.key, map[string]any{"endorsement": e.Compact, "statementVersion": 2}))
		c.stated(s.second, agentID, "step", `1`, c.secondVersion(nil))
		for _, pin := range []string{"", kids[0]} {
			s.list = append(s.list, statementCase{Name: fmt.Sprintf("endorsement: %s, pinned %q", name, pin), File: string(c.agentKeyFile(0, kids...).JSON()), Pin: pin, Code: code})
		}
	}
	of := func(d time.Duration) func(enrolled, _ time.Time) int64 {
		return func(enrolled, _ time.Time) int64 { return enrolled.Add(d).Unix() }
	}
	before := func(d time.Duration) func(_, next time.Time) int64 {
		return func(_, next time.Time) int64 { return next.Add(-d).Unix() }
	}
	const hour = time.Hour
	chain("of 1970", bad, 0, hour, func(_, _ time.Time) int64 { return 0 })
	chain("60 s before its key was enrolled", "", 0, 2*time.Second, of(-time.Minute))
	chain("61 s before its key was enrolled", bad, 0, 2*time.Second, of(-61*time.Second))
	chain("5 minutes before the next key", "", 0, hour, before(5*time.Minute))
	chain("5 minutes and 1 ms before the next key", bad, 0, hour+time.Millisecond, before(5*time.Minute+time.Millisecond))
	chain("60 s after the next key", "", 0, hour, before(-time.Minute))
	chain("59.999 s after the next key", "", 0, hour+time.Millisecond, before(-59999*time.Millisecond))
	chain("61 s after the next key", bad, 0, hour, before(-61*time.Second))
	chain("a second before its key expired", "", hour, hour-time.Second, before(0))
	chain("when its key expired", bad, hour, hour, before(0))
	chain("a second before its key expired, and recorded later", "", hour, hour+4*time.Minute+59*time.Second, of(hour-time.Second))
	chain("before its key expired, and recorded 5 minutes after", bad, hour, hour+5*time.Minute, of(hour-time.Second))
	chain("after its key expired", bad, hour, 2*hour, before(time.Second))
	chain("after its key expired, and dated back", bad, hour, 2*hour, of(hour-time.Second))
}

// revocations say since when the key was in other hands.
func (s *cases) revocations() {
	const bad = evidence.BadStatement
	const recorded = "2026-11-21T09:00:03.000Z" // of the record
	stolen := "the key was in other hands since "
	revoked := func(name string, code evidence.Code, message []string, details ...map[string]any) {
		c := s.begin()
		c.stated(s.second, agentID, "step", `1`, c.secondVersion(nil))
		for _, more := range details {
			all := map[string]any{"agentId": agentID, "thumbprint": s.second.key.Thumbprint, "revokedAt": recorded}
			for name, value := range more {
				all[name] = value
			}
			c.change("agent-key.revoked", "agent-key:"+s.second.key.Thumbprint, all)
		}
		s.evidence("revoked: "+name, code, s.second, message...)
	}
	only := func(name string, message string, since, reason any) {
		var list []string
		if message != "" {
			list = []string{message}
		}
		revoked(name, "", list, map[string]any{"since": since, "reason": reason})
	}
	only("nothing said", "", nil, nil)
	only("a reason alone", "", nil, "lost")
	only("since then", stolen+recorded+", says its revocation (lost)", recorded, "lost")
	only("since before", stolen+"2026-11-21T09:00:02.999Z, says its revocation", "2026-11-21T09:00:02.999Z", nil)
	only("since before, with an empty reason", stolen+"2026-11-21T09:00:02.999Z, says its revocation", "2026-11-21T09:00:02.999Z", "")
	only("since later", "", "2026-11-21T09:00:03.001Z", "lost")
	revoked("an older record, without either", "", nil, nil)
	revoked("twice, since earlier", "", []string{stolen + "2026-11-21T09:00:01.000Z, says its revocation (stolen)"},
		map[string]any{"reason": "lost", "since": nil}, map[string]any{"since": recorded}, map[string]any{"since": "2026-11-21T09:00:01.000Z", "reason": "stolen"})
	for name, details := range map[string]map[string]any{
		"since a number": {"since": 1}, "since empty": {"since": ""}, "since in seconds": {"since": "2026-11-21T09:00:03Z"}, "since on 30 February": {"since": "2026-02-30T09:00:03.000Z"},
		"since false": {"since": false}, "reason a number": {"reason": 1}, "reason a list": {"reason": []int{}}, "reason true": {"reason": true},
	} {
		revoked(name, bad, nil, details)
	}
	// a revocation of the key before says nothing of this one
	c := newCompany(s.t)
	s.c = c
	kids := []string{c.enrol(agentID, s.first.key, nil)}
	kids = append(kids, c.enrol(agentID, s.second.key, map[string]any{"endorsement": c.endorse(agentID, s.first, s.second.key), "statementVersion": 2}))
	c.change("agent-key.revoked", "agent-key:"+kids[0], map[string]any{"agentId": agentID, "thumbprint": kids[0], "revokedAt": recorded, "since": "2026-11-21T09:00:01.000Z"})
	c.stated(s.second, agentID, "step", `1`, c.secondVersion(nil))
	for _, pin := range kids {
		s.list = append(s.list, statementCase{Name: "revoked: the key before, pinned " + pin, File: string(c.agentKeyFile(0, kids...).JSON()), Pin: pin})
	}
}

// step signs the next place of a session and, where it is recorded, appends it.
type step struct {
	seq       int64
	refused   bool                // it does not become a record
	names     []statement.Refused // its claim
	previous  string              // prev where it is not the hash of the place before
	ends      bool
	older     bool // of version 1
	continues *statement.Continues
	log       string // other than the company's
	info      string // delegation
	recorded  string // delegation of the record where it is another one
	action    string // "step" where it is ""
	payload   string
	decision  string // of the record
}

// write signs steps and appends those that are not refused. It returns the hash of each, by seq.
func (s *cases) write(key *agentSigner, steps ...step) map[int64]string {
	hashes := make(map[int64]string)
	for n, at := range steps {
		action, payload := cmp.Or(at.action, "step"), cmp.Or(at.payload, fmt.Sprintf(`{"n":%d}`, n))
		text := s.c.state(key, agentID, action, payload, func(c *statement.Claims) {
			c.Session, c.Seq, c.End, c.Refused, c.Continues = "run", at.seq, at.ends, slices.Clone(at.names), at.continues
			for i := range c.Refused {
				if r := &c.Refused[i]; r.Hash == "" {
					r.Hash = hashes[r.Seq]
				}
			}
			c.ID = fmt.Sprint("step-", n)
			if c.Log = s.c.origin(); at.older {
				c.Log = ""
			}
			if at.log != "" {
				c.Log = at.log
			}
			if c.Previous = at.previous; c.Previous == "" && at.seq > 0 {
				c.Previous = hashes[at.seq-1]
			}
			if c.Previous == "" && at.seq > 0 {
				c.Previous = strings.Repeat("5d", 32)
			}
			if at.info != "" {
				if c.Delegation = hashOfInfo(s.t, at.info); at.older {
					c.Delegation = "d-1"
				}
			}
		})
		hashes[at.seq] = text.Hash()
		if !at.refused {
			info := at.info
			if at.recorded != "" {
				info = at.recorded
			}
			s.c.addStated(agentID, action, payload+decided(at.decision), text.Compact, info)
		}
	}
	return hashes
}

// decided is a decision as a member that follows another one; "" without one.
func decided(decision string) string {
	if decision == "" {
		return ""
	}
	return `,"decision":` + decision
}

// decisions are records with what is a decision, and with what is none.
func (s *cases) decisions() {
	text, err := os.ReadFile("../decision/cases.json")
	must.OK(s.t, err)
	var list []struct {
		Name, Decision string
		Good           bool
	}
	must.OK(s.t, json.Unmarshal(text, &list))
	for _, c := range list {
		s.begin()
		s.write(s.second, step{decision: c.Decision})
		code := evidence.BadRecord
		if c.Good {
			code = ""
		}
		s.evidence("decision: "+c.Name, code, s.second)
	}
	good := list[0].Decision
	for name, c := range map[string]struct{ decision, says string }{
		"denied":  {good, "disobeyed: refused at record 0, done at record 1; complete: 0 to 1, sealed"},
		"asked":   {strings.Replace(good, `"deny"`, `"ask"`, 1), "disobeyed: refused at record 0, done at record 1; complete: 0 to 1, sealed"},
		"allowed": {strings.Replace(good, `"deny"`, `"allow"`, 1), "2 records, complete: 0 to 1, sealed"},
	} {
		s.begin()
		const call = `{"source":"mcp","callId":"a"}`
		s.write(s.second, step{action: "tool.requested", payload: call, decision: c.decision}, step{seq: 1, action: "tool.completed", payload: call, ends: true})
		s.session("calls: "+name+" by a policy, and done", "", s.second, nil, c.says)
	}
	var enrolled struct{ Payload json.RawMessage }
	must.OK(s.t, json.Unmarshal(s.begin().logs[1].records[1].Payload, &enrolled))
	// a control record has none
	for decision, code := range map[string]evidence.Code{"": "", good: evidence.BadStatement} {
		s.c = newCompany(s.t)
		s.c.add(1, "service", "agent-key.enrolled", string(enrolled.Payload)+decided(decision), "")
		s.write(s.second, step{})
		s.evidence(fmt.Sprintf("decision: in a control record: %t", decision != ""), code, s.second)
	}
}

// named is an entry of refused, with the hash of what was signed there where it is "".
func named(seq int64, hash string) statement.Refused {
	return statement.Refused{Seq: seq, Hash: hash, Code: "RATE_LIMITED"}
}

// sessions are those in which places were refused, or go on.
func (s *cases) sessions() {
	const bad = evidence.BadStatement
	elsewhere := "a session that goes on from this one may exist elsewhere"
	zero := strings.Repeat("00", 32)

	run := func(name string, code evidence.Code, message string, steps ...step) {
		s.begin()
		s.write(s.second, steps...)
		list := []string{message}
		if code == "" {
			list = append(list, elsewhere, "its statement is by "+ownAgent+", for "+spiffeCompany+" and its log "+s.c.origin())
		}
		s.session(name, code, s.second, nil, list...)
	}
	run("of version 2", "", "complete: 0 to 2, sealed", step{seq: 0}, step{seq: 1}, step{seq: 2, ends: true})
	run("one refused", "", "complete: 0 to 2, sealed, 1 refused",
		step{seq: 0}, step{seq: 1, refused: true}, step{seq: 2, ends: true, names: []statement.Refused{named(1, "")}})
	run("one refused that nobody names", "", "missing 1", step{seq: 0}, step{seq: 1, refused: true}, step{seq: 2, ends: true})
	run("the first refused", "", "complete: 0 to 1, sealed, 1 refused", step{seq: 0, refused: true}, step{seq: 1, ends: true, names: []statement.Refused{named(0, "")}})
	run("three refused, named at once", "", "complete: 0 to 4, sealed, 3 refused",
		step{seq: 0}, step{seq: 1, refused: true}, step{seq: 2, refused: true}, step{seq: 3, refused: true},
		step{seq: 4, ends: true, names: []statement.Refused{named(1, ""), named(2, ""), named(3, "")}})
	run("three refused, two of them named", "", "missing 2, 2 refused",
		step{seq: 0}, step{seq: 1, refused: true}, step{seq: 2, refused: true}, step{seq: 3, refused: true},
		step{seq: 4, ends: true, names: []statement.Refused{named(1, ""), named(3, "")}})
	run("refused, and named later", "", "complete: 0 to 3, sealed, 1 refused",
		step{seq: 0}, step{seq: 1, refused: true}, step{seq: 2}, step{seq: 3, ends: true, names: []statement.Refused{named(1, "")}})
	run("refused, and open", "", "open at 2, 1 refused", step{seq: 0}, step{seq: 1, refused: true}, step{seq: 2, names: []statement.Refused{named(1, "")}})
	run("refused, named twice", "", "complete: 0 to 3, sealed, 1 refused",
		step{seq: 0}, step{seq: 1, refused: true}, step{seq: 2, names: []statement.Refused{named(1, "")}}, step{seq: 3, ends: true, names: []statement.Refused{named(1, "")}})
	run("named as refused, in the middle of what is missing", "", "missing 1, 3, 1 refused",
		step{seq: 0}, step{seq: 4, ends: true, names: []statement.Refused{named(2, zero)}})
	run("named one after the other", "", "complete: 0 to 5, sealed, 3 refused",
		step{seq: 0}, step{seq: 4, names: []statement.Refused{named(2, zero)}}, step{seq: 5, ends: true, names: []statement.Refused{named(1, zero), named(3, strings.Repeat("5d", 32))}})
	run("named later with another hash than prev of the next says", bad, "",
		step{seq: 0}, step{seq: 1, refused: true}, step{seq: 2}, step{seq: 3, ends: true, names: []statement.Refused{named(1, zero)}})
	run("named later, the last of a part, with another hash than prev says", bad, "",
		step{seq: 0}, step{seq: 4, names: []statement.Refused{named(1, zero)}}, step{seq: 5, ends: true, names: []statement.Refused{named(3, zero)}})
	run("named twice with two hashes", bad, "",
		step{seq: 0}, step{seq: 3, names: []statement.Refused{named(1, zero)}}, step{seq: 4, ends: true, names: []statement.Refused{named(1, strings.Repeat("11", 32))}})
	run("named as refused and recorded", "", "the service recorded number 1, record 1, although it had told the agent that it refused it",
		step{seq: 0}, step{seq: 1}, step{seq: 2, ends: true, names: []statement.Refused{named(1, "")}})
	run("two named as refused and recorded, one twice", "", "the service recorded number 0, record 0, although it had told the agent that it refused it",
		step{seq: 0}, step{seq: 1}, step{seq: 2, names: []statement.Refused{named(0, ""), named(1, "")}}, step{seq: 3, ends: true, names: []statement.Refused{named(0, "")}})
	run("named as refused, and another one recorded", bad, "",
		step{seq: 0}, step{seq: 1}, step{seq: 2}, step{seq: 3, ends: true, names: []statement.Refused{named(1, zero)}})
	run("goes on", "", "goes on from the session run-0 of the key "+s.first.key.Thumbprint+", whose last statement has the hash "+zero,
		step{seq: 0, continues: &statement.Continues{Session: "run-0", KeyID: s.first.key.Thumbprint, Hash: zero}}, step{seq: 1, ends: true})
	run("goes on under the next key", "", "goes on from the session run of the key "+s.first.key.Thumbprint+", whose last statement has the hash "+zero,
		step{seq: 0, continues: &statement.Continues{Session: "run", KeyID: s.first.key.Thumbprint, Hash: zero}, ends: true})
	run("made for another log", bad, "", step{seq: 0}, step{seq: 1, ends: true, log: "log.example/v1/log/" + strings.Repeat("9", 32)})
	run("of version 1 by a key of version 2", bad, "", step{seq: 0}, step{seq: 1, older: true, ends: true})
	run("a delegation exchanged under its ID", bad, "", step{seq: 0}, step{seq: 1, ends: true, info: delegationOf(spiffeCompany, ownAgent), recorded: delegationOf(ownAgent)})
	run("a delegation given to another", "", "is of the agent "+agentID+", and its delegation was given to "+otherAgent,
		step{seq: 0}, step{seq: 1, info: delegationOf(spiffeCompany, otherAgent)}, step{seq: 2, ends: true, info: delegationOf(spiffeCompany, ownAgent)})

	s.begin()
	s.write(s.second, step{seq: 0}, step{seq: 1}, step{seq: 2, ends: true})
	s.c.change("agent-key.revoked", "agent-key:"+s.second.key.Thumbprint, map[string]any{
		"agentId": agentID, "thumbprint": s.second.key.Thumbprint, "revokedAt": "x", "reason": "stolen", "since": s.c.logs[0].records[1].Timestamp})
	s.session("in other hands", "", s.second, nil, "the key was in other hands since "+s.c.logs[0].records[1].Timestamp+", says its revocation (stolen); 2 of these records are of that time")
	s.session("in other hands, later", "", s.second, []int64{0}, "open at 0")
	s.begin()
	s.write(s.first, step{seq: 0, older: true, info: delegationOf(spiffeCompany, ownAgent)}, step{seq: 1, older: true}, step{seq: 2, ends: true})
	s.session("of both versions", "", s.first, nil, "complete: 0 to 2, sealed", "its statement is by "+ownAgent+", for "+spiffeCompany+" and its log "+s.c.origin(),
		"1 of its statements cover the ID of a delegation alone, not what the delegation said")
	s.session("of version 1", "", s.first, []int64{0, 1}, "open at 1", "for "+spiffeCompany+", and does not say which service it was made for")
}

// calls are sessions in which calls of tools were refused.
func (s *cases) calls() {
	// each is an action and the members of its payload apart from source and sessionId
	run := func(name, message string, records ...[2]string) {
		s.begin()
		steps := make([]step, len(records))
		for i, r := range records {
			steps[i] = step{seq: int64(i), ends: i == len(records)-1, action: r[0], payload: `{"source":"mcp","sessionId":"s",` + r[1] + `}`}
		}
		s.write(s.second, steps...)
		s.session("calls: "+name, "", s.second, nil, fmt.Sprintf("session run of the agent %s: %d records, %s", agentID, len(records), message))
	}
	of := func(action, id string) [2]string {
		return [2]string{"tool." + action, `"callId":"` + id + `","tool":"Bash"`}
	}
	run("refused and not done", "complete: 0 to 2, sealed", of("requested", "a"), of("denied", "a"), of("pending", "a"))
	for _, outcome := range []string{"completed", "failed", "ended"} {
		run("refused and "+outcome, "disobeyed: refused at record 1, done at record 2; complete: 0 to 2, sealed", of("requested", "a"), of("denied", "a"), of(outcome, "a"))
	}
	run("done before it was refused", "disobeyed: refused at record 2, done at record 1; complete: 0 to 2, sealed",
		of("requested", "a"), of("completed", "a"), of("denied", "a"))
	run("two of three", "disobeyed: refused at record 0, done at record 4; refused at record 2, done at record 5; complete: 0 to 5, sealed",
		of("denied", "a"), of("denied", "b"), of("denied", "c"), of("completed", "d"), of("failed", "a"), of("ended", "c"))
	run("asked for again", "complete: 0 to 3, sealed", of("requested", "a"), of("denied", "a"), of("requested", "a"), of("completed", "a"))
	run("without an ID", "complete: 0 to 1, sealed", [2]string{"tool.denied", `"tool":"Bash"`}, [2]string{"tool.completed", `"tool":"Bash"`})
	run("with an ID that may be cut off", "complete: 0 to 1, sealed", of("denied", strings.Repeat("é", 128)), of("completed", strings.Repeat("é", 128)))
	run("with the longest ID", "disobeyed: refused at record 0, done at record 1; complete: 0 to 1, sealed", of("denied", strings.Repeat("x", 255)), of("completed", strings.Repeat("x", 255)))
	run("with an ID in which a secret was masked", "complete: 0 to 1, sealed", of("denied", "[masked]"), of("completed", "[masked]"))

	var many [][2]string
	message := make([]string, 0, 10)
	for n := range 12 {
		id := fmt.Sprint("call-", n)
		many = append(many, of("denied", id), of("completed", id))
		if n < 10 {
			message = append(message, fmt.Sprintf("refused at record %d, done at record %d", 2*n, 2*n+1))
		}
	}
	run("of many, the first ten are named", "disobeyed: "+strings.Join(message, "; ")+"; and 2 more; complete: 0 to 23, sealed", many...)

	s.begin()
	s.write(s.second, step{seq: 0, action: "tool.denied", payload: `{"source":"mcp","callId":"a"}`}, step{seq: 1},
		step{seq: 2, action: "tool.completed", payload: `{"source":"mcp","callId":"a"}`})
	s.session("calls: refused and done, with a record missing", "", s.second, []int64{0, 2}, "2 records, disobeyed: refused at record 0, done at record 2; missing 1, open at 2")
}

// Files about statements of either version, whose places were refused, whose delegations were
// exchanged or given to others, and whose keys were stolen: each comes to its code, and the verdict
// says what is to be known. Other checkers read the list too.
func TestStatementCases(t *testing.T) {
	t.Parallel()
	s := &cases{t: t, first: agentKey(t, jose.EdDSA, 1), second: agentKey(t, jose.ES256, 4)}
	for _, write := range []func(){s.versions, s.delegations, s.endorsed, s.revocations, s.sessions, s.calls, s.decisions} {
		write()
	}
	slices.SortFunc(s.list, func(a, b statementCase) int { return strings.Compare(a.Name, b.Name) })
	var text bytes.Buffer
	names := make(map[string]bool)
	for _, c := range s.list {
		trust := evidence.Trust{Fingerprint: fingerprint(0), AgentKey: c.Pin}
		v := evidence.Check([]byte(c.File), trust)
		if strings.HasPrefix(c.Name, "session: ") {
			v = checkSession([]byte(c.File), trust)
		}
		if v.Code != c.Code || (v.Outcome == evidence.Holds) != (c.Code == "") || names[c.Name] {
			t.Errorf("%s: %s %s %s, want %q", c.Name, v.Outcome, v.Code, v.Reason, c.Code)
		}
		for _, message := range c.Says {
			if c.Code == "" && !strings.Contains(strings.Join(v.Checked, "\n"), message) {
				t.Errorf("%s: it does not say %q, but\n%s", c.Name, message, strings.Join(v.Checked, "\n"))
			}
		}
		names[c.Name] = true
		if c.Code != "" || c.Says == nil {
			c.Says = []string{}
		}
		line, err := json.Marshal(c)
		must.OK(t, err)
		text.Write(append(line, '\n'))
	}
	zipped(t, "statement_cases.jsonl.gz", text.Bytes())
	if len(s.list) < 135 {
		t.Errorf("only %d files", len(s.list))
	}
}

package server_test

import (
	"bytes"
	"fmt"
	"testing"

	"attestd/chain/evidence"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
)

// run makes the statements of a session, one for each payload, and ends it where that is asked.
func (a signer) run(t testing.TB, sid string, payloads int, ends bool) (all []*statement.Statement) {
	t.Helper()
	for i := range payloads {
		c := a.claims(t, "note", fmt.Sprint(i))
		c.Session, c.Seq, c.End = sid, int64(i), ends && i == payloads-1
		if i > 0 {
			c.Previous = all[i-1].Hash()
		}
		all = append(all, a.states(t, c))
	}
	return all
}

// A session is listed with what is there of it, whatever order its statements came in, and its file
// says the same to who checks it with the company's key alone.
func TestSessions(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a := acme.signer(t, "bot", jose.EdDSA)
	next := newKey(t, jose.ES256)
	a.signsIn(t).enrol(t, next, `"endorsement":"`+a.endorses(t, next)+`"`).status(201)
	b := signer{acme, "bot", next}
	for _, c := range []struct {
		sid        string
		of         signer
		sends      []int // of five, the last with end
		state      string
		missing    string
		verdict    string
		incomplete [][2]int64
	}{
		{"sealed", a, []int{0, 1, 2, 3, 4}, "sealed", "[]", "complete", nil},
		{"backwards", b, []int{4, 3, 2, 1, 0}, "sealed", "[]", "complete", nil},
		{"open", b, []int{0, 1, 2}, "open", "[]", "open", nil},
		{"gap", a, []int{1, 4}, "gap", "[[0,0],[2,3]]", "missing", [][2]int64{{0, 0}, {2, 3}}},
	} {
		t.Run(c.sid, func(t *testing.T) {
			all := c.of.run(t, c.sid, 5, true)
			for _, i := range c.sends {
				c.of.attests(t, fmt.Sprint(i), all[i].Compact).status(201)
				acme.do(t, "POST /v1/attest", `{"agentId":"x","actionType":"between","payload":1}`).status(201)
			}
			listed := acme.do(t, "GET /v1/sessions?agentId=bot&limit=1", "")
			listed.has(`{"sessions":[{"agentId":"bot","kid":"` + c.of.thumbprint() + `","sid":"` + c.sid + `","state":"` + c.state + `","missing":` + c.missing + `}]}`)
			file := acme.do(t, "GET /v1/sessions/bot/"+c.sid, "").status(200).raw
			verdict := evidence.CheckSession(bytes.NewReader(file), evidence.Trust{Fingerprint: acme.fingerprint(t), AgentKey: a.thumbprint()})
			if verdict.Outcome != evidence.Holds || verdict.Session == nil || verdict.Session.State != c.verdict || fmt.Sprint(verdict.Session.Missing) != fmt.Sprint(c.incomplete) || !verdict.Statement.Pinned {
				t.Errorf("%+v %+v", verdict, verdict.Session)
			}
		})
	}
	acme.do(t, "GET /v1/sessions/bot/open?kid="+b.thumbprint(), "").status(200)
	acme.do(t, "GET /v1/sessions/bot/open?kid=x", "").status(404)
	acme.do(t, "GET /v1/sessions/bot/nothing", "").status(404)
	first := acme.do(t, "GET /v1/sessions?limit=2", "").status(200)
	if rest := acme.do(t, "GET /v1/sessions?cursor="+first.str("next"), "").status(200); len(rest.at("sessions").([]any)) != 2 {
		t.Errorf("the rest: %s", rest.raw)
	}
	acme.do(t, "GET /v1/sessions?cursor=x", "").status(400)
}

// Evidence of a record with a statement has the control records of the key, and of those that it
// follows from.
func TestEvidenceOfAStatement(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a := acme.signer(t, "bot", jose.EdDSA)
	next := newKey(t, jose.ES256)
	a.signsIn(t).enrol(t, next, `"endorsement":"`+a.endorses(t, next)+`"`).status(201)
	b := signer{acme, "bot", next}
	b.attests(t, "1", b.states(t, b.claims(t, "note", "1")).Compact).status(201)
	file := acme.do(t, "GET /v1/evidence/0", "").status(200).raw
	trust := evidence.Trust{Fingerprint: acme.fingerprint(t)}
	verdict := evidence.Check(file, trust)
	if verdict.Outcome != evidence.Holds || verdict.Statement == nil || verdict.Statement.KeyID != b.thumbprint() || verdict.Statement.EnrolledBy.Kind != "key" || verdict.Statement.Pinned {
		t.Errorf("%+v %+v", verdict, verdict.Statement)
	}
	for pin, outcome := range map[string]evidence.Outcome{a.thumbprint(): evidence.Holds, b.thumbprint(): evidence.Holds, newKey(t, jose.EdDSA).Key().Thumbprint: evidence.Fails} {
		trust.AgentKey = pin
		if got := evidence.Check(file, trust); got.Outcome != outcome {
			t.Errorf("with the pin %s: %+v", pin, got)
		}
	}
}

package test

import (
	"fmt"
	"testing"

	"attestd/chain/evidence/evidencetest"
	"attestd/crypto/cred"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
)

// placeCases are sessions with more missing, refused and recorded places than a checker remembers,
// and with as many: what none of them remembers, all forget alike.
func placeCases(t *testing.T) (all []evidenceCase) {
	t.Helper()
	p := &places{t: t}
	p.begin()
	for seq := range int64(1001) { // the even ones
		p.says(2*seq, nil)
	}
	p.names(2001, 1, 1999, 2)
	all = append(all, p.session("1,000 ranges missing, and all named", "complete: 0 to 2010, sealed, 1000 refused"))
	p.begin()
	for seq := range int64(1002) {
		p.says(2*seq, nil)
	}
	p.names(2003, 1, 2001, 2)
	all = append(all, p.session("1,001 ranges missing, and all named", ", 1000 refused"))
	p.begin()
	for seq := range int64(1001) {
		p.says(4*seq, nil)
	}
	p.names(4001, 2, 2, 1)
	all = append(all, p.session("as many ranges as may be, and a part of one named", "missing 1–3, 5–7"))
	p.begin()
	p.says(0, nil)
	p.names(11000, 1, 10500, 1)
	all = append(all, p.session("more refused than are remembered", "missing 10001–10999, 10000 refused"))
	p.begin()
	for seq := range int64(4098) {
		p.says(seq, nil)
	}
	p.says(4098, []statement.Refused{p.entry(1), p.entry(2)})
	all = append(all, p.session("recorded and refused, at the border of what is remembered",
		"the service recorded number 1, although it had told the agent that it refused a statement of that number",
		"the service recorded number 2, record 2, although it had told the agent that it refused it"))
	return all
}

// places writes the session of an agent's key. A place that is not written has a hash all the same,
// which prev and refused name.
type places struct {
	t       *testing.T
	key     *jose.PrivateKey
	by      *evidencetest.Operator
	hashes  map[int64]string
	control int64
	ended   bool
}

func (p *places) begin() {
	p.t.Helper()
	key, err := jose.GenerateKey(jose.EdDSA)
	must(p.t, err)
	p.key, p.by, p.hashes, p.ended = key, evidencetest.NewOperator("acme", 1), map[int64]string{}, false
	p.control = p.by.Enrol("bot", key.Key(), nil)
}

func (p *places) hash(seq int64) string {
	if hash, is := p.hashes[seq]; is {
		return hash
	}
	return statement.Hash(fmt.Sprint("what was refused at ", seq))
}

func (p *places) entry(seq int64) statement.Refused {
	return statement.Refused{Seq: seq, Hash: p.hash(seq), Code: "HTTP_400"}
}

// says signs and records a place.
func (p *places) says(seq int64, refused []statement.Refused) {
	p.t.Helper()
	payload := fmt.Sprint(seq)
	hash, err := statement.HashAction("step", "bot", "acme", []byte(payload))
	must(p.t, err)
	domain := cred.Domain{TrustDomain: "attestd.local"}
	c := statement.Claims{
		Issuer: domain.AgentID("acme", "bot"), Audience: domain.CompanyID("acme"), Log: p.by.Actions.Log.Origin, IssuedAt: p.by.Now.Unix(), ID: payload,
		ActionHash: hash, Session: "run", Seq: seq, Refused: refused, End: p.ended,
	}
	if seq > 0 {
		c.Previous = p.hash(seq - 1)
	}
	made, err := statement.Make(p.t.Context(), p.key, c)
	must(p.t, err)
	p.hashes[seq] = made.Hash()
	p.by.Action("bot", "step", payload, made.Compact, "")
}

// names signs the places from seq on that name others, each up to a hundred of them; the last ends
// the session.
func (p *places) names(seq, first, last, every int64) {
	p.t.Helper()
	for at := first; at <= last; seq++ {
		var list []statement.Refused
		for ; at <= last && len(list) < statement.MaxRefused; at += every {
			list = append(list, p.entry(at))
		}
		p.ended = at > last
		p.says(seq, list)
	}
}

func (p *places) session(name string, says ...string) evidenceCase {
	p.t.Helper()
	var actions []int64
	for i := range p.by.Actions.Records {
		actions = append(actions, int64(i))
	}
	c := evidenceCase{Name: "places: " + name, Key: evidencetest.Fingerprint(0), AgentKey: p.key.Key().Thumbprint, Says: says,
		File: p.by.Session("bot", p.key.Key().Thumbprint, "run", []int64{p.control}, actions)}
	if got := c.verdict(); got != "holds said" {
		p.t.Errorf("%s: %s", c.Name, got)
	}
	return c
}

package test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// The service's signatures are checked by an independent implementation: testdata/agreement.mjs,
// written in JavaScript from the specification with only Node's own library. It gets the requests,
// the answers and the public key.
func TestAgreement(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	t.Parallel()
	node := testenv.Path(t, "node")
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	const seed = 8785
	random := payloads{rand.New(rand.NewPCG(seed, 0))}
	sent := plainPayloads()
	for len(sent) < 640 {
		sent = append(sent, random.space()+random.value(5)+random.space())
	}

	var all []evidence
	for company, n := range map[string]int{"acme": len(sent), "one": 1, "three": 3, "empty": 0} {
		all = append(all, gather(t, s.register(t, company), company, sent[:n]))
	}
	file := filepath.Join(t.TempDir(), "evidence.json")
	b, err := json.Marshal(all)
	must.OK(t, err)
	must.OK(t, os.WriteFile(file, b, 0o600))

	out, err := exec.CommandContext(t.Context(), node, "testdata/agreement.mjs", file).CombinedOutput()
	if err != nil {
		t.Fatalf("the two implementations disagree: %v\n%.3000s", err, out)
	}
	var done struct{ Records, Delegations, Proofs, Steps, Tokens, Statuses, Refused int }
	must.OK(t, json.Unmarshal(out, &done))
	t.Logf("agreed on %+v", done)
	if n := len(sent) + 4; done.Records != n || done.Proofs != n {
		t.Errorf("%d records and %d proofs were checked, want %d", done.Records, done.Proofs, n)
	}
	if done.Delegations < 300 || done.Steps < 9*640 || done.Tokens < 4*15 || done.Statuses < 4*4 || done.Refused < 4*640 {
		t.Error("too little was checked")
	}
}

// evidence is all that a company can show, as the service answered it.
type evidence struct {
	Company  string
	Key      json.RawMessage // of GET /v1/ca/public-key
	Verify   json.RawMessage
	Records  []sentRecord
	Tokens   []token
	Statuses []status
}

// sentRecord is an attestation as it was requested, answered, read from the chain and proved. All
// are texts, so that no difference in spelling is lost.
type sentRecord struct {
	AgentID, ActionType, Payload string // Payload is JSON
	Delegation                   *token // the token that was handed in
	Answer, Chain, Proof         string
}

// token is a signed token with what it must say.
type token struct {
	Kind      string // svid, delegation or passport
	Token     string
	Principal []string // the subject and each actor
	Scope     string   // of a delegation
	Scopes    []string // of a passport
	TTL       int
}

// status is an answer of GET /v1/ocsp/:jti with what it must say.
type status struct{ Answer, JTI, Status, Reason string }

const domain = "spiffe://attestd.local/company/"

// gather has a company do all that is signed.
func gather(t *testing.T, c *client, company string, payloads []string) evidence {
	t.Helper()
	e := evidence{Company: company, Records: make([]sentRecord, len(payloads))}
	e.Key = c.call(t, 200, "GET", "/v1/ca/public-key?companyId="+company, "", nil)
	e.Tokens = signTokens(t, c, company)
	e.Statuses = signStatuses(t, c)
	delegations := slices.DeleteFunc(slices.Clone(e.Tokens), func(k token) bool { return k.Kind == "passport" })
	agents := []string{"bot", "Ünïcode", "😀 \u2028", `quo"te\`, "a|b|c"}

	place := make([]int, len(payloads)) // of the records in the order of the chain
	each(t, len(payloads), func(i int) error {
		r := sentRecord{AgentID: agents[i%len(agents)], ActionType: "test." + agents[i/len(agents)%len(agents)], Payload: payloads[i]}
		delegation := ""
		if i%2 == 1 {
			r.Delegation = &delegations[i/2%len(delegations)]
			if chain := r.Delegation.Principal; len(chain) > 1 { // the actor's alone
				r.AgentID = chain[len(chain)-1][strings.LastIndexByte(chain[len(chain)-1], '/')+1:]
			}
			delegation = `,"delegation":"` + r.Delegation.Token + `"`
		}
		body := fmt.Sprintf(`{"agentId":%s,"actionType":%s,"payload":%s%s}`, quote(r.AgentID), quote(r.ActionType), r.Payload, delegation)
		code, answer, err := c.send("POST", "/v1/attest", body)
		if err != nil || code != 201 {
			return fmt.Errorf("attest %.300s: %d %s %v", r.Payload, code, answer, err)
		}
		r.Answer = strings.TrimSuffix(string(answer), "\n")
		// Byte for byte as sent, the space around the value apart.
		if !strings.Contains(r.Answer, `,"payload":`+strings.Trim(r.Payload, " \t\r\n")+`}`) {
			return fmt.Errorf("%.300s came back as %.500s", r.Payload, r.Answer)
		}
		var at struct{ Index int }
		if err := json.Unmarshal(answer, &at); err != nil {
			return err
		}
		place[at.Index], e.Records[i] = i, r
		return nil
	})

	e.Verify = c.call(t, 200, "GET", "/v1/verify", "", nil)
	var chain struct{ Records []json.RawMessage }
	c.call(t, 200, "GET", "/v1/chain", "", &chain)
	if len(chain.Records) != len(payloads) {
		t.Fatalf("the chain of %s has %d records, want %d", company, len(chain.Records), len(payloads))
	}
	each(t, len(payloads), func(i int) error {
		code, proof, err := c.send("GET", "/v1/proof/"+strconv.Itoa(i), "")
		if err != nil || code != 200 {
			return fmt.Errorf("proof %d: %d %v", i, code, err)
		}
		e.Records[place[i]].Chain, e.Records[place[i]].Proof = string(chain.Records[i]), string(proof)
		return nil
	})
	ordered := make([]sentRecord, len(payloads))
	for i := range ordered {
		ordered[i] = e.Records[place[i]]
	}
	e.Records = ordered
	return e
}

// signTokens has the company sign every kind of token, with chains of up to eleven principals.
func signTokens(t *testing.T, c *client, company string) []token {
	t.Helper()
	self := domain + company
	var answer struct{ SVID, Token, AccessToken, Passport string }
	agent := func(i int) string { return "agent-" + strconv.Itoa(i) }
	id := func(i int) string { return self + "/agent/" + agent(i) }

	c.call(t, 200, "POST", "/v1/companies/svid", "", &answer)
	tokens := []token{{Kind: "svid", Token: answer.SVID, Principal: []string{self}, TTL: 3600}}
	for i := range 10 {
		c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"`+agent(i)+`"}`, &answer)
		tokens = append(tokens, token{Kind: "svid", Token: answer.SVID, Principal: []string{id(i)}, TTL: 3600})
	}
	c.call(t, 200, "GET", "/v1/agents/agent-0/svid", "", &answer)
	tokens = append(tokens, token{Kind: "svid", Token: answer.SVID, Principal: []string{id(0)}, TTL: 3600})

	c.call(t, 201, "POST", "/v1/token-exchange", `{"agentId":"agent-0","actingOn":"elsewhere","scope":"read \u00fc \ud83d\ude00 \"write\""}`, &answer)
	first := token{Kind: "delegation", Token: answer.Token, Principal: []string{domain + "elsewhere", id(0)}, Scope: `read ü 😀 "write"`, TTL: 3600}
	tokens = append(tokens, first)
	// From the company's own SVID, and from the delegation above, one actor after the other.
	for _, subject := range []token{tokens[0], first} {
		for i := 1; i < 10; i++ {
			var exchanged struct {
				AccessToken string `json:"access_token"`
			}
			c.call(t, 200, "POST", "/v1/token/exchange", fmt.Sprintf(`{"grant_type":"urn:ietf:params:oauth:grant-type:token-exchange",
				"subject_token":%q,"subject_token_type":"urn:ietf:params:oauth:token-type:jwt",
				"actor_token":%q,"actor_token_type":"urn:ietf:params:oauth:token-type:jwt"}`, subject.Token, tokens[1+i].Token), &exchanged)
			subject = token{Kind: "delegation", Token: exchanged.AccessToken, Scope: subject.Scope, TTL: 3600,
				Principal: append(slices.Clone(subject.Principal), id(i))}
			tokens = append(tokens, subject)
		}
	}

	passport := token{Kind: "passport", Principal: []string{self, id(3)}, Scopes: []string{"tool:*", "attest:write"}, TTL: 3600}
	c.call(t, 201, "POST", "/v1/agents/agent-3/passport", "", &answer)
	passport.Token = answer.Passport
	tokens = append(tokens, passport)
	c.call(t, 201, "POST", "/v1/agents/agent-3/passport", `{"ttl":86400,"scopes":["*","tool:git","x:y"]}`, &answer)
	passport.Token, passport.Scopes, passport.TTL = answer.Passport, []string{"*", "tool:git", "x:y"}, 86400
	return append(tokens, passport)
}

// signStatuses has the company sign a status of each kind.
func signStatuses(t *testing.T, c *client) (statuses []status) {
	t.Helper()
	const reason = "lost \u2028 \"ß\" 😀 <script>"
	for _, want := range []status{{Status: "valid"}, {Status: "revoked"}, {Status: "revoked", Reason: reason}, {Status: "unknown", JTI: "no such <jti> é"}} {
		if want.Status != "unknown" {
			var issued struct{ Passport string }
			c.call(t, 201, "POST", "/v1/agents/agent-0/passport", "", &issued)
			var verified struct{ Claims struct{ JTI string } }
			c.call(t, 200, "POST", "/v1/passport/verify", `{"passport":"`+issued.Passport+`"}`, &verified)
			want.JTI = verified.Claims.JTI
		}
		if want.Status == "revoked" {
			body := ""
			if want.Reason != "" {
				body = `{"reason":` + quote(want.Reason) + `}`
			}
			c.call(t, 200, "POST", "/v1/passports/"+want.JTI+"/revoke", body, nil)
		}
		want.Answer = string(c.call(t, 200, "GET", "/v1/ocsp/"+strings.ReplaceAll(want.JTI, " ", "%20"), "", nil))
		statuses = append(statuses, want)
	}
	return statuses
}

// each calls do for 0 … n-1, eight at a time.
func each(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < n && !t.Failed(); i += 8 {
				if err := do(i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // texts always have a form in JSON
	}
	return string(b)
}

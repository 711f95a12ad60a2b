package evidencetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/approval"
	"attestd/chain/decision"
	"attestd/chain/evidence"
	"attestd/crypto/jose"
	"attestd/crypto/passkey"
	"attestd/crypto/passkey/passkeytest"
	"attestd/crypto/statement"
)

// ApprovalCase is the file of a record that was allowed with an approval. It is genuine, or made by
// an operator who has every key of the company and none of a person.
type ApprovalCase struct {
	Name      string
	File      []byte
	Approvers []string // fingerprints of the passkeys of those who approve

	// Whether it holds with the company's key alone. An operator can enrol a passkey of his own for
	// anybody, so some forgeries do.
	HoldsUnpinned bool
	// Whether it holds with Approvers pinned: no forgery does.
	Holds bool
	Says  []string // of what was checked with Approvers pinned, where Holds
}

const (
	// Page is where people approve, in the cases.
	Page   = "https://attestd.example"
	pageID = "attestd.example"

	asker  = "payer"
	money  = `{"tool":"transfer","server":"bank","source":"mcp","sessionId":"s-1","callId":"c-1","input":{"to":"bob","amount":500}}`
	asks   = `permit (principal, action, resource) when { context.approved };`
	second = "@quorum(\"2\")\n" + asks
)

var firstApproval = approval.FormatID([16]byte{1, 2, 3})

// tale is what happens to one approval, and what is changed of it.
type tale struct {
	t testing.TB
	*Operator
	alice, bob, operator *passkeytest.Authenticator

	policy    string
	ask, call string // payloads
	asker     string
	askType   string
	decided   func(ask, call *decision.Decision)

	object    func(*approval.Object)   // that alice signs
	forged    func(*approval.Object)   // in the control record
	assertion func(*passkey.Assertion) // in the control record
	sign      func(challenge []byte) *passkey.Assertion
	enrolled  map[string]any
	granted   map[string]any
	used      map[string]any
	person    map[string]any
	key       *passkeytest.Authenticator // that is enrolled for alice; nil for her own

	beforeEnrolment, beforeGrant, beforeUse, afterUse func()

	keepControl  func(action string, list []int64) []int64
	keepRequests func([]int64) []int64
	change       func(*evidence.File)

	// signs what the agent does; nil for none. sids are the sessions of its statements, the last
	// that of all further ones
	signer    *jose.PrivateKey
	sids      []string
	isSession bool // the file is that of the session

	control    []int64 // of approvals
	ofKey      []int64
	stated     []int64 // records with statements
	previous   string
	policyLog  []int64
	requests   []int64
	record     int64
	hash       string // of the set
	credential string
}

func newTale(t testing.TB, alice, bob, operator *passkeytest.Authenticator) *tale {
	return &tale{t: t, Operator: NewOperator("acme", 5), alice: alice, bob: bob, operator: operator, policy: asks, ask: money, call: money, asker: asker, askType: "tool.requested"}
}

func (s *tale) changeAbout(action, subject string, members ...map[string]any) int64 {
	all := make(map[string]any)
	for _, m := range members {
		maps.Copy(all, m)
	}
	index := s.Change(action, subject, all)
	s.control = append(s.control, index)
	return index
}

// act appends a record of actions with a decision.
func (s *tale) act(agent, actionType, payload string, d *decision.Decision) int64 {
	text := fmt.Sprintf(`{"agentId":%s,"companyId":%s,"actionType":%s,"payload":%s`, quote(agent), quote(s.Company), quote(actionType), payload)
	if d != nil {
		made, err := d.Append(nil)
		need(err)
		text += `,"decision":` + string(made)
	}
	if s.signer != nil {
		text += `,"statement":` + quote(s.state(agent, actionType, payload))
		s.stated = append(s.stated, int64(len(s.Actions.Records)))
	}
	return s.append(s.Actions, text+"}", "")
}

// state signs a statement of the next record.
func (s *tale) state(agent, actionType, payload string) string {
	hash, err := statement.HashAction(actionType, agent, s.Company, []byte(payload))
	need(err)
	n, company := len(s.stated), "spiffe://attestd.local/company/"+s.Company
	claims := statement.Claims{
		Issuer: company + "/agent/" + agent, Audience: company, Log: s.Actions.Log.Origin, IssuedAt: s.Now.Unix(), ID: fmt.Sprint(n), ActionHash: hash, Session: s.sids[min(n, len(s.sids)-1)],
	}
	if len(s.sids) == 1 {
		claims.Seq, claims.Previous = int64(n), s.previous
	}
	made, err := statement.Make(s.t.Context(), s.signer, claims)
	need(err)
	s.previous = made.Hash()
	return made.Compact
}

func (s *tale) decision(verdict string) *decision.Decision {
	return &decision.Decision{Verdict: verdict, By: []string{"asks"}, Policies: s.hash, Revision: 1, Approval: firstApproval,
		Context: decision.Context{Door: "hook", Time: "2026-11-21T09:00:00.000Z"}}
}

func (s *tale) createPerson(name string, details map[string]any) {
	s.changeAbout("person.created", "person:"+name, map[string]any{
		"personId": name, "name": name, "email": nil, "roles": []string{"approver"}, "groups": []string{}, "subjects": []string{}, "disabledAt": nil,
	}, details)
}

func (s *tale) enrolPasskey(name, id string, key *passkeytest.Authenticator, details map[string]any) {
	public := key.Key(s.t)
	s.changeAbout("passkey.enrolled", "passkey:"+id, map[string]any{
		"personId": name, "credentialId": id, "publicKey": base64url(public.COSE()), "algorithm": public.Algorithm(), "transports": []string{"internal"},
		"aaguid": "", "backupEligible": false, "backedUp": false, "invitation": nil, "formerPasskey": nil,
	}, details)
}

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// about is the object that a person signs about a record.
func (s *tale) about(index int64, person string) *approval.Object {
	r := &s.Actions.Records[index]
	return &approval.Object{
		ApprovalID: firstApproval, Log: s.Actions.Log.Origin, Index: index, Hash: r.Hash.String(), AgentID: s.asker, Tool: "bank/transfer", Person: person,
		Verdict: approval.Approve, Uses: 1, ExpiresAt: chain.FormatTime(Began.Add(10 * time.Minute)),
	}
}

// grant appends the control record of what a person decided.
func (s *tale) grant(o *approval.Object, by *passkey.Assertion, credential string, details map[string]any) {
	action := "approval.granted"
	if o.Verdict == approval.Deny {
		action = "approval.denied"
	}
	s.changeAbout(action, "approval:"+firstApproval, map[string]any{
		"by": "person:" + o.Person, "object": json.RawMessage(o.Append(nil)), "credentialId": credential, "authenticatorData": base64url(by.AuthenticatorData),
		"clientDataJSON": base64url(by.ClientDataJSON), "signature": base64url(by.Signature),
	}, details)
}

func (s *tale) use(index int64, remaining int64, details map[string]any) {
	s.changeAbout("approval.used", "approval:"+firstApproval, map[string]any{
		"approvalId": firstApproval, "log": s.Actions.Log.Origin, "index": index, "hash": s.Actions.Records[index].Hash.String(), "remaining": remaining,
	}, details)
}

// approve has a person sign an object about the first request.
func (s *tale) approve(person string, key *passkeytest.Authenticator, change func(*approval.Object)) {
	o := s.about(s.requests[0], person)
	if change != nil {
		change(o)
	}
	s.grant(o, key.Get(s.t, Page, pageID, o.Challenge()), key.ID(), nil)
}

func do(f func()) {
	if f != nil {
		f()
	}
}

// tell tells the tale, and returns its file.
func (s *tale) tell() []byte {
	s.Change("company.registered", "company:acme", nil)
	s.hash = decision.HashSet(map[string]string{"asks": decision.HashText(s.policy)})
	s.policyLog = append(s.policyLog, s.Change("policy.put", "policies", map[string]any{
		"policyId": "asks", "cedar": s.policy, "sha256": decision.HashText(s.policy), "description": nil, "revision": 1, "set": s.hash,
	}))
	if s.signer != nil {
		s.ofKey = append(s.ofKey, s.Enrol(asker, s.signer.Key(), nil))
	}
	do(s.beforeEnrolment)
	s.createPerson("alice", s.person)
	key := s.alice
	if s.key != nil {
		key = s.key
	}
	s.credential = key.ID()
	s.enrolPasskey("alice", s.credential, key, s.enrolled)
	asked, allowed := s.decision(decision.Ask), s.decision(decision.Allow)
	if s.decided != nil {
		s.decided(asked, allowed)
	}
	if s.askType == "approval.requested" {
		asked = nil
	}
	s.requests = append(s.requests, s.act(s.asker, s.askType, s.ask, asked))
	do(s.beforeGrant)
	o := s.about(s.requests[0], "alice")
	if s.object != nil {
		s.object(o)
	}
	sign := s.sign
	if sign == nil {
		sign = func(challenge []byte) *passkey.Assertion { return key.Get(s.t, Page, pageID, challenge) }
	}
	by := sign(o.Challenge())
	if s.assertion != nil {
		s.assertion(by)
	}
	if s.forged != nil {
		s.forged(o)
	}
	s.grant(o, by, s.credential, s.granted)
	do(s.beforeUse)
	s.record = s.act(asker, "tool.requested", s.call, allowed)
	s.use(s.record, o.Uses-1, s.used)
	do(s.afterUse)
	return s.file()
}

func (s *tale) file() []byte {
	if s.isSession {
		return s.session(asker, s.signer.Key().Thumbprint, s.sids[0], s.ofKey, s.stated, s.fill)
	}
	f := s.Evidence(s.record, s.ofKey...)
	s.fill(f)
	return f.JSON()
}

// fill puts what a file has of policies and approvals into it.
func (s *tale) fill(f *evidence.File) {
	control := slices.Clone(s.control)
	if s.keepControl != nil {
		control = slices.DeleteFunc(control, func(i int64) bool {
			var body struct{ ActionType string }
			need(json.Unmarshal(s.Control.Records[i].Payload, &body))
			return len(s.keepControl(body.ActionType, []int64{i})) == 0
		})
	}
	requests := slices.Clone(s.requests)
	if s.keepRequests != nil {
		requests = s.keepRequests(requests)
	}
	f.Policies = &evidence.Policies{Entries: s.entries(s.policyLog)}
	f.Approvals = &evidence.Approvals{Entries: s.entries(control)}
	for _, i := range requests {
		f.Approvals.Requests = append(f.Approvals.Requests, evidence.Entry{Record: s.Actions.Records[i], Proof: s.Actions.proof(i)})
	}
	if s.change != nil {
		s.change(f)
	}
}

// without leaves the control records of an action out.
func without(action string) func(string, []int64) []int64 {
	return func(is string, list []int64) []int64 {
		if is == action {
			return nil
		}
		return list
	}
}

// ApprovalCases returns genuine files and forged ones.
func ApprovalCases(t testing.TB) (list []ApprovalCase) {
	t.Helper()
	people := make(map[int][3]*passkeytest.Authenticator)
	for _, algorithm := range []int{passkey.ES256, passkey.EdDSA} {
		people[algorithm] = [3]*passkeytest.Authenticator{passkeytest.New(t, algorithm), passkeytest.New(t, algorithm), passkeytest.New(t, algorithm)}
	}
	// all tests of a process share the key of RS256, so the operator has another algorithm there
	people[passkey.RS256] = [3]*passkeytest.Authenticator{passkeytest.New(t, passkey.RS256), people[passkey.ES256][1], people[passkey.ES256][2]}
	add := func(algorithm int, name string, holds, unpinned bool, says []string, change func(*tale)) {
		three := people[algorithm]
		s := newTale(t, three[0], three[1], three[2])
		if change != nil {
			change(s)
		}
		list = append(list, ApprovalCase{Name: name, File: s.tell(), Approvers: []string{three[0].Key(t).Fingerprint(), three[1].Key(t).Fingerprint()}, Holds: holds, HoldsUnpinned: unpinned, Says: says})
	}
	c := approvalCases{
		genuine: func(algorithm int, name string, says []string, change func(*tale)) {
			add(algorithm, name, true, true, says, change)
		},
		forged:  func(name string, change func(*tale)) { add(passkey.ES256, name, false, false, nil, change) },
		claimed: func(name string, change func(*tale)) { add(passkey.ES256, name, false, true, nil, change) },
		key:     people[passkey.ES256][0].Key(t).Fingerprint(),
	}
	c.addGenuine()
	c.addObjects()
	c.addAssertions()
	c.addSignatures()
	c.addControl()
	c.addCalls()
	c.addStories()
	key, err := jose.GenerateKey(jose.EdDSA)
	need(err)
	c.addSessions(key)
	return list
}

type approvalCases struct {
	genuine func(algorithm int, name string, says []string, change func(*tale))
	forged  func(name string, change func(*tale)) // nobody takes it
	claimed func(name string, change func(*tale)) // it holds for who knows no passkey
	key     string
}

func (c *approvalCases) addGenuine() {
	by := []string{"approved: by alice's passkey " + c.key + ", which you named"}
	for _, algorithm := range passkeytest.Algorithms {
		c.genuine(algorithm, fmt.Sprint("genuine, with the algorithm ", algorithm), []string{"approved: by alice's passkey SHA256:"}, nil)
	}
	c.genuine(passkey.ES256, "genuine, with a reason", append(by, `; reason: "the March \"run\" é"`), func(s *tale) {
		reason := "the March \"run\" é"
		s.object = func(o *approval.Object) { o.Reason = &reason }
	})
	c.genuine(passkey.ES256, "genuine, asked for by itself", by, func(s *tale) {
		s.askType, s.ask = "approval.requested", `{"tool":"bank/transfer","input":{"amount":5e2,"to":"bob"},"reason":"x","expiresAt":"2026-11-21T09:10:00.000Z","approvalId":"`+firstApproval+`"}`
	})
	c.genuine(passkey.ES256, "genuine, the members in another order", by, func(s *tale) {
		s.call = `{"input":{"amount":500.0,"to":"bob"},"sessionId":"s-1","callId":"c-2","source":"mcp","tool":"mcp__bank__transfer"}`
	})
	c.genuine(passkey.ES256, "genuine, no call of a tool", by, func(s *tale) {
		s.ask, s.call, s.askType = `{"version":1}`, `{"version":1}`, "tool.requested"
		s.object = func(o *approval.Object) { o.Tool = "tool.requested" }
	})
	c.genuine(passkey.ES256, "genuine, without arguments", by, func(s *tale) {
		s.ask, s.call = `{"tool":"transfer","server":"bank","input":{}}`, `{"tool":"bank/transfer"}`
	})
	c.genuine(passkey.ES256, "genuine, by two people", append(by, "; by bob's passkey SHA256:"), func(s *tale) {
		s.policy = second
		s.beforeUse = func() {
			s.createPerson("bob", nil)
			s.enrolPasskey("bob", s.bob.ID(), s.bob, nil)
			s.approve("bob", s.bob, nil)
		}
	})
	c.genuine(passkey.ES256, "genuine, of a part of a text with several policies", by, func(s *tale) {
		s.policy = "@quorum(\"3\") forbid (principal, action, resource) when { false };\n// @quorum(\"9\") ;\n" + asks
		s.decided = func(ask, call *decision.Decision) { ask.By, call.By = []string{"asks#1"}, []string{"asks#1"} }
	})
	c.genuine(passkey.ES256, "genuine, the second of three uses", by, func(s *tale) {
		s.object = func(o *approval.Object) { o.Uses = 3 }
		s.beforeUse = func() {
			s.use(s.act(asker, "tool.requested", s.call, s.decision(decision.Allow)), 2, nil)
			s.used = map[string]any{"remaining": 1}
		}
	})
	c.genuine(passkey.ES256, "genuine, the passkey revoked later", by, func(s *tale) {
		s.afterUse = func() { s.changeAbout("passkey.revoked", "passkey:"+s.credential, map[string]any{"personId": "alice"}) }
	})
	c.genuine(passkey.ES256, "genuine, on localhost", append(by, "approved on http://localhost:8080 at "), func(s *tale) {
		s.sign = func(challenge []byte) *passkey.Assertion {
			return s.alice.Get(s.t, "http://localhost:8080", "localhost", challenge)
		}
	})
	c.genuine(passkey.ES256, "genuine, with extensions and a counter", by, func(s *tale) {
		s.sign = func(challenge []byte) *passkey.Assertion {
			return s.alice.Sign(s.t, passkeytest.ClientData("webauthn.get", Page, challenge), append(authenticatorData(pageID, 0x9d, 77), 0xa0))
		}
	})
}

// changes are ways in which each member of the object may be another one.
func changes() map[string]func(*approval.Object) {
	text := func(s string) *string { return &s }
	all := map[string]func(*approval.Object){
		"reason":               func(o *approval.Object) { o.Reason = text("because") },
		"reason, an empty one": func(o *approval.Object) { o.Reason = text("") },
		"verdict":              func(o *approval.Object) { o.Verdict = "allow" },
		"verdict, denied":      func(o *approval.Object) { o.Verdict = approval.Deny },
	}
	add := func(name string, values []string, set func(*approval.Object, string)) {
		for _, value := range values {
			all[fmt.Sprintf("%s %q", name, value)] = func(o *approval.Object) { set(o, value) }
		}
	}
	add("approvalId", []string{"", "apr_", approval.FormatID([16]byte{9}), firstApproval[:25] + "B", strings.ToUpper(firstApproval)}, func(o *approval.Object, v string) { o.ApprovalID = v })
	add("log", []string{"", "actions", "log.example/v1/log/" + strings.Repeat("0", 32), "evil.example/v1/log/" + strings.Repeat("51", 16)}, func(o *approval.Object, v string) { o.Log = v })
	add("hash", []string{"", strings.Repeat("0", 64), strings.Repeat("0", 63)}, func(o *approval.Object, v string) { o.Hash = v })
	all["hash in upper case"] = func(o *approval.Object) { o.Hash = strings.ToUpper(o.Hash) }
	add("agentId", []string{"", "other", "payer "}, func(o *approval.Object, v string) { o.AgentID = v })
	add("tool", []string{"", "transfer", "bank/transfer2", "mcp__bank__transfer", "*"}, func(o *approval.Object, v string) { o.Tool = v })
	add("person", []string{"", "bob", "al ice", strings.Repeat("a", 65)}, func(o *approval.Object, v string) { o.Person = v })
	add("expiresAt", []string{"", "2036-11-21T09:10:00.000Z", "2026-11-21T09:10:00Z", "2026-13-21T09:10:00.000Z", "2026-11-21T09:00:00.000Z", "2026-11-21T08:00:00.000Z"}, func(o *approval.Object, v string) { o.ExpiresAt = v })
	for _, n := range []int64{-1, 1, 2, 1 << 53} {
		all[fmt.Sprint("index ", n)] = func(o *approval.Object) { o.Index = n }
	}
	for _, n := range []int64{-1, 0, 2, 1000, 1001} {
		all[fmt.Sprint("uses ", n)] = func(o *approval.Object) { o.Uses = n }
	}
	return all
}

// addObjects changes each member of the object: after alice signed it; and the operator signs it
// with a passkey of his own that he enrols for her. Some of these say what an honest object says.
func (c *approvalCases) addObjects() {
	honest := []string{"reason", "reason, an empty one", "uses 2", "uses 1000", `expiresAt "2036-11-21T09:10:00.000Z"`}
	all := changes()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c.forged("object changed after it was signed: "+name, func(s *tale) { s.forged = all[name] })
		add := c.forged
		if slices.Contains(honest, name) {
			add = c.claimed
		}
		add("object signed by the operator's passkey: "+name, func(s *tale) { s.object, s.key = all[name], s.operator })
	}
	c.claimed("the operator's passkey, enrolled for alice", func(s *tale) { s.key = s.operator })
	for _, member := range []string{"approvalId", "log", "index", "hash", "agentId", "tool", "person", "verdict", "uses", "expiresAt", "reason"} {
		c.forged("object without "+member, func(s *tale) {
			s.beforeGrant = func() {
				members := make(map[string]any)
				need(json.Unmarshal(s.about(s.requests[0], "alice").Append(nil), &members))
				delete(members, member)
				s.granted = map[string]any{"object": members}
			}
		})
	}
	for name, value := range map[string]any{"null": nil, "a list": []int{}, "its text": "{}", "an empty one": map[string]any{}} {
		c.forged("object that is "+name, func(s *tale) { s.granted = map[string]any{"object": value} })
	}
	c.forged("object with a member more", func(s *tale) {
		s.beforeGrant = func() {
			text := s.about(s.requests[0], "alice").Append(nil)
			s.granted = map[string]any{"object": json.RawMessage(append(text[:len(text)-1], `,"note":"x"}`...))}
		}
	})
}

func authenticatorData(rpID string, flags byte, counter byte) []byte {
	sum := sha256.Sum256([]byte(rpID))
	return append(sum[:], flags, 0, 0, 0, counter)
}

// addAssertions has alice's own authenticator sign what is no approval: without her, at another
// page, or something else.
func (c *approvalCases) addAssertions() {
	sign := func(name string, make func(s *tale, challenge []byte) *passkey.Assertion) {
		c.forged("alice's authenticator: "+name, func(s *tale) {
			s.sign = func(challenge []byte) *passkey.Assertion { return make(s, challenge) }
		})
	}
	for _, flags := range []byte{0x00, 0x01, 0x04, 0x08, 0x09, 0x0c, 0x11, 0x14, 0x15, 0x18, 0x1c, 0x45, 0x85, 0xc5} {
		sign(fmt.Sprintf("the flags %02x", flags), func(s *tale, challenge []byte) *passkey.Assertion {
			return s.alice.Sign(s.t, passkeytest.ClientData("webauthn.get", Page, challenge), authenticatorData(pageID, flags, 0))
		})
	}
	for _, page := range []string{
		"https://evil.example", "https://attestd.example.evil.example", "https://sub.attestd.example", "http://attestd.example", "https://attestd.example/", "https://ATTESTD.example",
		"https://attestd.example:", "https://attestd.example:123456", "null", "", "https://[::1]", "ftp://localhost", "https://attestd.example\n", "android:apk-key-hash:abc", "https://",
	} {
		sign(fmt.Sprintf("the page %q", page), func(s *tale, challenge []byte) *passkey.Assertion {
			return s.alice.Get(s.t, page, pageID, challenge)
		})
	}
	for _, rpID := range []string{"evil.example", "", "example", "sub.attestd.example", "https://attestd.example"} {
		sign(fmt.Sprintf("the relying party %q", rpID), func(s *tale, challenge []byte) *passkey.Assertion { return s.alice.Get(s.t, Page, rpID, challenge) })
	}
	good := func(challenge []byte) string { return string(passkeytest.ClientData("webauthn.get", Page, challenge)) }
	for name, change := range map[string]func(string) string{
		"of an enrolment":      func(s string) string { return strings.Replace(s, "webauthn.get", "webauthn.create", 1) },
		"of a payment":         func(s string) string { return strings.Replace(s, "webauthn.get", "payment.get", 1) },
		"in a frame":           func(s string) string { return strings.Replace(s, "false", "true", 1) },
		"in a frame, as text":  func(s string) string { return strings.Replace(s, "false", `"false"`, 1) },
		"in a frame, as null":  func(s string) string { return strings.Replace(s, "false", `null`, 1) },
		"below another page":   func(s string) string { return strings.Replace(s, "}", `,"topOrigin":"https://evil.example"}`, 1) },
		"with a type twice":    func(s string) string { return strings.Replace(s, "}", `,"type":"webauthn.get"}`, 1) },
		"with an origin twice": func(s string) string { return strings.Replace(s, "{", `{"origin":"https://evil.example",`, 1) },
		"with more behind it":  func(s string) string { return s + "{}" },
		"with a byte order":    func(s string) string { return "\ufeff" + s },
		"too long":             func(s string) string { return strings.Replace(s, "}", `,"x":"`+strings.Repeat("x", 4096)+`"}`, 1) },
		"too deep": func(s string) string {
			return strings.Replace(s, "}", `,"x":`+strings.Repeat("[", 9)+strings.Repeat("]", 9)+`}`, 1)
		},
		"with a number that is no double": func(s string) string { return strings.Replace(s, "}", `,"x":1e400}`, 1) },
		"of no UTF-8":                     func(s string) string { return strings.Replace(s, "}", ",\"x\":\"\xff\"}", 1) },
		"of half a character":             func(s string) string { return strings.Replace(s, "}", `,"x":"\ud800"}`, 1) },
		"with a padded challenge":         func(s string) string { return strings.Replace(s, `","crossOrigin"`, `=","crossOrigin"`, 1) },
		"without a challenge":             func(s string) string { return strings.Replace(s, `"challenge"`, `"chalenge"`, 1) },
		"without a type":                  func(s string) string { return strings.Replace(s, `"type"`, `"typ"`, 1) },
		"without an origin":               func(s string) string { return strings.Replace(s, `"origin"`, `"orign"`, 1) },
		"that is no object":               func(string) string { return `[]` },
		"that is nothing":                 func(string) string { return `` },
	} {
		sign("client data "+name, func(s *tale, challenge []byte) *passkey.Assertion {
			text := change(good(challenge))
			if text == good(challenge) {
				panic("nothing is another one: client data " + name)
			}
			return s.alice.Sign(s.t, []byte(text), authenticatorData(pageID, 5, 0))
		})
	}
	for name, challenge := range map[string][]byte{"of a sign-in": bytes.Repeat([]byte{7}, 32), "that is empty": {}} {
		sign("a challenge "+name, func(s *tale, _ []byte) *passkey.Assertion { return s.alice.Get(s.t, Page, pageID, challenge) })
	}
	sign("the challenge without the heading", func(s *tale, _ []byte) *passkey.Assertion {
		sum := sha256.Sum256(s.about(s.requests[0], "alice").Append(nil))
		return s.alice.Get(s.t, Page, pageID, sum[:])
	})
	for name, data := range map[string][]byte{
		"too short": authenticatorData(pageID, 5, 0)[:36], "with more than it says": append(authenticatorData(pageID, 5, 0), 0xa0),
		"with less than it says": authenticatorData(pageID, 0x85, 0), "too long": append(authenticatorData(pageID, 0x85, 0), make([]byte, 1024)...), "that is empty": {},
	} {
		sign("authenticator data "+name, func(s *tale, challenge []byte) *passkey.Assertion {
			return s.alice.Sign(s.t, []byte(good(challenge)), data)
		})
	}
}

// addSignatures changes what alice's authenticator gave, after it signed.
func (c *approvalCases) addSignatures() {
	changed := func(name string, change func(*passkey.Assertion)) {
		c.forged("assertion: "+name, func(s *tale) { s.assertion = change })
	}
	changed("another counter", func(a *passkey.Assertion) { a.AuthenticatorData[36]++ })
	for bit := range 8 {
		changed(fmt.Sprint("the flag ", bit, " turned"), func(a *passkey.Assertion) { a.AuthenticatorData[32] ^= 1 << bit })
	}
	changed("another relying party", func(a *passkey.Assertion) { a.AuthenticatorData[0] ^= 1 })
	changed("another page", func(a *passkey.Assertion) {
		a.ClientDataJSON = bytes.Replace(a.ClientDataJSON, []byte("attestd"), []byte("other"), 1)
	})
	changed("a space", func(a *passkey.Assertion) { a.ClientDataJSON = append(a.ClientDataJSON, ' ') })
	changed("no signature", func(a *passkey.Assertion) { a.Signature = nil })
	der := func(name string, make func(r, s *big.Int) []byte) {
		changed("DER with "+name, func(a *passkey.Assertion) {
			var n struct{ R, S *big.Int }
			_, err := asn1.Unmarshal(a.Signature, &n)
			need(err)
			a.Signature = make(n.R, n.S)
		})
	}
	integer := func(n *big.Int) []byte {
		text, err := asn1.Marshal(n)
		need(err)
		return text
	}
	sequence := func(parts ...[]byte) []byte {
		body := bytes.Join(parts, nil)
		return append([]byte{0x30, byte(len(body))}, body...)
	}
	order, _ := new(big.Int).SetString("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16)
	der("r and s as numbers alone", func(r, s *big.Int) []byte {
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	})
	der("a byte behind it", func(r, s *big.Int) []byte { return append(sequence(integer(r), integer(s)), 0) })
	der("a byte in it", func(r, s *big.Int) []byte { return sequence(integer(r), integer(s), []byte{0}) })
	der("a third number", func(r, s *big.Int) []byte { return sequence(integer(r), integer(s), integer(s)) })
	der("one number", func(r, _ *big.Int) []byte { return sequence(integer(r)) })
	der("a length in two bytes", func(r, s *big.Int) []byte {
		text := sequence(integer(r), integer(s))
		return append([]byte{0x30, 0x81}, text[1:]...)
	})
	der("an indefinite length", func(r, s *big.Int) []byte {
		return slices.Concat([]byte{0x30, 0x80}, integer(r), integer(s), []byte{0, 0})
	})
	der("a zero before r", func(r, s *big.Int) []byte {
		text := integer(r)
		return sequence(append([]byte{2, text[1] + 1, 0}, text[2:]...), integer(s))
	})
	der("a zero before s", func(r, s *big.Int) []byte {
		text := integer(s)
		return sequence(integer(r), append([]byte{2, text[1] + 1, 0}, text[2:]...))
	})
	der("a negative r", func(r, s *big.Int) []byte {
		return sequence(integer(new(big.Int).Sub(r, new(big.Int).Lsh(big.NewInt(1), 256))), integer(s))
	})
	der("r and the order", func(r, s *big.Int) []byte { return sequence(integer(new(big.Int).Add(r, order)), integer(s)) })
	der("s and the order", func(r, s *big.Int) []byte { return sequence(integer(r), integer(new(big.Int).Add(s, order))) })
	der("r and s exchanged", func(r, s *big.Int) []byte { return sequence(integer(s), integer(r)) })
	der("zeros", func(_, _ *big.Int) []byte { return sequence(integer(new(big.Int)), integer(new(big.Int))) })
	der("ones", func(_, _ *big.Int) []byte { return sequence(integer(big.NewInt(1)), integer(big.NewInt(1))) })
	der("the order", func(_, _ *big.Int) []byte { return sequence(integer(order), integer(order)) })
	der("another tag", func(r, s *big.Int) []byte {
		text := sequence(integer(r), integer(s))
		text[0] = 0x31
		return text
	})
	der("a tag of another class", func(r, s *big.Int) []byte {
		text := integer(r)
		text[0] = 0x82
		return sequence(text, integer(s))
	})
	der("its end cut", func(r, s *big.Int) []byte {
		text := sequence(integer(r), integer(s))
		return text[:len(text)-1]
	})
	der("a large number", func(_, s *big.Int) []byte { return sequence(integer(new(big.Int).Lsh(big.NewInt(1), 400)), integer(s)) })
}

// addControl changes members of the control records.
func (c *approvalCases) addControl() {
	type members = map[string]any
	for _, m := range []members{
		{"by": "person:bob"}, {"by": "api-key:9f86d081884c7d65"}, {"by": nil}, {"by": "alice"}, {"by": "person:alice "}, {"credentialId": "AAAA"}, {"credentialId": ""}, {"credentialId": nil},
		{"credentialId": "passkey"}, {"authenticatorData": nil}, {"authenticatorData": ""}, {"authenticatorData": "not base64!"}, {"clientDataJSON": nil}, {"clientDataJSON": "{}"}, {"clientDataJSON": "e30="},
		{"signature": nil}, {"signature": ""}, {"signature": "AB"}, {"signature": "A+/="}, {"subject": "approval:" + approval.FormatID([16]byte{9})}, {"subject": "approval:"}, {"subject": "company:acme"},
	} {
		c.forged("granted with "+jsonText(m), func(s *tale) { s.granted = m })
	}
	for _, m := range []members{
		{"personId": "bob"}, {"personId": nil}, {"personId": ""}, {"personId": "al ice"}, {"credentialId": "AAAA"}, {"credentialId": nil}, {"subject": "passkey:AAAA"}, {"subject": "passkey:"}, {"publicKey": nil}, {"publicKey": ""},
		{"publicKey": "AAAA"}, {"algorithm": -8}, {"algorithm": -257}, {"algorithm": "-7"}, {"algorithm": nil}, {"algorithm": -7.5}, {"algorithm": 7},
	} {
		c.forged("enrolled with "+jsonText(m), func(s *tale) { s.enrolled = m })
	}
	for name, change := range map[string]func([]byte) []byte{
		"a byte more": func(b []byte) []byte { return append(b, 0) }, "a byte less": func(b []byte) []byte { return b[:len(b)-1] },
		"another point": func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, "another curve": func(b []byte) []byte { b[6] = 2; return b },
		"another algorithm in it": func(b []byte) []byte { b[4] = 0x27; return b }, "its x beyond the field": func(b []byte) []byte { copy(b[10:], bytes.Repeat([]byte{0xff}, 32)); return b },
	} {
		c.forged("the key enrolled with "+name, func(s *tale) {
			s.enrolled = members{"publicKey": base64url(change(bytes.Clone(s.alice.Key(s.t).COSE())))}
		})
	}
	c.forged("alice's key enrolled as that of another algorithm", func(s *tale) {
		s.enrolled = members{"publicKey": base64url(passkeytest.New(s.t, passkey.EdDSA).Key(s.t).COSE()), "algorithm": passkey.EdDSA}
	})
	c.forged("a small point as the key", func(s *tale) {
		s.enrolled = members{"publicKey": base64url(append([]byte{0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21, 0x58, 0x20, 1}, make([]byte, 31)...)), "algorithm": passkey.EdDSA}
	})
	for _, m := range []members{
		{"approvalId": approval.FormatID([16]byte{9})}, {"approvalId": nil}, {"log": "actions"}, {"log": nil}, {"index": 0}, {"index": 2}, {"index": "1"}, {"index": nil}, {"index": 1.5}, {"hash": strings.Repeat("0", 64)}, {"hash": nil},
		{"hash": ""}, {"remaining": 1}, {"remaining": 2}, {"remaining": -1}, {"remaining": nil}, {"remaining": "0"}, {"subject": "approval:" + approval.FormatID([16]byte{9})}, {"subject": "approval"},
	} {
		c.forged("used with "+jsonText(m), func(s *tale) { s.used = m })
	}
	for _, m := range []members{
		{"roles": []string{"admin"}}, {"roles": []string{}}, {"roles": nil}, {"roles": "approver"}, {"roles": []any{1}}, {"disabledAt": "2026-11-21T09:00:00.000Z"}, {"disabledAt": ""}, {"disabledAt": false}, {"subject": "people:alice"},
	} {
		c.forged("the person with "+jsonText(m), func(s *tale) { s.person = m })
	}
	for _, action := range []string{"approval.granted", "approval.used", "passkey.enrolled"} {
		c.forged("without "+action, func(s *tale) { s.keepControl = without(action) })
	}
	c.forged("without the request", func(s *tale) { s.keepRequests = func([]int64) []int64 { return nil } })
	c.forged("the request twice", func(s *tale) { s.keepRequests = func(list []int64) []int64 { return append(list, list...) } })
	c.forged("all of it empty", func(s *tale) {
		s.keepControl = func(string, []int64) []int64 { return nil }
		s.keepRequests = func([]int64) []int64 { return nil }
	})
	c.claimed("all of it left out", func(s *tale) { s.change = func(f *evidence.File) { f.Approvals = nil } })
	c.forged("the control records in another order", func(s *tale) {
		s.change = func(f *evidence.File) { slices.Reverse(f.Approvals.Entries) }
	})
	c.forged("the record that used it as the request", func(s *tale) {
		s.keepRequests = func([]int64) []int64 { return []int64{s.record} }
	})
	c.forged("another control record among them", func(s *tale) {
		s.afterUse = func() { s.changeAbout("agent.registered", "agent:payer", members{"agentId": "payer"}) }
	})
	c.forged("a control record of people with another subject", func(s *tale) {
		s.afterUse = func() { s.changeAbout("passkey.enrolled", "person:alice") }
	})
	c.forged("the wrong proof of the request", func(s *tale) {
		s.change = func(f *evidence.File) { f.Approvals.Requests[0].Proof = f.Proof }
	})
	c.forged("the request as it was not", func(s *tale) {
		s.change = func(f *evidence.File) {
			f.Approvals.Requests[0].Record.Payload = bytes.Replace(f.Approvals.Requests[0].Record.Payload, []byte("500"), []byte("501"), 1)
		}
	})
	c.forged("the request without its payload", func(s *tale) {
		s.change = func(f *evidence.File) { f.Approvals.Requests[0].Record.Payload = nil }
	})
	c.forged("approvals of a record that was denied", func(s *tale) {
		s.decided = func(_, call *decision.Decision) {
			call.Verdict, call.Code, call.By = decision.Deny, decision.PolicyDenied, nil
		}
	})
	c.forged("approvals of a record that names none", func(s *tale) {
		s.decided = func(_, call *decision.Decision) { call.Approval = "" }
	})
	c.forged("a record that names another approval", func(s *tale) {
		s.decided = func(_, call *decision.Decision) { call.Approval = approval.FormatID([16]byte{9}) }
	})
	c.forged("a request that names another approval", func(s *tale) {
		s.decided = func(ask, _ *decision.Decision) { ask.Approval = approval.FormatID([16]byte{9}) }
	})
	c.forged("a request that names no approval", func(s *tale) {
		s.decided = func(ask, _ *decision.Decision) { ask.Approval = "" }
	})
	c.forged("a request that was denied", func(s *tale) {
		s.decided = func(ask, _ *decision.Decision) { ask.Verdict, ask.Code = decision.Deny, decision.PolicyDenied }
	})
}

func jsonText(v any) string {
	text, err := json.Marshal(v)
	need(err)
	return string(text)
}

// addCalls replays alice's approval on calls that she did not approve.
func (c *approvalCases) addCalls() {
	for name, change := range map[string][2]string{
		"another amount":             {`"amount":500`, `"amount":501`},
		"another receiver":           {`"to":"bob"`, `"to":"eve"`},
		"a member more":              {`"amount":500`, `"amount":500,"more":1`},
		"a member less":              {`,"amount":500`, ``},
		"a number as text":           {`500`, `"500"`},
		"a space in a text":          {`"bob"`, `"bob "`},
		"another tool":               {`"transfer"`, `"transfers"`},
		"another server":             {`"bank"`, `"bonk"`},
		"no server":                  {`"server":"bank",`, ``},
		"another session":            {`"s-1"`, `"s-2"`},
		"no session":                 {`"sessionId":"s-1",`, ``},
		"no input":                   {`,"input":{"to":"bob","amount":500}`, ``},
		"arguments besides":          {`"input":{"to":"bob","amount":500}`, `"input":{},"arguments":{"to":"bob","amount":500}`},
		"no tool":                    {`"tool":"transfer",`, ``},
		"the arguments as a list":    {`{"to":"bob","amount":500}`, `[{"to":"bob","amount":500}]`},
		"another server in its tool": {`"tool":"transfer","server":"bank"`, `"tool":"mcp__bonk__transfer"`},
	} {
		c.forged("replayed on "+name, func(s *tale) {
			if s.call = strings.Replace(money, change[0], change[1], 1); s.call == money {
				panic("nothing is another one: " + name)
			}
		})
	}
	c.forged("replayed for another agent", func(s *tale) { s.asker = "other" })
	c.forged("replayed on a record before the request", func(s *tale) {
		s.beforeEnrolment = func() { s.record = s.act(asker, "tool.requested", money, s.decision(decision.Allow)) }
		s.afterUse = func() { s.record = 0 }
		s.used = map[string]any{"index": 0}
	})
	c.forged("replayed on a second record of the same call", func(s *tale) {
		s.afterUse = func() {
			s.record = s.act(asker, "tool.requested", money, s.decision(decision.Allow))
			s.use(s.record, 0, nil)
		}
	})
	c.forged("a second record without a use", func(s *tale) {
		s.afterUse = func() { s.record = s.act(asker, "tool.requested", money, s.decision(decision.Allow)) }
	})
	c.forged("used twice by one record", func(s *tale) {
		s.object = func(o *approval.Object) { o.Uses = 3 }
		s.afterUse = func() { s.use(s.record, 1, nil) }
	})
	c.forged("replayed with the hash of another service", func(s *tale) {
		s.beforeGrant = func() { s.granted = nil }
		s.object = func(o *approval.Object) { o.Log = "other.example/v1/log/" + strings.Repeat("51", 16) }
	})
}

// addStories are forgeries in what happened before and after.
func (c *approvalCases) addStories() {
	type members = map[string]any
	revoke := func(s *tale) func() {
		return func() { s.changeAbout("passkey.revoked", "passkey:"+s.credential, members{"personId": "alice"}) }
	}
	c.forged("the passkey revoked before", func(s *tale) { s.beforeGrant = revoke(s) })
	c.forged("the passkey enrolled after", func(s *tale) {
		s.keepControl = without("passkey.enrolled")
		s.beforeUse = func() {
			s.keepControl = nil
			first := slices.Index(s.control, s.control[1])
			s.control = slices.Delete(s.control, first, first+1)
			s.enrolPasskey("alice", s.credential, s.alice, nil)
		}
	})
	c.forged("the enrolment dated later", func(s *tale) {
		s.beforeEnrolment = func() { s.Now = s.Now.Add(time.Minute) }
		s.beforeGrant = func() { s.Now = s.Now.Add(-time.Minute) }
		s.beforeUse = func() { s.Now = s.Now.Add(2 * time.Minute) }
	})
	c.forged("the passkey enrolled twice", func(s *tale) {
		s.beforeGrant = func() { s.enrolPasskey("alice", s.credential, s.operator, nil) }
	})
	c.claimed("a second passkey of the operator for alice", func(s *tale) {
		s.beforeGrant = func() {
			s.enrolPasskey("alice", s.operator.ID(), s.operator, nil)
			s.credential = s.operator.ID()
		}
		s.sign = func(challenge []byte) *passkey.Assertion { return s.operator.Get(s.t, Page, pageID, challenge) }
	})
	c.forged("the operator signs under alice's passkey", func(s *tale) {
		s.sign = func(challenge []byte) *passkey.Assertion { return s.operator.Get(s.t, Page, pageID, challenge) }
	})
	c.forged("the person deleted before", func(s *tale) {
		s.beforeGrant = func() { s.changeAbout("person.deleted", "person:alice", members{"personId": "alice"}) }
	})
	c.forged("the person deleted before the use", func(s *tale) {
		s.beforeUse = func() { s.changeAbout("person.deleted", "person:alice", members{"personId": "alice"}) }
	})
	c.forged("the person disabled before the use", func(s *tale) {
		s.beforeUse = func() {
			s.changeAbout("person.changed", "person:alice", members{"personId": "alice", "roles": []string{"approver"}, "disabledAt": "2026-11-21T09:00:05.000Z"})
		}
	})
	c.forged("the role lost before", func(s *tale) {
		s.beforeGrant = func() {
			s.changeAbout("person.changed", "person:alice", members{"personId": "alice", "roles": []string{"reader"}, "disabledAt": nil})
		}
	})
	c.forged("withdrawn before the use", func(s *tale) {
		s.beforeUse = func() {
			s.changeAbout("approval.withdrawn", "approval:"+firstApproval, members{"approvalId": firstApproval, "reason": nil})
		}
	})
	c.forged("alice denied it", func(s *tale) {
		s.object = func(o *approval.Object) { o.Verdict = approval.Deny }
	})
	c.forged("alice denied it, recorded as granted", func(s *tale) {
		s.object = func(o *approval.Object) { o.Verdict = approval.Deny }
		s.forged = func(o *approval.Object) { o.Verdict = approval.Approve }
	})
	c.forged("a denial in a record of a grant", func(s *tale) {
		s.beforeGrant = func() {
			o := s.about(s.requests[0], "alice")
			o.Verdict = approval.Deny
			s.granted = members{"object": json.RawMessage(o.Append(nil))}
		}
		s.object = func(o *approval.Object) { o.Verdict = approval.Deny }
		s.forged = func(o *approval.Object) { o.Verdict = approval.Approve }
	})
	denial := func(s *tale) {
		s.createPerson("bob", nil)
		s.enrolPasskey("bob", s.bob.ID(), s.bob, nil)
		s.approve("bob", s.bob, func(o *approval.Object) { o.Verdict = approval.Deny })
	}
	c.forged("bob denied it before", func(s *tale) { s.beforeGrant = func() { denial(s) } })
	c.forged("bob denied it before the use", func(s *tale) { s.beforeUse = func() { denial(s) } })
	c.forged("ended before the use", func(s *tale) { s.beforeUse = func() { s.Now = s.Now.Add(11 * time.Minute) } })
	c.forged("ended before it was granted", func(s *tale) { s.beforeGrant = func() { s.Now = s.Now.Add(11 * time.Minute) } })
	c.forged("granted after the end of what was asked for", func(s *tale) {
		s.askType, s.ask = "approval.requested", `{"tool":"bank/transfer","input":{"amount":500,"to":"bob"},"expiresAt":"2026-11-21T09:00:30.000Z","approvalId":"`+firstApproval+`"}`
		s.beforeGrant = func() { s.Now = s.Now.Add(time.Minute) }
	})
	for name, ask := range map[string]string{
		"without an end": `{"tool":"bank/transfer","input":{"amount":500,"to":"bob"},"approvalId":"` + firstApproval + `"}`,
		"without an ID":  `{"tool":"bank/transfer","input":{"amount":500,"to":"bob"},"expiresAt":"2026-11-21T09:10:00.000Z"}`,
		"of another ID":  `{"tool":"bank/transfer","input":{"amount":500,"to":"bob"},"expiresAt":"2026-11-21T09:10:00.000Z","approvalId":"` + approval.FormatID([16]byte{9}) + `"}`,
		"of no ID":       `{"tool":"bank/transfer","input":{"amount":500,"to":"bob"},"expiresAt":"2026-11-21T09:10:00.000Z","approvalId":"x"}`,
	} {
		c.forged("asked for "+name, func(s *tale) { s.askType, s.ask = "approval.requested", ask })
	}
	c.forged("granted before it was asked for", func(s *tale) {
		s.beforeGrant = func() { s.Now = s.Now.Add(-time.Minute) }
		s.enrolled = nil
		s.beforeUse = func() { s.Now = s.Now.Add(2 * time.Minute) }
	})
	c.forged("granted after the record", func(s *tale) {
		s.beforeGrant = func() { s.Now = s.Now.Add(time.Minute) }
		s.beforeUse = func() { s.Now = s.Now.Add(-50 * time.Second) }
	})
	c.forged("alice alone where two must approve", func(s *tale) { s.policy = second })
	c.forged("alice twice where two must approve", func(s *tale) {
		s.policy = second
		s.beforeUse = func() { s.approve("alice", s.alice, nil) }
	})
	c.claimed("the operator for bob where two must approve", func(s *tale) {
		s.policy = second
		s.beforeUse = func() {
			s.createPerson("bob", nil)
			s.enrolPasskey("bob", s.operator.ID(), s.operator, nil)
			s.approve("bob", s.operator, nil)
		}
	})
	c.forged("bob after the use where two must approve", func(s *tale) {
		s.policy = second
		s.afterUse = func() {
			s.createPerson("bob", nil)
			s.enrolPasskey("bob", s.bob.ID(), s.bob, nil)
			s.approve("bob", s.bob, nil)
		}
	})
	c.forged("bob for another record where two must approve", func(s *tale) {
		s.policy = second
		s.beforeUse = func() {
			s.createPerson("bob", nil)
			s.enrolPasskey("bob", s.bob.ID(), s.bob, nil)
			s.requests = append(s.requests, s.act(s.asker, "tool.requested", money, s.decision(decision.Ask)))
			s.approve("bob", s.bob, func(o *approval.Object) { *o = *s.about(s.requests[1], "bob") })
		}
	})
	for _, quorum := range []string{`@quorum`, `@quorum("")`, `@quorum("0")`, `@quorum("02")`, `@quorum("101")`, `@quorum("2\u{20}")`, `@quorum(2)`, `@ /* "1" */ quorum // )` + "\n" + `( "2" )`} {
		c.forged("a policy with "+quorum, func(s *tale) { s.policy = quorum + " " + asks })
	}
	for _, by := range []string{"asks#1", "asks#01", "asks#", "asks#x", "asks#-1", "other"} {
		c.forged("allowed by "+by, func(s *tale) {
			s.decided = func(_, call *decision.Decision) { call.By = []string{by} }
		})
	}
	c.forged("bob's passkey for alice", func(s *tale) {
		s.beforeGrant = func() {
			s.createPerson("bob", nil)
			s.enrolPasskey("bob", s.bob.ID(), s.bob, nil)
			s.credential = s.bob.ID()
		}
		s.sign = func(challenge []byte) *passkey.Assertion { return s.bob.Get(s.t, Page, pageID, challenge) }
	})
}

// addSessions are what an agent signed itself, in files of records and of sessions.
func (c *approvalCases) addSessions(key *jose.PrivateKey) {
	signed := func(s *tale, sids ...string) { s.signer, s.sids = key, sids }
	by := []string{"approved: by alice's passkey " + c.key + ", which you named"}
	c.genuine(passkey.ES256, "genuine, with statements of one session", by, func(s *tale) {
		signed(s, "run-1")
		s.call = strings.Replace(money, "s-1", "s-2", 1)
	})
	c.genuine(passkey.ES256, "genuine, with statements, of one session of hooks", by, func(s *tale) {
		signed(s, "s-1", "run-2")
	})
	c.forged("replayed in another session of statements", func(s *tale) { signed(s, "run-1", "run-2") })
	of := func(change func(*tale)) func(*tale) {
		return func(s *tale) {
			signed(s, "run-1")
			s.isSession = true
			if change != nil {
				change(s)
			}
		}
	}
	c.genuine(passkey.ES256, "genuine, a session", by, of(nil))
	c.genuine(passkey.EdDSA, "genuine, a session with two uses", []string{"approved: 2 records, by alice's passkey SHA256:"}, of(func(s *tale) {
		s.object = func(o *approval.Object) { o.Uses = 2 }
		s.afterUse = func() { s.use(s.act(asker, "tool.requested", money, s.decision(decision.Allow)), 0, nil) }
	}))
	c.claimed("a session without approvals", of(func(s *tale) { s.change = func(f *evidence.File) { f.Approvals = nil } }))
	c.claimed("a session with the operator's passkey", of(func(s *tale) { s.key = s.operator }))
	c.forged("a session with another call", of(func(s *tale) { s.call = strings.Replace(money, "500", "501", 1) }))
	c.forged("a session without a use", of(func(s *tale) { s.keepControl = without("approval.used") }))
	c.forged("a session with a use too many", of(func(s *tale) {
		s.afterUse = func() { s.use(s.act(asker, "tool.requested", money, s.decision(decision.Allow)), 0, nil) }
	}))
	c.forged("a session in which alice alone approved", of(func(s *tale) { s.policy = second }))
	c.forged("a session without what asked", of(func(s *tale) { s.keepRequests = func([]int64) []int64 { return nil } }))
}

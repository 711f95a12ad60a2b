package server_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"attestd/chain/tlog"
	"attestd/crypto/keyring"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/limit"
)

const rotateKeys = "POST /v1/companies/rotate-keys"

// keyClient is a client that knows only a JWK set: it uses the key that a token names, and fetches
// the set again if it does not know that key, as such clients do.
type keyClient struct {
	caller
	known   map[string]ed25519.PublicKey
	fetched int
}

func (k *keyClient) verifies(t testing.TB, token string) bool {
	t.Helper()
	kid := unverifiedKID(t, token)
	if k.known[kid] == nil {
		k.fetched++
		k.known = map[string]ed25519.PublicKey{}
		for _, jwk := range k.anyone().do(t, "GET /v1/ca/public-key?companyId="+k.id, "").status(200).at("keys").([]any) {
			x, err := b64.DecodeString(jwk.(map[string]any)["x"].(string))
			must.OK(t, err)
			k.known[jwk.(map[string]any)["kid"].(string)] = x
		}
	}
	cut := strings.LastIndexByte(token, '.')
	signature, err := b64.DecodeString(token[cut+1:])
	must.OK(t, err)
	return k.known[kid] != nil && ed25519.Verify(k.known[kid], []byte(token[:cut]), signature)
}

func unverifiedKID(t testing.TB, token string) string {
	t.Helper()
	header, err := b64.DecodeString(token[:strings.IndexByte(token, '.')])
	must.OK(t, err)
	var h struct{ Kid string }
	must.OK(t, json.Unmarshal(header, &h))
	return h.Kid
}

// Between three rotations the test makes records, tokens and statuses: each is signed with the key
// of its time and verified with that key.
func TestRotateKeys(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	globexKID := globex.kid(t)
	acme.agent(t, "bot")
	client := &keyClient{caller: acme}
	kids := []string{acme.kid(t)}
	var passports []string
	firstJTI := ""
	for i, body := range []string{"", `{}`, `{"compromised":false}`, `{"compromised":null}`} {
		passports = append(passports, acme.passport(t, "bot", ""))
		if got := unverifiedKID(t, passports[i]); got != kids[i] || !client.verifies(t, passports[i]) {
			t.Errorf("passport %d is signed with %s", i, got)
		}
		if i == 0 {
			firstJTI = jti(t, acme, passports[0])
		}
		acme.attestMany(t, 3)
		r := acme.do(t, rotateKeys, body).gets(200, fmt.Sprintf(
			`{"kid":"<anything>","fingerprint":"<anything>","previousKid":"%s","index":%d,"createdAt":"<time>","previousEndedAt":"<time>"}`, kids[i], 3*i+3))
		equal(t, "end and beginning", r.str("createdAt"), r.str("previousEndedAt"))
		kids = append(kids, r.str("kid"))
		equal(t, "kid", acme.kid(t), kids[i+1])
		equal(t, "fingerprint", acme.anyone().do(t, "GET /v1/ca/public-key?companyId=acme", "").str("fingerprint"), r.str("fingerprint"))
	}
	acme.attestMany(t, 3)
	acme.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"<hash>"}`)
	for i, p := range passports {
		acme.do(t, "POST /v1/passport/verify", `{"passport":"`+p+`"}`).status(200)
		if !client.verifies(t, p) {
			t.Errorf("the key of passport %d is in no set", i)
		}
	}
	if client.fetched != len(kids)-1 { // the first set, and one for each new key
		t.Errorf("the set was fetched %d times", client.fetched)
	}
	status := acme.do(t, "GET /v1/ocsp/"+firstJTI, "").status(200)
	equal(t, "key of a status", status.str("caPublicKey"), acme.anyone().do(t, "GET /v1/ca/public-key?companyId=acme", "").str("pem"))

	slices.Reverse(kids)
	for _, document := range []string{"public-key", "well-known"} {
		r := s.anyone().do(t, "GET /v1/ca/"+document+"?companyId=acme", "").status(200)
		var listed []string
		for i := range r.at("keys").([]any) {
			listed = append(listed, r.str("keys", i, "kid"))
		}
		equal(t, "keys of "+document, strings.Join(listed, " "), strings.Join(kids, " "))
	}
	equal(t, "another company's key", globex.kid(t), globexKID)
}

// A reader who has only the records and the list of keys can verify all of them, and that each key
// follows from the one before.
func TestPublicKeys(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.attestMany(t, 2)
	acme.grow(t, "control", 5)
	// These are indices in the control log, by key: the next record, which is that of the rotation.
	from := []int64{0, acme.logNamed(t, "control").Size, 0}
	acme.do(t, rotateKeys, "").status(200)
	acme.grow(t, "control", 1)
	from[2] = acme.logNamed(t, "control").Size
	acme.do(t, rotateKeys, `{"compromised":true}`).status(200)
	acme.attestMany(t, 2)
	const path = "GET /v1/ca/public-keys"
	const key = `"kid":"<anything>","jwk":{"kty":"OKP","crv":"Ed25519","x":"<anything>","kid":"<anything>","alg":"EdDSA","use":"sig"},"pem":"<pem>","fingerprint":"<anything>"`
	const proof = `"rotation":{"statement":"<anything>","oldSignature":"<signature>","newSignature":"<signature>"}`
	r := s.anyone().do(t, path+"?companyId=acme", "").sets(hour).gets(200, `{"companyId":"acme","spiffeId":"`+orgID+`","origin":"<anything>","keys":[
		{`+key+`,"fromIndex":0,"createdAt":"<time>","endedAt":"<time>","compromisedAt":"<time>"},
		{`+key+`,"fromIndex":2,"createdAt":"<time>","endedAt":"<time>","compromisedAt":"<time>",`+proof+`},
		{`+key+`,"fromIndex":2,"createdAt":"<time>",`+proof+`}],
		"logs":[{"log":"control","origin":"<anything>","keys":[
			{"kid":"<anything>","fromIndex":0},{"kid":"<anything>","fromIndex":`+fmt.Sprint(from[1])+`,`+proof+`},{"kid":"<anything>","fromIndex":`+fmt.Sprint(from[2])+`,`+proof+`}]}]}`)
	var ring []keyring.Key
	for i, k := range r.at("keys").([]any) {
		from, err := strconv.ParseInt(fmt.Sprint(k.(map[string]any)["fromIndex"]), 10, 64)
		must.OK(t, err)
		next := keyring.Key{Generation: int64(i), Public: readPEM(t, r.str("keys", i, "pem")), From: from, CreatedAt: r.str("keys", i, "createdAt")}
		if i < 2 {
			next.EndedAt = r.str("keys", i, "endedAt")
		}
		if i > 0 {
			next.Rotation = rotation(t, r, "keys", i)
		}
		ring = append(ring, next)
	}
	proven := keyring.Flaws(r.str("origin"), ring)
	second := slices.Clone(ring)
	for i := range second {
		equal(t, "kid", r.str("logs", 0, "keys", i, "kid"), r.str("keys", i, "kid"))
		if second[i].From = from[i]; i > 0 {
			second[i].Rotation = rotation(t, r, "logs", 0, "keys", i)
		}
	}
	equal(t, "origin", r.str("logs", 0, "origin"), acme.logNamed(t, "control").Origin)
	if flaws := append(keyring.FlawsWithProven(r.str("logs", 0, "origin"), second, ring, proven), proven...); strings.Join(flaws, "") != "" {
		t.Errorf("%q", flaws)
	}
	table(t, []row{
		{does: "no company", as: s.anyone(), call: path, status: 400, gets: `{"error":"Missing required query parameter: companyId"}`},
		{does: "an unknown one", as: s.anyone(), call: path + "?companyId=globex", status: 404, gets: `{"error":"Company not found: globex"}`},
		{does: "rotating with what is no answer", as: acme, call: rotateKeys, body: `{"compromised":"true"}`, status: 400, gets: `{"error":"Invalid field: compromised must be true or false"}`},
		{does: "rotating with a number", as: acme, call: rotateKeys, body: `{"compromised":1}`, status: 400, gets: `{"error":"Invalid field: compromised must be true or false"}`},
		{does: "a reader", as: acme.create(t, "reader", ""), call: rotateKeys, status: 403, gets: `{"error":"…","code":"FORBIDDEN_ROLE"}`},
		{does: "a writer", as: acme.create(t, "writer", ""), call: rotateKeys, status: 403, gets: `{"error":"…","code":"FORBIDDEN_ROLE"}`},
	})
	equal(t, "keys after what was refused", len(s.anyone().do(t, path+"?companyId=acme", "").at("keys").([]any)), 3)
}

// rotation reads the proof at a path in an answer.
func rotation(t testing.TB, r *reply, place ...any) *keyring.Rotation {
	t.Helper()
	var signatures [2][]byte
	for i, name := range []string{"oldSignature", "newSignature"} {
		signature, err := b64.DecodeString(r.str(append(place, "rotation", name)...))
		must.OK(t, err)
		signatures[i] = signature
	}
	return &keyring.Rotation{Statement: r.str(append(place, "rotation", "statement")...), OldSignature: signatures[0], NewSignature: signatures[1]}
}

// After a rotation with "compromised" no token that was signed before is accepted anywhere, however
// often it was accepted before. That covers tokens of the old key and of earlier keys, any of which
// may be the stolen one.
func TestRotateCompromisedKey(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	svid := acme.agent(t, "bot")
	actor := acme.agent(t, "other")
	passport := acme.passport(t, "bot", "")
	delegation := acme.do(t, delegate, `{"agentId":"bot","actingOn":"acme","scope":"x"}`).status(201).str("token")
	attest := func(token string) *reply {
		return acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"t","payload":1,"delegation":"`+token+`"}`)
	}
	verify := func() *reply { return acme.do(t, "POST /v1/passport/verify", `{"passport":"`+passport+`"}`) }
	exchange := func() *reply {
		const jwt = "urn:ietf:params:oauth:token-type:jwt"
		return acme.do(t, "POST /v1/token/exchange", `{"grant_type":"urn:ietf:params:oauth:grant-type:token-exchange","subject_token":"`+svid+
			`","subject_token_type":"`+jwt+`","actor_token":"`+actor+`","actor_token_type":"`+jwt+`"}`)
	}
	acme.do(t, rotateKeys, "").status(200)
	// This status is of the second key; the others are of the first.
	actor = acme.do(t, "GET /v1/agents/other/svid", "").status(200).str("svid")
	for range 2 {
		attest(svid).status(201)
		attest(actor).status(201)
		attest(delegation).status(201)
		verify().status(200)
		exchange().status(200)
	}
	old := acme.kid(t)
	r := acme.do(t, rotateKeys, `{"compromised":true}`).status(200)
	equal(t, "when it was declared so", r.str("previousCompromisedAt"), r.str("previousEndedAt"))

	attest(svid).gets(400, `{"error":"Invalid delegation: …"}`)
	attest(actor).gets(400, `{"error":"Invalid delegation: …"}`)
	attest(delegation).gets(400, `{"error":"Invalid delegation: …"}`)
	verify().gets(400, `{"valid":false,"error":"…","code":"SIGNATURE_INVALID"}`)
	exchange().gets(400, `{"error":"Invalid subject_token: …"}`)
	acme.do(t, rotate, "", passportName+passport).gets(401, `{"error":"…","code":"SIGNATURE_INVALID"}`)
	if set := s.anyone().do(t, "GET /v1/ca/public-key?companyId=acme", "").at("keys").([]any); len(set) != 1 || acme.kid(t) == old {
		t.Errorf("the set still has the old key: %v", set)
	}
	// Statuses that it signed then remain signed.
	acme.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"<hash>"}`)
	svid = acme.do(t, "GET /v1/agents/bot/svid", "").status(200).str("svid")
	attest(svid).status(201)
}

// While keys are rotated, 32 clients append: they lose nothing and see no error, and the chain
// verifies.
func TestRotateUnderLoad(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t, func(c *server.Config) { c.Limits = limit.Limits{} })
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	const clients, each, rotations = 32, 8, 6
	delegated := func() *reply {
		svid := acme.do(t, "GET /v1/agents/bot/svid", "").status(200).str("svid")
		return acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"t","payload":1,"delegation":"`+svid+`"}`)
	}
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range each {
				acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"t","payload":1}`).status(201)
				r := delegated()
				// With the race detector, or with PostgreSQL, a commit may take longer than the old
				// key still signs.
				for (testenv.Raced || testenv.OnPostgreSQL()) && r.code == 400 {
					r = delegated()
				}
				r.status(201)
			}
		})
	}
	previous := make(chan string, rotations)
	for range rotations {
		all.Go(func() { previous <- acme.do(t, rotateKeys, "").status(200).str("previousKid") })
	}
	all.Wait()
	close(previous)
	seen := map[string]bool{}
	for kid := range previous {
		if seen[kid] {
			t.Errorf("two rotations ended %s", kid)
		}
		seen[kid] = true
	}
	acme.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"<hash>"}`)
	r := acme.do(t, "GET /v1/chain", "").status(200)
	if n := len(r.at("records").([]any)); n != 2*clients*each {
		t.Errorf("%d records", n)
	}
	equal(t, "keys", len(s.anyone().do(t, "GET /v1/ca/public-keys?companyId=acme", "").at("keys").([]any)), rotations+1)
}

func equal[V comparable](t testing.TB, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// keyOfRecords returns the key of each record of a log according to the public list of keys.
func (c caller) keyOfRecords(t testing.TB, log string) func(index int) ed25519.PublicKey {
	t.Helper()
	type ranged struct {
		KID, PEM  string
		FromIndex int
	}
	var list struct {
		Keys []ranged
		Logs []struct {
			Log  string
			Keys []ranged
		}
	}
	c.anyone().do(t, "GET /v1/ca/public-keys?companyId="+c.id, "").status(200).into(&list)
	ranges, pem := list.Keys, map[string]string{}
	for _, k := range list.Keys {
		pem[k.KID] = k.PEM
	}
	if log != "actions" {
		equal(t, "log", list.Logs[0].Log, log)
		ranges = list.Logs[0].Keys
	}
	return func(index int) (key ed25519.PublicKey) {
		for _, k := range ranges {
			if k.FromIndex <= index {
				key = readPEM(t, pem[k.KID])
			}
		}
		return key
	}
}

// The log continues over a change of keys: each leaf names the key that signed its record, and the
// checkpoint is signed with the newest key, even if nothing was appended since. Tools that have all
// vkeys of the log can open every checkpoint of it.
func TestLogAcrossRotations(t *testing.T) {
	t.Parallel()
	for log, other := range map[string]string{"actions": "control", "control": "actions"} {
		t.Run(log, func(t *testing.T) {
			t.Parallel()
			acme := start(t).company(t, "acme")
			acme.grow(t, other, 20) // so that the key begins at another index in the other log
			testLogAcrossRotations(t, acme, log)
			acme.checkLog(t, other)
		})
	}
}

func testLogAcrossRotations(t *testing.T, acme caller, name string) {
	var leaves []tlog.Hash
	var stored []byte // the last checkpoint under each key
	for i, compromised := range []bool{false, true, false} {
		digest, from := tlog.KeyDigest(acme.publicKey(t)), len(leaves)
		acme.fill(t, name, 150*(i+1))
		for _, r := range acme.checkLog(t, name)[from:] {
			leaves = append(leaves, leafOf(t, r, digest))
		}
		log := acme.logNamed(t, name)
		tree, _ := tlog.Frontier{}.Append(leaves...)
		// A proof of the last record brings a checkpoint that covers it, however recently another
		// was signed.
		acme.do(t, fmt.Sprintf("GET /v1/log/%s/proof/%d", log.LogID, len(leaves)-1), "").status(200)
		before := acme.checkpoint(t, log)
		equal(t, "root", before.Root, tree.Root())
		stored = acme.do(t, "GET /v1/log/"+log.LogID+"/checkpoint", "").status(200).raw
		acme.do(t, rotateKeys, fmt.Sprintf(`{"compromised":%v}`, compromised)).status(200)
		after := acme.logNamed(t, name)
		if after.VKeys[0] == log.VKeys[0] || slices.Contains(after.VKeys, log.VKeys[0]) == compromised {
			t.Errorf("compromised %v: vkeys %v after %v", compromised, after.VKeys, log.VKeys)
		}
		want := before
		// The rotation is itself a record, the first that the next key signs.
		if name == "control" {
			var r struct{ Record record }
			acme.do(t, fmt.Sprintf("GET /v1/proof/%d?log=control", len(leaves)), "").status(200).into(&r)
			tree, _ = tlog.Frontier{}.Append(append(slices.Clone(leaves), leafOf(t, r.Record, tlog.KeyDigest(acme.publicKey(t))))...)
			want.Size, want.Root = before.Size+1, tree.Root()
		}
		equal(t, "checkpoint under the next key", acme.checkpoint(t, after), want)
	}
	log := acme.logNamed(t, name)
	var vkeys []tlog.VKey
	for _, text := range log.VKeys {
		vkey, err := tlog.ParseVKey(text)
		must.OK(t, err)
		vkeys = append(vkeys, vkey)
	}
	if _, _, err := tlog.OpenCheckpoint(stored, vkeys...); err != nil {
		t.Errorf("a checkpoint of the key before: %v", err)
	}
	for _, i := range []int{0, 149, 150, 255, 256, 299, 300, 449} {
		proof, err := tlog.ParseProof(acme.do(t, fmt.Sprintf("GET /v1/log/%s/proof/%d", log.LogID, i), "").status(200).raw)
		must.OK(t, err)
		if _, err := proof.Check(leaves[i], vkeys...); err != nil {
			t.Errorf("proof of %d: %v", i, err)
		}
	}
	for i, path := range []string{"entries/000", "entries/001.p/194"} {
		bundle := acme.do(t, "GET /v1/log/"+log.LogID+"/tile/"+path, "").status(200).raw
		for j, leaf := range bundledLeaves(t, bundle, []int{256, 194}[i]) {
			if leaf.Hash() != leaves[256*i+j] {
				t.Fatalf("entry %d is not the record's leaf", 256*i+j)
			}
		}
	}
	acme.do(t, "GET /v1/verify?log="+name, "").status(200).gets(200, `{"valid":true,"merkleRoot":"<hash>"}`)
}

package test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"attestd/crypto/jcs"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
	api "attestd/sdk/attestd"
)

const proofCasesFile = "testdata/proof_cases.json"

var updateProofCases = flag.Bool("update-proof-cases", false, "write "+proofCasesFile)

// proofCase is a proof with the answer of GET /v1/ca/public-key or of GET /v1/ca/public-keys, and
// the exit status of each program that checks the one with the other.
type proofCase struct {
	Name   string `json:"name"`
	Proof  string `json:"proof"`
	Keys   string `json:"keys"`
	Status int    `json:"status"` // 0 genuine, 4 not, 5 its payload was pruned
}

// check.py and check.mjs come to the exit status in testdata/proof_cases.json on each proof, and so
// does the Go client. What they say of a proof agrees with it.
func TestProofsAreCheckedAlike(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	if *updateProofCases {
		must.OK(t, os.WriteFile(proofCasesFile, madeProofCases(t), 0o644))
	}
	given, err := os.ReadFile(proofCasesFile)
	must.OK(t, err)
	var cases []proofCase
	must.OK(t, json.Unmarshal(given, &cases))
	count := map[int]int{}
	for _, c := range cases {
		count[c.Status]++
		if got := goProofStatus(c.Proof, c.Keys); got != c.Status {
			t.Errorf("Go: %s: %d, want %d", c.Name, got, c.Status)
		}
	}
	if count[0] < 3 || count[4] < 40 || count[5] < 2 {
		t.Errorf("too few cases: %v", count)
	}
	dir := t.TempDir()
	for _, name := range []string{"../sdk/python/attestd/check.py", "../web/check.mjs", "testdata/proof_cases.py", "testdata/proof_cases.mjs", proofCasesFile} {
		text, err := os.ReadFile(name)
		must.OK(t, err)
		must.OK(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600))
	}
	for name, command := range map[string][]string{
		"Python":                    {pythonWithCryptography(t), "proof_cases.py"},
		"Python without assertions": {pythonWithCryptography(t), "-O", "proof_cases.py"},
		"JavaScript":                {testenv.Path(t, "node"), "proof_cases.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
			cmd.Dir, cmd.Stderr = dir, os.Stderr
			out, err := cmd.Output()
			must.OK(t, err)
			var came []struct {
				Status int
				Said   string
			}
			must.OK(t, json.Unmarshal(out, &came))
			if len(came) != len(cases) {
				t.Fatalf("%d verdicts on %d cases", len(came), len(cases))
			}
			for i, c := range cases {
				begins := map[int]string{0: "holds, key not confirmed: ", 4: "fails: ", 5: "pruned: "}[c.Status]
				if came[i].Status != c.Status || !strings.HasPrefix(came[i].Said, begins) || c.Status == 4 && strings.Contains(came[i].Said, "genuine") {
					t.Errorf("%s: %d, want %d: %.200s", c.Name, came[i].Status, c.Status, came[i].Said)
				}
			}
		})
	}
}

// goProofStatus is what a program makes of a proof with the Go client.
func goProofStatus(proofText, keysText string) int {
	// the service's texts are strict JSON, and the client trusts its decoder only that far
	for _, text := range []string{proofText, keysText} {
		if _, err := jcs.Append(nil, []byte(text), 160); err != nil {
			return 4
		}
	}
	var company struct{ CompanyID string }
	set, err := func() (set []api.CompanyKey, err error) {
		var many api.PublicKeys
		var one api.PublicKey
		if strings.Contains(keysText, `"origin"`) {
			err = exactJSON(keysText, &many)
			company.CompanyID = many.CompanyID
			return many.Keys, err
		}
		err = exactJSON(keysText, &one)
		company.CompanyID = one.CompanyID
		return []api.CompanyKey{{KID: one.KID, JWK: one.JWK, PEM: one.PEM, Fingerprint: one.Fingerprint}}, err
	}()
	if err != nil || len(set) == 0 {
		return 4
	}
	var many api.PublicKeys
	_ = json.Unmarshal([]byte(keysText), &many)
	many.Keys = set
	chainKeys, err := many.Pin(set[len(set)-1].Fingerprint)
	if err != nil {
		return 4
	}
	var proof api.Proof
	if exactJSON(proofText, &proof) != nil || len(proof.Proof) > 64 {
		return 4
	}
	if !proof.Record.Pruned && proof.Record.Payload.CompanyID != company.CompanyID {
		return 4
	}
	switch err := proof.Verify(chainKeys, ""); {
	case err == nil:
		return 0
	case errors.Is(err, api.ErrPruned):
		return 5
	}
	return 4
}

// exactJSON decodes a text whose members have the very names of the type's.
func exactJSON(text string, into any) error {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// provenBy signs with keys that are always the same.
func provenBy(seed byte, from int64) *signer {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		panic(err) // an Ed25519 key has a form
	}
	return &signer{companyID: "acme", private: private, der: der, from: from}
}

// madeProofCases makes the table. Its parts are signed with keys that are always the same.
func madeProofCases(t *testing.T) []byte {
	first, second := provenBy(1, 0), provenBy(2, 3)
	second.former = []*signer{first}
	published := func(s *signer) map[string]any {
		return object(s.published(), map[string]any{"jwk": keys.Describe(s.public()).JWK})
	}
	one := object(published(second), map[string]any{"keys": []any{published(second)["jwk"]}})
	statement := statementOf("v2", origin, 3, first.fingerprint(), second.fingerprint())
	ended := "2026-03-02T09:00:00.000Z"
	keyOf := func(s *signer, more map[string]any) map[string]any {
		return object(published(s), object(map[string]any{"companyId": nil, "spiffeId": nil, "fromIndex": s.from, "createdAt": ended}, more))
	}
	many := map[string]any{"companyId": "acme", "spiffeId": "spiffe://attestd.local/company/acme", "origin": origin, "logs": []any{},
		"keys": []any{keyOf(first, map[string]any{"endedAt": ended}), keyOf(second, map[string]any{"rotation": rotationOf(first, second, statement)})}}
	left, right := hexSHA256("left"), hexSHA256("right")
	prove := func(record string) string {
		i := strings.Index(record, `"hash":"`) + len(`"hash":"`)
		root := hexSHA256(hexSHA256(left+record[i:i+64]) + right)
		return fmt.Sprintf(`{"record":%s,"proof":[{"sibling":%q,"position":"left"},{"sibling":%q,"position":"right"}],"root":%q}`, record, left, right, root)
	}
	const payload = `{"agentId":"bot","companyId":"acme","actionType":"pay","payload":{"n":1.50,"text":"a\u00e9|"}}`
	old, proof := prove(second.record(t, "1", recordTime, payload, "")), prove(second.record(t, "5", recordTime, payload, delegation))
	foreign := prove(second.record(t, "5", recordTime, strings.Replace(payload, `"acme"`, `"zoo"`, 1), ""))
	pruned := strings.Replace(proof, payload, `null,"pruned":true`, 1)

	var cases []proofCase
	add := func(status int, name, proof string, keys any) {
		text, isText := keys.(string)
		if !isText {
			b, err := json.Marshal(keys)
			must.OK(t, err)
			text = string(b)
		}
		cases = append(cases, proofCase{name, proof, text, status})
	}
	add(0, "a proof and a key", proof, one)
	add(0, "a proof and all keys", proof, many)
	add(0, "a proof of a former key's record", old, many)
	add(4, "a proof of a former key's record, and the present key alone", old, one)
	add(5, "a pruned payload", pruned, many)
	add(5, "a pruned payload and a key", pruned, one)
	add(4, "a record of another company", foreign, one)
	add(4, "nothing", "", one)
	add(4, "no keys", proof, "")
	add(4, "a byte order mark", "\ufeff"+proof, one)
	add(4, "a byte order mark before the keys", proof, "\ufeff"+text(t, one))
	add(0, "white space", " \t\r\n"+proof+"\n", " "+text(t, one)+"\n")
	add(4, "a space that JSON does not have", "\u00a0"+proof, one)
	change := func(status int, name, from, to string) {
		if !strings.Contains(proof, from) {
			t.Fatalf("%s: the proof has no %s", name, from)
		}
		add(status, name, strings.Replace(proof, from, to, 1), one)
	}
	change(4, "another number", "1.50", "1.51")
	change(4, "a name twice", `"n":1.50`, `"n":2,"n":1.50`)
	change(4, "an index as a text", `"index":5`, `"index":"5"`)
	change(4, "an index as a fraction", `"index":5`, `"index":5.0`)
	change(4, "an index with an exponent", `"index":5`, `"index":5e0`)
	change(4, "an index with a zero before it", `"index":5`, `"index":05`)
	change(4, "another index", `"index":5`, `"index":4`)
	change(4, "a member beside the root", `"root":`, `"more":1,"root":`)
	change(4, "a member beside a step", `"position":"left"`, `"position":"left","more":1`)
	change(4, "a sibling that is a list", fmt.Sprintf("%q", left), fmt.Sprintf("[%q]", left))
	change(4, "a sibling that is an object", fmt.Sprintf("%q", left), `{"toString":"`+left+`"}`)
	change(4, "a sibling in capitals", left, strings.ToUpper(left))
	change(4, "a sibling with a line's end", left+`"`, left+`\n"`)
	change(4, "a position that is a list", `"left"`, `["left"]`)
	change(4, "another position", `"left"`, `"right"`)
	change(4, "no position", `,"position":"left"`, "")
	change(4, "a step left out", fmt.Sprintf(`,{"sibling":%q,"position":"right"}`, right), "")
	change(4, "a step twice", fmt.Sprintf(`,{"sibling":%q,"position":"right"}`, right), strings.Repeat(fmt.Sprintf(`,{"sibling":%q,"position":"right"}`, right), 2))
	change(4, "a time of another form", recordTime, "2026-03-02T09:05:04Z")
	add(4, "steps that are no list", proof[:strings.Index(proof, `"proof":`)]+`"proof":{},"root":"`+left+`"}`, one)
	add(4, "a root in capitals", proof[:strings.Index(proof, `"root":`)]+strings.ToUpper(proof[strings.Index(proof, `"root":`):]), one)
	add(4, "65 steps", strings.Replace(proof, `"proof":[`, `"proof":[`+strings.Repeat(fmt.Sprintf(`{"sibling":%q,"position":"left"},`, left), 63), 1), one)
	add(4, "pruned, with a payload", strings.Replace(proof, `"hash"`, `"pruned":true,"hash"`, 1), one)
	add(4, "not pruned, and no payload", strings.Replace(pruned, `,"pruned":true`, "", 1), one)
	add(4, "pruned is false", strings.Replace(pruned, `"pruned":true`, `"pruned":false`, 1), one)
	add(4, "pruned, with another hash", strings.Replace(pruned, `"hash":"`, `"hash":"0`, 1), one)
	for name, more := range map[string]map[string]any{
		"the fingerprint of another key": {"fingerprint": first.fingerprint()}, "the kid of another key": {"kid": first.kid()},
		"the jwk of another key": {"jwk": published(first)["jwk"]}, "the PEM of another key": {"pem": published(first)["pem"]},
		"no kid": {"kid": nil}, "no fingerprint": {"fingerprint": nil}, "no PEM": {"pem": nil}, "no company": {"companyId": nil},
		"another company": {"companyId": "zoo"}, "a PEM with text before it": {"pem": "x\n" + one["pem"].(string)},
		"a PEM with a space before it": {"pem": " " + one["pem"].(string)}, "a PEM on one line": {"pem": strings.ReplaceAll(one["pem"].(string), "\n", "")},
		"a PEM with other ends of lines": {"pem": strings.ReplaceAll(one["pem"].(string), "\n", "\r\n")}, "two keys in one PEM": {"pem": strings.Repeat(one["pem"].(string), 2)},
		"a PEM without its last line's end": {"pem": strings.TrimSpace(one["pem"].(string))}, "a PEM in a list": {"pem": []any{one["pem"]}},
	} {
		add(4, "a key with "+name, proof, object(one, more))
	}
	add(4, "a key of another kind", proof, ellipticKey(t, one))
	for name, change := range map[string]func(all map[string]any, one, other map[string]any){
		"no keys":                                  func(all, _, _ map[string]any) { all["keys"] = []any{} },
		"keys that are no list":                    func(all, one, _ map[string]any) { all["keys"] = one },
		"the second key alone":                     func(all, _, other map[string]any) { all["keys"] = []any{other} },
		"the keys in another order":                func(all, one, other map[string]any) { all["keys"] = []any{other, one} },
		"the first key alone":                      func(all, one, _ map[string]any) { all["keys"] = []any{one} },
		"another origin":                           func(all, _, _ map[string]any) { all["origin"] = "another" },
		"an origin in a list":                      func(all, _, _ map[string]any) { all["origin"] = []any{origin} },
		"an origin of null":                        func(all, _, _ map[string]any) { all["origin"] = nil },
		"a first key that begins with 1":           func(_, one, _ map[string]any) { one["fromIndex"] = 1 },
		"a first key that begins with a text":      func(_, one, _ map[string]any) { one["fromIndex"] = "0" },
		"a first key that begins with an empty":    func(_, one, _ map[string]any) { one["fromIndex"] = "" },
		"a first key that begins with a list":      func(_, one, _ map[string]any) { one["fromIndex"] = []any{0} },
		"a second key that begins with a text":     func(_, _, other map[string]any) { other["fromIndex"] = "3" },
		"a second key that begins with a list":     func(_, _, other map[string]any) { other["fromIndex"] = []any{3} },
		"a second key that begins with a fraction": func(_, _, other map[string]any) { other["fromIndex"] = json.RawMessage("3.0") },
		"a second key that begins with an exponent": func(_, _, other map[string]any) {
			other["fromIndex"] = json.RawMessage("3e0")
		},
		"a second key that begins elsewhere":  func(_, _, other map[string]any) { other["fromIndex"] = 4 },
		"a first key with a rotation":         func(_, one, other map[string]any) { one["rotation"] = other["rotation"] },
		"a second key without a rotation":     func(_, _, other map[string]any) { delete(other, "rotation") },
		"a rotation that one key has signed":  func(_, _, other map[string]any) { other["rotation"] = rotationOf(first, first, statement) },
		"a rotation that the old one has not": func(_, _, other map[string]any) { other["rotation"] = rotationOf(second, second, statement) },
		"a rotation of another record": func(_, _, o map[string]any) {
			o["rotation"] = rotationOf(first, second, strings.Replace(statement, "\n3\n", "\n4\n", 1))
		},
		"a last key that has ended":            func(_, _, other map[string]any) { other["endedAt"] = ended },
		"a first key with another fingerprint": func(_, one, _ map[string]any) { one["fingerprint"] = second.fingerprint() },
	} {
		var all map[string]any
		must.OK(t, json.Unmarshal([]byte(text(t, many)), &all))
		list := all["keys"].([]any)
		change(all, list[0].(map[string]any), list[1].(map[string]any))
		add(4, "all keys, with "+name, proof, all)
	}
	slices.SortStableFunc(cases, func(a, b proofCase) int { return strings.Compare(a.Name, b.Name) })
	out := []byte("[\n")
	for i, c := range cases {
		if i > 0 {
			out = append(out, ",\n"...)
		}
		b, err := json.Marshal(c)
		must.OK(t, err)
		out = append(append(out, ' '), b...)
	}
	return append(out, "\n]\n"...)
}

// ellipticKey is a published key that is genuine except for its kind.
func ellipticKey(t *testing.T, one map[string]any) map[string]any {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	must.OK(t, err)
	sum := sha256.Sum256(der)
	return object(one, map[string]any{"pem": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"kid": fmt.Sprintf("%x", sum[:8]), "fingerprint": "SHA256:" + base64.RawURLEncoding.EncodeToString(sum[:])})
}

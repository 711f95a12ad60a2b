package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

var payloadMember = regexp.MustCompile(`"payload":\{.*\},"hash"`)

// prunedCases are records whose payload was pruned, and their proofs. No checker takes such a
// record for genuine. Where the company has signed its hash, each says that the payload was pruned,
// and that the hash is in the chain still is proven.
func prunedCases(t *testing.T, s *signer) (all []checkerCase) {
	t.Helper()
	whole := s.record(t, "5", recordTime, `{"agentId":"bot","companyId":"acme","actionType":"pay","payload":1}`, "")
	pruned := payloadMember.ReplaceAllString(whole, `"payload":null,"pruned":true,"hash"`)
	at := strings.Index(whole, `"hash":"`) + len(`"hash":"`)
	leaf := whole[at : at+64]
	left := hexSHA256("left")
	root := hexSHA256(left + leaf)
	proof := func(record string) string {
		return fmt.Sprintf(`{"record":%s,"proof":[{"sibling":%q,"position":"left"}],"root":%q}`, record, left, root)
	}
	change := func(record, from, to string) string {
		t.Helper()
		if !strings.Contains(record, from) {
			t.Fatalf("there is no %s in %s", from, record)
		}
		return strings.Replace(record, from, to, 1)
	}
	add := func(c checkerCase) { all = append(all, c) }

	add(checkerCase{Name: "a record whose payload was pruned", Kind: "record", Text: pruned, Pruned: true})
	add(checkerCase{Name: "its proof", Kind: "proof", Text: proof(pruned), Pruned: true})
	add(checkerCase{Name: "its inclusion", Kind: "inclusion", Text: proof(pruned), Genuine: true})
	add(checkerCase{Name: "the inclusion of a whole record", Kind: "inclusion", Text: proof(whole), Genuine: true})
	delegated := change(pruned, `,"hash"`, `,"delegation":`+delegation+`,"hash"`)
	add(checkerCase{Name: "a pruned record with a delegation", Kind: "record", Text: delegated, Pruned: true})
	for name, record := range map[string]string{
		"a pruned record of another hash":         change(pruned, leaf, left),
		"a pruned record with another signature":  change(pruned, `"signature":"`+pruned[strings.Index(pruned, `"signature":"`)+13:][:4], `"signature":"AAAA`),
		"a pruned record with its payload":        change(whole, `,"hash"`, `,"pruned":true,"hash"`),
		"a pruned record without payload":         change(pruned, `"payload":null,`, ""),
		"a payload of null":                       change(pruned, `,"pruned":true`, ""),
		"a payload of null that was not pruned":   change(pruned, "true", "false"),
		"a record that says pruned in a text":     change(pruned, "true", `"true"`),
		"a whole record that was not pruned":      change(whole, `,"hash"`, `,"pruned":false,"hash"`),
		"a pruned record with one member more":    change(pruned, `"pruned"`, `"agentId":"bot","pruned"`),
		"a pruned record at an index that is one": change(pruned, `"index":5`, `"index":"5"`),
		"a pruned record at no time":              change(pruned, recordTime, "now"),
		"a pruned record with half a delegation":  change(delegated, `"tokenId":`, `"token":`),
	} {
		add(checkerCase{Name: name, Kind: "record", Text: record})
		add(checkerCase{Name: name + ", its proof", Kind: "proof", Text: proof(record)})
		add(checkerCase{Name: name + ", its inclusion", Kind: "inclusion", Text: proof(record)})
	}
	for name, changed := range map[string]string{
		"another root":    change(proof(pruned), `"root":"`+root, `"root":"`+left),
		"another sibling": change(proof(pruned), left, leaf),
		"another side":    change(proof(pruned), `"left"`, `"right"`),
		"an empty path":   change(proof(pruned), fmt.Sprintf(`{"sibling":%q,"position":"left"}`, left), ""),
	} {
		add(checkerCase{Name: name + " of a pruned record", Kind: "proof", Text: changed})
		add(checkerCase{Name: name + " of the inclusion of a pruned record", Kind: "inclusion", Text: changed})
	}
	return all
}

// Both checkers in one file say of such a proof that it is neither genuine nor forged.
func TestCheckersOfPrunedProof(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	s := newSigner(t, "acme")
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "keys.json"), []byte(text(t, s.published())), 0o600))
	for _, c := range prunedCases(t, s) {
		if c.Name != "its proof" && c.Name != "another root of a pruned record" {
			continue
		}
		want, status := "pruned: what the record said cannot be checked", 5
		if !c.Pruned {
			want, status = "fails: ", 4
		}
		must.OK(t, os.WriteFile(filepath.Join(dir, "proof.json"), []byte(c.Text), 0o600))
		for program, checker := range map[string]string{
			pythonWithCryptography(t): "../sdk/python/attestd/check.py", testenv.Path(t, "node"): "../web/check.mjs",
		} {
			cmd := exec.Command(program, checker, filepath.Join(dir, "proof.json"), filepath.Join(dir, "keys.json"))
			out, err := cmd.Output()
			if code := cmd.ProcessState.ExitCode(); code != status || !strings.HasPrefix(string(out), want) {
				t.Errorf("%s on %s: status %d, %v: %s", checker, c.Name, code, err, out)
			}
		}
	}
}

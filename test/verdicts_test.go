package test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// The ways to check without us are check.py, check.mjs, the console, and the clients in TypeScript,
// Python and Go. Each is given the same genuine and forged things, and each must come to the same
// verdict: the right one. So must the service's own check of tokens.
func TestCheckersAgree(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	t.Run("one key", func(t *testing.T) {
		t.Parallel()
		s := newSigner(t, "acme")
		agree(t, s, s.published(), keyCases)
	})
	t.Run("all keys", func(t *testing.T) {
		t.Parallel()
		s := newRotated(t)
		agree(t, s, s.publishedKeys(), ringCases)
	})
}

// agree gives a company's key, or all of them, and cases to each checker. The cases are made again
// for each, because they are of their time: a status counts for five minutes, and what a key signs
// for one minute after its end, which on a busy machine is less than all checkers take.
func agree(t *testing.T, s *signer, key any, keyCases func(*testing.T, *signer) []checkerCase) {
	dir := t.TempDir()
	put := func(name, content string) { must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)) }
	// readme has those that the checkers of the README check
	fresh := func(t *testing.T) (cases, readme []checkerCase) {
		t.Helper()
		cases = checkerCases(t, s, keyCases(t, s))
		readme = slices.DeleteFunc(slices.Clone(cases), func(c checkerCase) bool { return c.Kind == "token" })
		put("cases.json", text(t, map[string]any{"key": key, "cases": cases}))
		put("readme.json", text(t, map[string]any{"key": key, "cases": readme}))
		return cases, readme
	}
	t.Run("Go", func(t *testing.T) {
		cases, _ := fresh(t)
		service, client := goVerdicts(s, cases)
		isRight(t, cases, service)
		isRight(t, cases, client)
	})
	console, err := filepath.Abs("../web/console")
	must.OK(t, err)
	for _, name := range []string{"../sdk/python/attestd/check.py", "../web/check.mjs", "testdata/verdicts.py", "testdata/verdicts.mjs", "testdata/verdicts_console.mjs"} {
		script, err := os.ReadFile(name)
		must.OK(t, err)
		put(filepath.Base(name), string(script))
	}
	for _, script := range []string{"verdicts.mjs", "verdicts.py"} {
		t.Run("client, "+script, func(t *testing.T) {
			cases, _ := fresh(t)
			var refused []string
			printed(t, clientScript(t, script, filepath.Join(dir, "cases.json")), &refused)
			isRight(t, cases, refused)
		})
	}
	for _, checker := range []struct {
		name   string
		tokens bool // it checks them too
		args   []string
	}{
		{"Python", false, []string{pythonWithCryptography(t), "verdicts.py"}},
		{"Python without assertions", false, []string{pythonWithCryptography(t), "-O", "verdicts.py"}},
		{"JavaScript", false, []string{testenv.Path(t, "node"), "verdicts.mjs"}},
		{"console", true, []string{testenv.Path(t, "node"), "verdicts_console.mjs", console}},
	} {
		t.Run(checker.name, func(t *testing.T) {
			all, cases := fresh(t)
			if checker.tokens {
				cases = all
			}
			cmd := exec.CommandContext(t.Context(), checker.args[0], checker.args[1:]...)
			cmd.Dir = dir
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			must.OK(t, err)
			var refused []string // why, or "" for what was accepted
			must.OK(t, json.Unmarshal(out, &refused))
			isRight(t, cases, refused)
		})
	}
}

// isRight holds verdicts, each why a case was refused or "", against what is right.
func isRight(t *testing.T, cases []checkerCase, refused []string) {
	t.Helper()
	if len(refused) != len(cases) {
		t.Fatalf("%d verdicts on %d cases", len(refused), len(cases))
	}
	for i, c := range cases {
		if c.Genuine && refused[i] != "" {
			t.Errorf("%s, which is genuine, is refused: %s\n%.400s", c.Name, refused[i], c.Text)
		} else if !c.Genuine && refused[i] == "" {
			t.Errorf("%s is accepted:\n%.600s", c.Name, c.Text)
		} else if strings.Contains(refused[i], "payload was pruned") != c.Pruned && refused[i] != "not asked" {
			t.Errorf("%s: %s\n%.600s", c.Name, refused[i], c.Text)
		}
	}
}

// checkerCase is a thing to be checked, as a text.
type checkerCase struct {
	Name string `json:"name"`
	// key, record, proof, inclusion: of the hash of a proof's record alone, status, passport, or
	// token: an SVID or a delegation
	Kind    string `json:"kind"`
	Text    string `json:"text"`
	JTI     string `json:"jti"` // of the passport that a status must be about
	Genuine bool   `json:"-"`
	// everything else holds of a record whose payload was pruned, which a refusal must say
	Pruned bool `json:"-"`
}

func checkerCases(t *testing.T, s *signer, keys []checkerCase) (all []checkerCase) {
	t.Helper()
	for _, group := range [][]checkerCase{keys, recordCases(t, s), proofCases(t, s), prunedCases(t, s), statusCases(t, s), passportCases(t, s), lifetimeCases(t, s)} {
		genuine := 0
		for _, c := range group {
			if c.Genuine {
				genuine++
			}
		}
		if genuine == 0 || genuine == len(group) {
			t.Fatalf("%d of %d cases of one kind are genuine", genuine, len(group))
		}
		all = append(all, group...)
	}
	return all
}

// keyCases are published keys. What names the key must be of the key that is used, or the wrong one
// is compared.
func keyCases(t *testing.T, s *signer) (all []checkerCase) {
	own, other := s.published(), newSigner(t, "acme").published()
	all = append(all, checkerCase{Name: "a key", Kind: "key", Text: text(t, own), Genuine: true})
	for _, member := range []string{"pem", "fingerprint", "kid"} {
		all = append(all, checkerCase{Name: "a key with the " + member + " of another", Kind: "key", Text: text(t, object(own, map[string]any{member: other[member]}))})
	}
	return all
}

func proofCases(t *testing.T, s *signer) (all []checkerCase) {
	record := s.record(t, "5", recordTime, `{"agentId":"bot","companyId":"acme","actionType":"pay","payload":1}`, delegation)
	left, right := hexSHA256("left"), hexSHA256("right")
	i := strings.Index(record, `"hash":"`) + len(`"hash":"`)
	leaf := record[i : i+64]
	root := hexSHA256(hexSHA256(left+leaf) + right)
	proof := fmt.Sprintf(`{"record":%s,"proof":[{"sibling":%q,"position":"left"},{"sibling":%q,"position":"right"}],"root":%q}`, record, left, right, root)
	add := func(genuine bool, name, text string) {
		all = append(all, checkerCase{Name: name, Kind: "proof", Text: text, Genuine: genuine})
	}
	change := func(name, from, to string) {
		if strings.Count(proof, from) == 0 {
			t.Fatalf("%s: the proof has no %s", name, from)
		}
		add(false, name, strings.Replace(proof, from, to, 1))
	}
	add(true, "a proof", proof)
	add(true, "the proof of an only record", fmt.Sprintf(`{"record":%s,"proof":[],"root":%q}`, record, leaf))
	change("a root that is an object", `"root":"`+root+`"`, `"root":{"__b":1,"type":"div","props":{}}`)
	change("another root", root, left)
	change("a sibling in capitals", left, strings.ToUpper(left))
	change("a sibling cut in two steps", `"sibling":"`+left+`"`, `"sibling":"`+left[:32]+`"`)
	change("a position that is no side", `"position":"right"`, `"position":"above"`)
	change("no position", `,"position":"right"`, ``)
	change("a position twice", `"position":"right"`, `"position":"left","position":"right"`)
	change("a step with one member more", `"position":"right"`, `"position":"right","index":1`)
	change("a proof that is an object", `"proof":[`, `"proof":{"length":0,"x":[`)
	change("sides exchanged", `"position":"left"`, `"position":"right"`)
	change("a record whose content was changed", `"pay"`, `"play"`)
	change("a member beside", `"root"`, `"valid":true,"root"`)
	add(false, "a node for a record", fmt.Sprintf(`{"record":%s,"proof":[{"sibling":%q,"position":"right"}],"root":%q}`,
		strings.Replace(record, leaf, hexSHA256(left+leaf), 1), right, root))
	long := strings.Repeat(fmt.Sprintf(`{"sibling":%q,"position":"left"},`, left), 65)
	node := leaf
	for range 65 {
		node = hexSHA256(left + node)
	}
	add(false, "a proof of 65 steps", fmt.Sprintf(`{"record":%s,"proof":[%s],"root":%q}`, record, strings.TrimSuffix(long, ","), node))
	return all
}

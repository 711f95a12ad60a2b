package test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"attestd/chain/filekind"
	"attestd/chain/filekind/kindtest"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// genuine are files of each kind, as a server and the command make them, and a fingerprint with
// which each that has a verdict holds.
func genuine(t *testing.T) (files map[filekind.Kind]string, keys map[filekind.Kind]string) {
	t.Helper()
	db, s, c := older(t)
	key := publishedKey(t, c)
	samples, err := kindtest.Samples()
	must.OK(t, err)
	dir := t.TempDir()
	files, keys = make(map[filekind.Kind]string), make(map[filekind.Kind]string)
	save := func(kind filekind.Kind, text string) {
		files[kind] = filepath.Join(dir, string(kind))
		must.OK(t, os.WriteFile(files[kind], []byte(text), 0o600))
	}
	for kind, text := range samples {
		save(kind, text)
		keys[kind] = key
	}
	keys[filekind.Session] = sampleKey
	get := func(path string, dest any) string { return string(c.call(t, 200, "GET", path, "", dest)) }
	save(filekind.Keys, get("/v1/ca/public-keys?companyId=acme", nil))
	var service struct{ Logs []struct{ LogID string } }
	get("/v1/logs", &service)
	log := "/v1/log/" + service.Logs[0].LogID
	for kind, path := range map[filekind.Kind]string{
		filekind.Evidence: "/v1/evidence/3", filekind.Report: "/v1/report", filekind.Proof: "/v1/proof/7",
		filekind.Checkpoint: log + "/checkpoint", filekind.Consistency: log + "/consistency?from=5", filekind.TlogProof: log + "/proof/7",
	} {
		save(kind, get(path, nil))
	}
	var chain struct{ Records []json.RawMessage }
	get("/v1/chain?from=3&limit=1", &chain)
	save(filekind.Record, string(chain.Records[0]))
	c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"kinds"}`, nil)
	var issued struct{ Passport string }
	save(filekind.Passport, string(c.call(t, 201, "POST", "/v1/agents/kinds/passport", "", &issued)))
	save(filekind.Token, issued.Passport)
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(issued.Passport, ".")[1])
	must.OK(t, err)
	var answer struct{ JTI string }
	must.OK(t, json.Unmarshal(claims, &answer))
	save(filekind.Status, get("/v1/ocsp/"+answer.JTI, nil))

	must.OK(t, os.Remove(files[filekind.Archive]))
	must.OK(t, os.Remove(files[filekind.Lines]))
	exits(t, 0, "SHA-256", "archive", "--company", "acme", "--before", "1d", "--out", files[filekind.Archive], "--db", db)
	path, err := binary(t)
	must.OK(t, err)
	export := exec.CommandContext(t.Context(), path, "export", "--to", "file", "--file", files[filekind.Lines], "--url", s.URL)
	export.Env = append(os.Environ(), "ATTESTD_KEY="+c.key)
	out, err := export.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return files, keys
}

// checkerOf runs a checker on files and returns its exit status and what it prints.
type checkerOf func(t *testing.T, args ...string) ran

// scripted runs one of the scripts that need no attestd.
func scripted(program, script string) checkerOf {
	return func(t *testing.T, args ...string) (r ran) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append([]string{script}, args...)...)
		cmd.Env = atHome(t.TempDir())
		var out, log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &log
		err := cmd.Run()
		if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
			r.status, err = exited.ExitCode(), nil
		}
		must.OK(t, err)
		r.stdout, r.stderr, r.all = out.String(), log.String(), out.String()+log.String()
		return r
	}
}

// Each program reads what the table of docs/auditors.md says that it reads, and such a file holds.
// To a genuine file of every other kind it says what it is and who checks it, with the status of no
// verdict.
func TestEachCheckerReadsWhatTheTableSays(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	table, err := kindtest.Table()
	must.OK(t, err)
	files, keys := genuine(t)
	of := func(args ...string) checkerOf {
		return func(t *testing.T, more ...string) ran {
			return command(t, append(args[:len(args):len(args)], more...)...)
		}
	}
	for name, checker := range map[string]struct {
		column string
		run    checkerOf
	}{
		"attestd check":  {kindtest.Check, of("check")},
		"attestd report": {kindtest.Report, of("report")},
		"check.py":       {kindtest.Scripts, scripted(pythonWithCryptography(t), "../sdk/python/attestd/check.py")},
		"check.mjs":      {kindtest.Scripts, scripted(testenv.Path(t, "node"), "../web/check.mjs")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuses := func(kind filekind.Kind, args ...string) {
				t.Helper()
				want := fmt.Sprintf("%s is %s\n", files[kind], kind.Is())
				if r := checker.run(t, args...); r.status != 2 || r.stdout != "" || !strings.Contains(r.stderr, want) {
					t.Errorf("%s %s: exit status %d, %q and %q; want 2 and %q", name, strings.Join(args, " "), r.status, r.stdout, r.stderr, want)
				}
			}
			holds := func(message string, args ...string) {
				t.Helper()
				if r := checker.run(t, args...); r.status != 0 || !strings.Contains(r.stdout, message) || r.stderr != "" {
					t.Errorf("%s %s: exit status %d, %q and %q; want 0 and %q", name, strings.Join(args, " "), r.status, r.stdout, r.stderr, message)
				}
			}
			for kind, cells := range table {
				file, key := files[kind], keys[kind]
				switch cell := cells[checker.column]; cell {
				case "yes":
					holds("holds", file, "--key", key)
				case kindtest.No, "functions", "after a proof", "`--newer`":
					refuses(kind, file)
					refuses(kind, file, "--key", key)
				case "`--lines`":
					refuses(kind, file, "--key", key)
					holds("holds", "--lines", file, "--key", key)
				case "with the keys":
					refuses(kind, file)
					refuses(kind, file, "--key", key)
					holds("holds, key not confirmed: compare", file, files[filekind.Keys])
				default:
					t.Errorf("the table says %q of %s", cell, kind)
				}
				switch {
				case checker.column == kindtest.Scripts && kind != filekind.Proof:
					refuses(kind, file, files[filekind.Keys])
				case name == "attestd check" && kind != filekind.Lines:
					refuses(kind, "--lines", file, "--key", key)
				}
			}
			if checker.column == kindtest.Scripts {
				refuses(filekind.Evidence, files[filekind.Proof], files[filekind.Evidence])
			}
		})
	}
}

// All checkers say the same of what a file is, and of who checks it: of each in the table that they
// share, of each cut off anywhere, and at the bytes that count.
func TestCheckersKnowTheSameKinds(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	cases, err := kindtest.Cases()
	must.OK(t, err)
	samples, err := kindtest.Samples()
	must.OK(t, err)
	var files [][]byte
	for _, c := range cases {
		files = append(files, []byte(c.File))
	}
	random := rand.New(rand.NewPCG(1, 19))
	for _, kind := range filekind.All() {
		text := samples[kind]
		files = append(files, []byte(text))
		for range 20 {
			cut := random.IntN(len(text) + 1)
			files = append(files, []byte(text[:cut]), []byte(text[:cut]+"\n"), []byte(text[:cut]+text[min(len(text), cut+1):]), []byte(text[:cut]+"\n"+text[cut:]))
		}
	}
	for _, size := range []int{8<<20 - 1, 8 << 20} {
		files = append(files, []byte(`{"record":0,"proof":[],"root":"`+strings.Repeat("a", size-33)+`"}`),
			[]byte(`{"format":"attestd-report/v1"}`+strings.Repeat(" ", size-31)+"\n"))
	}
	want, count, given := make([]string, len(files)), make(map[filekind.Kind]int), make([]string, len(files))
	for i, file := range files {
		kind := filekind.Of(bufio.NewReaderSize(bytes.NewReader(file), 8<<20))
		if count[kind]++; kind != filekind.Unknown {
			want[i] = string(kind) + ": " + kind.Is()
		}
		given[i] = base64.StdEncoding.EncodeToString(file)
	}
	t.Logf("%d files: %v", len(files), count)
	text, err := json.Marshal(given)
	must.OK(t, err)
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "kinds.json"), text, 0o600))
	for _, name := range []string{"../sdk/python/attestd/check.py", "../web/check.mjs", "testdata/file_kinds.py", "testdata/file_kinds.mjs"} {
		text, err := os.ReadFile(name)
		must.OK(t, err)
		must.OK(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600))
	}
	library, err := filepath.Abs("../web/console/lib")
	must.OK(t, err)
	for name, texts := range map[string][]string{
		"check.py":    script(t, dir, pythonWithCryptography(t), "file_kinds.py"),
		"check.mjs":   script(t, dir, testenv.Path(t, "node"), "file_kinds.mjs"),
		"the console": script(t, dir, testenv.Path(t, "node"), "file_kinds.mjs", library),
	} {
		if len(texts) != len(want) {
			t.Fatalf("%s: %d words on %d files", name, len(texts), len(want))
		}
		for i := range want {
			if texts[i] != want[i] {
				t.Errorf("%s: %.200q is %q, want %q", name, files[i], texts[i], want[i])
			}
		}
	}
}

package test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// typed runs what a page shows in bash, in a folder, with an empty home and these variables alone.
func typed(t *testing.T, dir, script string, environment ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Path(t, "bash"), "-c", script)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, script, out)
	}
	return string(out)
}

// An auditor who has one file and nothing else types the first six lines of docs/auditors.md in an
// empty folder: the checker comes from a server that did not make the file, and the verdict is the
// first line. Only the second and the fourth line, the address and the fingerprint, are their own.
func TestAuditorsPageTypedWithOneFile(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced, testenv.Node)
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(blocksOf(t, "../docs/auditors.md", "sh")[0]), "\n")
	if len(lines) != 6 {
		t.Fatalf("%d lines are to be typed, want 6", len(lines))
	}
	s := serve(t, filepath.Join(t.TempDir(), "other.db")) // of another operator
	replace := func(i int, name, value string) {
		if !strings.HasPrefix(lines[i], name+"=") {
			t.Fatalf("line %d is %q, want %s", i+1, lines[i], name)
		}
		lines[i] = name + "=" + value
	}
	replace(1, "CHECKER", s.URL)
	for _, test := range []struct{ file, key, first, last string }{
		{evidenceSample(t, "whole.json"), sampleKey, "holds\n", "exit status 0\n"},
		{evidenceSample(t, "whole.json"), "SHA256:" + strings.Repeat("A", 43), "fails: KEY: ", "exit status 4\n"},
		{strings.Replace(evidenceSample(t, "whole.json"), "Grüße", "Gruesse", 1), sampleKey, "fails: RECORD: ", "exit status 4\n"},
	} {
		dir := t.TempDir()
		must.OK(t, os.WriteFile(filepath.Join(dir, "evidence.json"), []byte(test.file), 0o600))
		replace(3, "FINGERPRINT", test.key)
		out := typed(t, dir, strings.Join(lines, "\n"))
		if !strings.HasPrefix(out, test.first) || !strings.HasSuffix(out, test.last) {
			t.Errorf("it says %q, want %q first and %q last", out, test.first, test.last)
		}
	}
	// as the page says of a reader who has no fingerprint
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "evidence.json"), []byte(evidenceSample(t, "whole.json")), 0o600))
	out := typed(t, dir, strings.Replace(strings.Join(lines, "\n"), ` --key "$FINGERPRINT"`, "", 1))
	if !strings.HasPrefix(out, "holds, key not confirmed: ") || !strings.Contains(out, "\nsigned by: the key SHA256:") || !strings.HasSuffix(out, "exit status 5\n") {
		t.Errorf("without a fingerprint it says %q", out)
	}
}

// An auditor with a reader's key types what the pages for auditors show, one after the other.
func TestAuditorsPagesTyped(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced, testenv.Node)
	t.Parallel()
	python := pythonWithCryptography(t)
	_, s, c := older(t)
	attestd, err := binary(t)
	must.OK(t, err)
	bin := t.TempDir()
	must.OK(t, os.Symlink(attestd, filepath.Join(bin, "attestd")))
	blocks := blocksOf(t, "../docs/auditors.md", "sh")[1:]
	for _, page := range []string{"evidence", "sessions-and-reports", "archives-and-lines"} {
		blocks = append(blocks, blocksOf(t, "../docs/auditors/"+page+".md", "sh")...)
	}
	if len(blocks) != 5 {
		t.Fatalf("the pages show %d things to type, want 5", len(blocks))
	}
	script := "set -e\n" + strings.ReplaceAll(strings.Join(blocks, ""), "python3 ", python+" ")
	out := typed(t, t.TempDir(), script, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "ATTESTD_URL="+s.URL, "ATTESTD_KEY="+c.key,
		"CHECKER="+s.URL, "FINGERPRINT="+publishedKey(t, c))
	// evidence by three checkers, a report, and exported lines; and a proof by two
	holds := len(regexp.MustCompile(`(?m)^holds$`).FindAllString(out, -1))
	proofs := len(regexp.MustCompile(`(?m)^holds, key not confirmed: compare a fingerprint below `).FindAllString(out, -1))
	if holds != 5 || proofs != 2 || strings.Contains(out, "fails") {
		t.Errorf("%d files hold, want 5, and %d proofs, want 2:\n%s", holds, proofs, out)
	}
}

// The page that `attestd verifier` prints is the one that servers offer.
func TestPrintedVerifierIsTheServedOne(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	s := serve(t, filepath.Join(t.TempDir(), "attestd.db"))
	printed, err := attestd(t, "verifier")
	must.OK(t, err)
	answer, err := http.Get(s.URL + "/verifier.html")
	must.OK(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must.OK(t, err)
	if served := string(body); printed != served || !strings.HasPrefix(served, "<!doctype html>") {
		t.Errorf("attestd verifier prints %d bytes, and the server offers %d", len(printed), len(served))
	}
}

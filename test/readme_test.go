package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// The terminal session of the README, as it stands there, on the history of this very project, and
// then both of the checkers that it names.
func TestReadme(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	history := gitDir(t)
	w := walk(t, history)

	commits := gitLog(t, history)
	t.Run("answers", func(t *testing.T) { w.checkAnswers(t, len(commits)) })
	t.Run("records are the history", func(t *testing.T) { w.checkRecords(t, commits) })
	t.Run("for auditors", w.typeVerification)
	w.takeStatus(t)
	t.Run("git adds nothing of it", w.checkIgnored)
	t.Run("Python", func(t *testing.T) {
		w.checkOffline(t, pythonWithCryptography(t), "check.py", "readme.py")
	})
	t.Run("JavaScript", func(t *testing.T) {
		w.checkOffline(t, testenv.Path(t, "node"), "check.mjs", "readme.mjs")
	})
}

// checkIgnored checks that what a server has beside its database, some of it secret, is nothing
// that git would add to a clone in which the session was typed.
func (w *walkthrough) checkIgnored(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(w.dir, "attestd.db*"))
	must(t, err)
	rules, err := os.ReadFile("../.gitignore")
	must(t, err)
	clone := t.TempDir()
	must(t, os.WriteFile(filepath.Join(clone, ".gitignore"), rules, 0o600))
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), testenv.Path(t, "git"), append([]string{"-C", clone}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := git("init", "-q"); err != nil {
		t.Fatal(out, err)
	}
	names = append(names, "attestd.db.sock", "attestd.db.verified", "attestd.db.verified.key", "attestd.db.verified.key.new",
		"attestd.db.acme/acme_account+key", "attestd.db.tmp-1234", "chain.json", "proof.json", "key.json", "evidence.json", "check.py", "check.mjs")
	for _, name := range names {
		if out, err := git("check-ignore", filepath.ToSlash(strings.TrimPrefix(name, w.dir+string(filepath.Separator)))); err != nil {
			t.Errorf("git would add %s: %s", name, out)
		}
	}
}

// walkthrough is what the session left.
type walkthrough struct {
	dir      string // holds chain.json, proof.json, key.json
	answers  []string
	checks   string // the README's lines that take the checkers and run them
	typed    string // what those need of the session
	passport string
	client   *client
}

// walk types the README's session into bash. Only the start command and the address are other ones.
func walk(t *testing.T, history string) *walkthrough {
	t.Helper()
	blocks := readmeBlocks(t, "sh")
	const address = "http://127.0.0.1:8080"
	if len(blocks) != 3 || blocks[0] != "go run . serve\n" || strings.Count(blocks[1], address) != 1 {
		t.Fatalf("the README's session has changed: a start and then the rest, with one address: %q", blocks)
	}
	w := &walkthrough{dir: t.TempDir()}
	s := serve(t, filepath.Join(w.dir, "attestd.db"))
	session := strings.Replace(blocks[1], address, s.URL, 1)
	// for the checks below
	const keep = "\nprintf %s \"$KEY\" > KEY; printf %s \"$PASSPORT\" > PASSPORT\n"

	testenv.Path(t, "curl")
	cmd := exec.CommandContext(t.Context(), testenv.Path(t, "bash"), "-c", session+keep)
	cmd.Dir = w.dir
	// as if typed in the project's folder, but without leaving files there
	cmd.Env = append(os.Environ(), "GIT_DIR="+history)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || said.Len() > 0 {
		t.Fatalf("the session: %v\n%s\n%s", err, out, said.String())
	}
	w.answers = strings.Split(strings.TrimSpace(string(out)), "\n")
	w.checks, w.typed = blocks[2], "BASE="+s.URL+"\n"+regexp.MustCompile(`(?m)^field\(\).*\n`).FindString(session)
	w.passport = w.read(t, "PASSPORT")
	w.client = s.client(t, w.read(t, "KEY"))
	return w
}

// checkAnswers checks every line that the session prints.
func (w *walkthrough) checkAnswers(t *testing.T, commits int) {
	want := []string{
		`^{"agentId":"git-bot","spiffeId":"spiffe://attestd\.local/company/acme/agent/git-bot","svid":"[^"]+","registeredAt":"[^"]+"}$`,
		`^{"valid":true,"claims":{.*},"scopeGranted":"tool:git","receipt":{.*"tool":"git".*}}$`,
	}
	for range commits {
		want = append(want, `^record 201$`)
	}
	want = append(want, `^{"valid":true,"merkleRoot":"[0-9a-f]{64}"}$`)
	if len(w.answers) != len(want) {
		t.Fatalf("%d answers, want %d:\n%s", len(w.answers), len(want), strings.Join(w.answers, "\n"))
	}
	for i, answer := range w.answers {
		if !regexp.MustCompile(want[i]).MatchString(answer) {
			t.Errorf("answer %d is %s, want %s", i, answer, want[i])
		}
	}

	var verified struct{ MerkleRoot string }
	must(t, json.Unmarshal([]byte(w.answers[len(w.answers)-1]), &verified))
	var proof struct{ Root string }
	must(t, json.Unmarshal([]byte(w.read(t, "proof.json")), &proof))
	if proof.Root != verified.MerkleRoot || proof.Root == "" {
		t.Errorf("proof.json has the root %q, the chain %q", proof.Root, verified.MerkleRoot)
	}
}

// checkRecords compares the chain that was read back with git's output.
func (w *walkthrough) checkRecords(t *testing.T, commits []commit) {
	var chain struct {
		Records []struct {
			Payload struct {
				AgentID, CompanyID, ActionType string
				Payload                        commit
			}
			Delegation struct {
				Subject         string
				DelegationChain []string
			}
		}
	}
	must(t, json.Unmarshal([]byte(w.read(t, "chain.json")), &chain))
	if len(chain.Records) != len(commits) {
		t.Fatalf("%d records of %d commits", len(chain.Records), len(commits))
	}
	const acme, bot = "spiffe://attestd.local/company/acme", "spiffe://attestd.local/company/acme/agent/git-bot"
	for i, r := range chain.Records {
		if r.Payload.Payload != commits[i] {
			t.Errorf("record %d is of %+v, git says %+v", i, r.Payload.Payload, commits[i])
		}
		if r.Payload.AgentID != "git-bot" || r.Payload.CompanyID != "acme" || r.Payload.ActionType != "git.commit" {
			t.Errorf("record %d is of %+v", i, r.Payload)
		}
		if d := r.Delegation; d.Subject != acme || len(d.DelegationChain) != 2 || d.DelegationChain[0] != acme || d.DelegationChain[1] != bot {
			t.Errorf("record %d is delegated by %+v", i, d)
		}
	}
}

// takeStatus adds what the session does not take home: the passport, and two signed statuses of it.
func (w *walkthrough) takeStatus(t *testing.T) {
	var verified struct{ Claims struct{ JTI string } }
	w.client.call(t, 200, "POST", "/v1/passport/verify", `{"passport":"`+w.passport+`"}`, &verified)
	jti := verified.Claims.JTI
	w.write(t, "valid.json", w.client.call(t, 200, "GET", "/v1/ocsp/"+jti, "", nil))
	w.client.call(t, 200, "POST", "/v1/passports/"+jti+"/revoke", `{"reason":"walked through"}`, nil)
	w.write(t, "revoked.json", w.client.call(t, 200, "GET", "/v1/ocsp/"+jti, "", nil))

	w.client.call(t, 201, "POST", "/v1/companies", `{"companyId":"other"}`, nil)
	w.write(t, "other.json", w.client.call(t, 200, "GET", "/v1/ca/public-key?companyId=other", "", nil))
}

// checkOffline types the README's line for a checker, lets it check the proof alone, and then calls
// each of its functions, through a script of testdata, on what is genuine and on what was changed.
func (w *walkthrough) checkOffline(t *testing.T, interpreter, name, caller string) {
	line := regexp.MustCompile(`(?m)^curl -s \$BASE/` + regexp.QuoteMeta(name) + ` .*&& (python3|node) .*$`).FindStringSubmatch(w.checks)
	if line == nil {
		t.Fatalf("the README has no line with %s: %q", name, w.checks)
	}
	out := w.run(t, testenv.Path(t, "bash"), "-c", w.typed+strings.Replace(line[0], "&& "+line[1], "&& "+interpreter, 1))
	if !strings.Contains(out, "record 0 of actions") || !strings.Contains(out, "not proven: ") || !strings.HasSuffix(out, "\nholds\n") {
		t.Errorf("of the evidence it says %q", out)
	}
	out = w.run(t, interpreter, name, "proof.json", "key.json")
	if !regexp.MustCompile(`^record 0 is genuine and in the chain with root [0-9a-f]{64}\nif this is the company's key, or one of them is: SHA256:[A-Za-z0-9_-]{43}\n$`).MatchString(out) {
		t.Errorf("it says %q", out)
	}

	script, err := os.ReadFile(filepath.Join("testdata", caller))
	must(t, err)
	w.write(t, caller, script)
	out = w.run(t, interpreter, caller)
	var checked struct{ Genuine, Refused int }
	must(t, json.Unmarshal([]byte(out), &checked))
	records := len(w.answers) - 3
	if checked.Genuine != records+4 || checked.Refused < 15 {
		t.Errorf("%d genuine things were accepted and %d changed ones refused, of %d records", checked.Genuine, checked.Refused, records)
	}
}

func (w *walkthrough) run(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = w.dir
	out, err := cmd.Output()
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
		t.Fatalf("%s %v: %v\n%s", program, args, err, exited.Stderr)
	}
	must(t, err)
	return string(out)
}

func (w *walkthrough) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	must(t, err)
	return string(b)
}

func (w *walkthrough) write(t *testing.T, name string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(w.dir, name), content, 0o600))
}

// typeVerification types what docs/verify.md shows, beside what the session left.
func (w *walkthrough) typeVerification(t *testing.T) {
	testenv.Needs(t, testenv.Node)
	python := pythonWithCryptography(t)
	attestd, err := binary(t)
	must(t, err)
	bin := t.TempDir()
	must(t, os.Symlink(attestd, filepath.Join(bin, "attestd")))
	script := "set -e\n" + w.typed + `AUTH="Authorization: Bearer $(cat KEY)"` + "\n" + w.checks
	blocks := blocksOf(t, "../docs/verify.md", "sh")
	if len(blocks) < 4 {
		t.Fatalf("docs/verify.md shows %d things to type", len(blocks))
	}
	script += strings.Join(blocks, "")
	cmd := exec.CommandContext(t.Context(), testenv.Path(t, "bash"), "-c", strings.ReplaceAll(script, "python3 ", python+" "))
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || said.Len() > 0 {
		t.Fatalf("docs/verify.md: %v\n%s\n%s", err, out, said.String())
	}
	// evidence by the README's two checkers and by three here, a report, exported lines, and two
	// proofs
	holds := len(regexp.MustCompile(`(?m)^holds$`).FindAll(out, -1))
	genuine := len(regexp.MustCompile(`(?m)^record 0 is genuine and in the chain with root [0-9a-f]{64}\nif this is the company's key, or one of them is: SHA256:[A-Za-z0-9_-]{43}$`).FindAll(out, -1))
	if holds != 7 || genuine != 2 {
		t.Errorf("%d files hold, want 7, and %d proofs, want 2:\n%s", holds, genuine, out)
	}
}

// commit is a commit according to the session.
type commit struct {
	Commit, Authored, Subject string
	Files                     int
}

// gitDir is the history of this project.
func gitDir(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Path(t, "git"), "rev-parse", "--absolute-git-dir")
	out, err := cmd.Output()
	if err != nil {
		testenv.Missing(t, "this copy of the project has no git history")
	}
	dir := strings.TrimSpace(string(out))
	if err := exec.CommandContext(t.Context(), "git", "--git-dir", dir, "rev-parse", "--verify", "--quiet", "HEAD").Run(); err != nil {
		testenv.Missing(t, "the git history of this copy of the project is empty")
	}
	return dir
}

// gitLog is the same as the session takes, got in another way: the latest 60 commits, the oldest
// first.
func gitLog(t *testing.T, history string) (commits []commit) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--git-dir", history,
		"log", "-60", "--cc", "--name-only", "--format=%x01%H%x00%aI%x00%f%x00", "HEAD").Output()
	must(t, err)
	for _, text := range strings.Split(string(out), "\x01")[1:] {
		parts := strings.Split(text, "\x00")
		c := commit{Commit: parts[0], Authored: parts[1], Subject: parts[2], Files: len(strings.Fields(parts[3]))}
		commits = append([]commit{c}, commits...)
	}
	return commits
}

// readmeBlocks are the code blocks of the README in a language.
func readmeBlocks(t *testing.T, language string) []string {
	t.Helper()
	return blocksOf(t, "../README.md", language)
}

// blocksOf are the code blocks of a page in a language.
func blocksOf(t *testing.T, page, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// pythonWithCryptography finds a Python that has Ed25519, which its standard library has not.
func pythonWithCryptography(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import cryptography").Run() == nil {
			return python
		}
	}
	testenv.Missing(t, "there is no python3 with the package cryptography")
	return ""
}

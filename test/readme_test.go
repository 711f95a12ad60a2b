package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// The whole README is typed twice, on the history of this very project, and then what it says of a
// lost key, of the end and of a new beginning. In between, the checkers that it names check what it
// left.
func TestReadme(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced, testenv.Node)
	storetest.AboutFile(t)
	t.Parallel()
	history := gitDir(t)
	w := walk(t, history)

	commits := gitLog(t, history)
	t.Run("records are the history", func(t *testing.T) { w.checkRecords(t, commits) })
	t.Run("the first hour", w.typeStart)
	w.takeHome(t)
	t.Run("git adds nothing of it", w.checkIgnored)
	t.Run("Python", func(t *testing.T) {
		w.checkOffline(t, w.python, "check.py", "readme.py")
	})
	t.Run("JavaScript", func(t *testing.T) {
		w.checkOffline(t, testenv.Path(t, "node"), "check.mjs", "readme.mjs")
	})
	w.finish(t)
}

// The packages say of the licence what the README says.
func TestLicenceIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	const licence = "The owner has not chosen a licence yet; until then all rights are reserved.\n"
	for _, name := range []string{"README.md", "packaging/deb/copyright", "sdk/python/README.md", "sdk/typescript/README.md"} {
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
		must.OK(t, err)
		if strings.Count(string(text), licence) != 1 {
			t.Errorf("%s does not say once: %s", name, licence)
		}
	}
}

// checkIgnored checks that git ignores the files next to a server's database, some of them secret,
// in a clone in which the session was typed.
func (w *walkthrough) checkIgnored(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(w.dir, "attestd.db*"))
	must.OK(t, err)
	rules, err := os.ReadFile("../.gitignore")
	must.OK(t, err)
	clone := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(clone, ".gitignore"), rules, 0o600))
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
		"attestd.db.acme/acme_account+key", "attestd.db.tmp-1234", "acme.key", "attestd", "key.json", "evidence.json", "check.py", "check.mjs")
	for _, name := range names {
		if out, err := git("check-ignore", filepath.ToSlash(strings.TrimPrefix(name, w.dir+string(filepath.Separator)))); err != nil {
			t.Errorf("git would add %s: %s", name, out)
		}
	}
}

// walkthrough is what the README's session left.
type walkthrough struct {
	dir, home string // a clone's folder, and the home of who types
	env       []string
	session   string // what is typed in the second terminal, except the chapter on the end
	end       []string
	server    *service
	python    string
	records   int
	client    *client
}

const readmeAddress = "http://127.0.0.1:8080"

// walk types the README into bash, twice, as if in a fresh clone and with a clean home. Only the
// address is another one. "go" runs and builds the program that was built for these tests, and
// "claude" is a program that calls its hooks as Claude Code does.
func walk(t *testing.T, history string) *walkthrough {
	t.Helper()
	w := &walkthrough{dir: t.TempDir(), home: t.TempDir(), python: pythonWithCryptography(t)}
	w.prepare(t, history)
	w.server = serve(t, filepath.Join(w.dir, "attestd.db"))
	start, blocks := readmeSession(t)
	if start != "go run . serve\n" || strings.Count(blocks[0].typed, readmeAddress) != 1 {
		t.Fatalf("the README's session has changed: it starts a server and then names its address: %q", start)
	}
	blocks[0].typed = strings.Replace(blocks[0].typed, readmeAddress, w.server.URL, 1)
	for i, b := range blocks {
		if b.chapter == "Again, a lost key, uninstall, start over" {
			w.end = append(w.end, b.typed)
			continue
		}
		w.session += b.typed + fmt.Sprintf("printf '\\n=%d=\\n'\n", i)
	}
	for _, time := range []string{"the first time", "the second time"} {
		out, answer := w.typed(t, w.session+`printf %s "${PASSPORT:?}" > PASSPORT`)
		answer = regexp.MustCompile(`(?m)^warning .*\n`).ReplaceAllString(answer, "")
		if answer != "" {
			t.Fatalf("typed %s it complains: %s\n%s", time, answer, out)
		}
		for i, b := range blocks {
			answer, rest, found := strings.Cut(out, fmt.Sprintf("\n=%d=\n", i))
			if b.chapter == "Again, a lost key, uninstall, start over" {
				continue
			}
			if !found {
				t.Fatalf("typed %s, a block of %q did not come to its end: %s", time, b.chapter, out)
			}
			if b.shown != "" && !isShown(b.shown, answer) {
				t.Errorf("typed %s, the answer is\n%s\nand the README shows\n%s", time, answer, b.shown)
			}
			out = rest
		}
		w.client = w.server.client(t, strings.TrimSpace(w.read(t, "acme.key")))
		w.checkGrowth(t)
	}
	return w
}

// prepare makes the programs that the README's lines find in PATH.
func (w *walkthrough) prepare(t *testing.T, history string) {
	t.Helper()
	program, err := binary(t)
	must.OK(t, err)
	python, err := exec.LookPath(w.python)
	must.OK(t, err)
	bin := t.TempDir()
	for name, script := range map[string]string{
		"go":      `case "$1 $2 $3" in "run . "*) shift 2; exec '` + program + `' "$@" ;; "build -o attestd") exec cp '` + program + `' attestd ;; esac; exit 99`,
		"claude":  `[ "$1" = --version ] && { echo "2.1.330 (Claude Code)"; exit; }; exec attestd init claude-code --check`,
		"python3": `exec '` + python + `' "$@"`,
	} {
		must.OK(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	testenv.Path(t, "curl")
	path := strings.Join([]string{bin, filepath.Join(w.home, ".local", "bin"), os.Getenv("PATH")}, string(filepath.ListSeparator))
	// as if typed in the project's folder, but without leaving files there
	w.env = []string{"HOME=" + w.home, "PATH=" + path, "GIT_DIR=" + history}
}

// typed types lines into a new shell, and returns what they print and of what they complain.
func (w *walkthrough) typed(t *testing.T, lines string) (out, answer string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Path(t, "bash"), "-c", lines)
	cmd.Dir, cmd.Env = w.dir, w.env
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, complaints.String())
	}
	return string(text), complaints.String()
}

// checkGrowth checks what another walk adds: of a record that names its action, nothing.
func (w *walkthrough) checkGrowth(t *testing.T) {
	t.Helper()
	counts := map[string]int{}
	for _, r := range w.chain(t) {
		counts[r.Payload.AgentID+" "+r.Payload.ActionType]++
	}
	first := w.records == 0
	for kind, want := range map[string][2]int{ // after the first time and after the second
		"git-bot git.commit": {10, 10}, "git-bot git.push": {1, 2}, "claude-code agent.watched": {1, 2},
		"claude-code tool.requested": {1, 2}, "claude-code tool.completed": {1, 2},
	} {
		n := want[1]
		if first {
			n = want[0]
		}
		if counts[kind] != n {
			t.Errorf("there are %d records %s, want %d; all: %v", counts[kind], kind, n, counts)
		}
		w.records += counts[kind]
	}
}

// typeStart types what docs/start.md shows, in another terminal than the README.
func (w *walkthrough) typeStart(t *testing.T) {
	blocks := blocksOf(t, "../docs/start.md", "sh")
	if len(blocks) != 3 {
		t.Fatalf("docs/start.md shows %d things to type: a look from a shell, a lost key, uninstall", len(blocks))
	}
	const url = "export ATTESTD_URL="
	out, answer := w.typed(t, "set -e\n"+url+w.server.URL+"\n"+blocks[0])
	if answer != "" || strings.Count(out, `{"index":`) < 3 || !strings.Contains(out, "attestd_check") {
		t.Errorf("%s\n%s", answer, out)
	}
	if out, _ := w.typed(t, blocks[1]); strings.TrimSpace(out) != strings.TrimSpace(w.read(t, "acme.key")) {
		t.Errorf("the lost key is %s", out)
	}
	w.typed(t, "set -e\n"+url+w.server.URL+"\n"+blocks[2])
	w.gone(t)
	w.typed(t, w.session) // as it was
}

// gone checks what the machine of the agent has no more.
func (w *walkthrough) gone(t *testing.T) {
	t.Helper()
	for _, gone := range []string{
		filepath.Join(w.dir, ".claude", "settings.local.json"),
		filepath.Join(w.home, ".config", "attestd", "env"), filepath.Join(w.home, ".config", "attestd", "agents", "claude-code.jwk"),
	} {
		if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", gone, err)
		}
	}
}

// finish types what the README says of a lost key, of the end, and of a new beginning.
func (w *walkthrough) finish(t *testing.T) {
	if len(w.end) != 3 {
		t.Fatalf("the README's chapter on the end has %d blocks: a lost key, uninstall, start over", len(w.end))
	}
	key := w.read(t, "acme.key")
	must.OK(t, os.Remove(filepath.Join(w.dir, "acme.key")))
	w.typed(t, w.end[0])
	if w.read(t, "acme.key") != key {
		t.Error("the lost key did not come back")
	}
	if info, err := os.Stat(filepath.Join(w.dir, "acme.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the key that came back: %v %v", info, err)
	}
	w.typed(t, w.end[1])
	w.gone(t)
	for _, program := range []string{filepath.Join(w.dir, "attestd"), filepath.Join(w.home, ".local", "bin", "attestd")} {
		if _, err := os.Stat(program); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", program, err)
		}
	}
	must.OK(t, w.server.interrupt())
	w.typed(t, w.end[2])
	if left, err := filepath.Glob(filepath.Join(w.dir, "attestd.db*")); err != nil || len(left) > 0 {
		t.Errorf("of the database these are left: %v %v", left, err)
	}
	again := serve(t, filepath.Join(w.dir, "attestd.db"))
	w.typed(t, strings.ReplaceAll(w.session, w.server.URL, again.URL))
	if w.read(t, "acme.key") == key {
		t.Error("a new beginning has the former key")
	}
}

// readmeBlock is what the README has to type, under a heading, and the answer that it shows.
type readmeBlock struct{ chapter, typed, shown string }

// readmeSession is the README's command that starts a server, and all that it has to type then.
func readmeSession(t *testing.T) (start string, list []readmeBlock) {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	must.OK(t, err)
	chapter := ""
	for _, m := range regexp.MustCompile("(?ms)^## ([^\n]*)$|^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		switch {
		case m[1] != "":
			chapter = m[1]
		case m[2] == "sh" && start == "":
			start = m[3]
		case m[2] == "sh":
			list = append(list, readmeBlock{chapter: chapter, typed: m[3]})
		case len(list) > 0 && list[len(list)-1].shown == "":
			list[len(list)-1].shown = m[3]
		default:
			t.Fatalf("the README shows an answer to nothing under %s: %s", chapter, m[3])
		}
	}
	return start, list
}

// isShown reports whether an answer is the shown one, where … matches anything within a line, a
// line of … any lines, and one hash for another.
func isShown(shown, answer string) bool {
	pattern := regexp.QuoteMeta(strings.TrimSpace(shown))
	pattern = regexp.MustCompile(`\b[0-9a-f]{64}\b`).ReplaceAllString(pattern, `[0-9a-f]{64}`)
	pattern = strings.ReplaceAll(pattern, "\n…", `(\n.+)+`)
	pattern = strings.ReplaceAll(pattern, "…", `.+`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(strings.TrimSpace(answer))
}

// walkedRecord is a record of the walk.
type walkedRecord struct {
	Payload struct {
		AgentID, CompanyID, ActionType string
		Payload                        json.RawMessage
	}
	Delegation struct {
		Subject         string
		DelegationChain []string
	}
}

func (w *walkthrough) chain(t *testing.T) []walkedRecord {
	t.Helper()
	var chain struct{ Records []walkedRecord }
	w.client.call(t, 200, "GET", "/v1/chain", "", &chain)
	return chain.Records
}

// checkRecords compares the chain with git's output.
func (w *walkthrough) checkRecords(t *testing.T, commits []commit) {
	const acme, bot = "spiffe://attestd.local/company/acme", "spiffe://attestd.local/company/acme/agent/git-bot"
	for _, r := range w.chain(t) {
		switch {
		case r.Payload.CompanyID != "acme":
			t.Errorf("there is a record of %s", r.Payload.CompanyID)
		case r.Payload.ActionType == "git.commit" && len(commits) > 0:
			var of commit
			must.OK(t, json.Unmarshal(r.Payload.Payload, &of))
			if of != commits[0] {
				t.Errorf("a record is of %+v, git says %+v", of, commits[0])
			}
			commits = commits[1:]
		case r.Payload.ActionType == "git.push":
			if d := r.Delegation; d.Subject != acme || len(d.DelegationChain) != 2 || d.DelegationChain[0] != acme || d.DelegationChain[1] != bot {
				t.Errorf("a record is delegated by %+v", d)
			}
		}
	}
	if len(commits) > 0 {
		t.Errorf("these commits have no record: %v", commits)
	}
}

// takeHome saves what the session does not take home: the chain, a proof, and two signed statuses
// of the passport.
func (w *walkthrough) takeHome(t *testing.T) {
	w.write(t, "chain.json", w.client.call(t, 200, "GET", "/v1/chain", "", nil))
	w.write(t, "proof.json", w.client.call(t, 200, "GET", "/v1/proof/0", "", nil))
	var verified struct{ Claims struct{ JTI string } }
	w.client.call(t, 200, "POST", "/v1/passport/verify", `{"passport":"`+w.read(t, "PASSPORT")+`"}`, &verified)
	jti := verified.Claims.JTI
	w.write(t, "valid.json", w.client.call(t, 200, "GET", "/v1/ocsp/"+jti, "", nil))
	w.client.call(t, 200, "POST", "/v1/passports/"+jti+"/revoke", `{"reason":"walked through"}`, nil)
	w.write(t, "revoked.json", w.client.call(t, 200, "GET", "/v1/ocsp/"+jti, "", nil))

	w.client.call(t, 201, "POST", "/v1/companies", `{"companyId":"other"}`, nil)
	w.write(t, "other.json", w.client.call(t, 200, "GET", "/v1/ca/public-key?companyId=other", "", nil))
}

// checkOffline lets a checker that the session took home check its evidence again and a proof
// alone, and then calls each of its functions, through a script of testdata, on what is genuine and
// on what was changed.
func (w *walkthrough) checkOffline(t *testing.T, interpreter, name, caller string) {
	var key struct{ Fingerprint string }
	must.OK(t, json.Unmarshal([]byte(w.read(t, "key.json")), &key))
	out := w.run(t, interpreter, name, "evidence.json", "--key", key.Fingerprint)
	if !strings.HasPrefix(out, "holds\nwho: agent ") || !strings.Contains(out, "record 0 of actions") || !strings.Contains(out, "not proven: ") {
		t.Errorf("of the evidence it says %q", out)
	}
	out = w.run(t, interpreter, name, "proof.json", "key.json")
	if !regexp.MustCompile(`^holds, key not confirmed: .*\nwho: agent .*\nwhat: .*, record 0, below the chain root [0-9a-f]{64}, .*\npayload: .*\non behalf of: .*\nright: not in this file\nsigned by: a key of the file of keys, which has SHA256:[A-Za-z0-9_-]{43}\n$`).MatchString(out) {
		t.Errorf("it says %q", out)
	}

	script, err := os.ReadFile(filepath.Join("testdata", caller))
	must.OK(t, err)
	w.write(t, caller, script)
	out = w.run(t, interpreter, caller)
	var checked struct{ Genuine, Refused int }
	must.OK(t, json.Unmarshal([]byte(out), &checked))
	records := len(w.chain(t))
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
	must.OK(t, err)
	return string(out)
}

func (w *walkthrough) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	must.OK(t, err)
	return string(b)
}

func (w *walkthrough) write(t *testing.T, name string, content []byte) {
	t.Helper()
	must.OK(t, os.WriteFile(filepath.Join(w.dir, name), content, 0o600))
}

// commit is a commit according to the session.
type commit struct {
	Commit, Authored, Subject string
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

// gitLog is the same as the session takes, got in another way: the latest ten commits, the oldest
// first.
func gitLog(t *testing.T, history string) (commits []commit) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--git-dir", history, "log", "-10", "--format=%H%x00%aI%x00%f", "HEAD").Output()
	must.OK(t, err)
	for _, text := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		parts := strings.Split(text, "\x00")
		commits = append([]commit{{Commit: parts[0], Authored: parts[1], Subject: parts[2]}}, commits...)
	}
	return commits
}

// blocksOf are the code blocks of a page in a language.
func blocksOf(t *testing.T, page, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	must.OK(t, err)
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

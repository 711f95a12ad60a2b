package test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	yaml "github.com/oasdiff/yaml3"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// shellRecord is what the tests ask of the records of an example.
type shellRecord struct {
	Payload struct {
		AgentID, ActionType string
		Payload             map[string]any
	}
}

func (c *client) shellRecords(t *testing.T) []shellRecord {
	t.Helper()
	var chain struct{ Records []shellRecord }
	c.call(t, 200, "GET", "/v1/chain", "", &chain)
	return chain.Records
}

// workshop is a git repository for an example, with attestd on the PATH and nothing of the user's
// own.
type workshop struct {
	dir string
	env []string
}

func newWorkshop(t *testing.T, url, key string) *workshop {
	t.Helper()
	built, err := binary(t)
	must.OK(t, err)
	bin, home := t.TempDir(), t.TempDir()
	must.OK(t, os.Symlink(built, filepath.Join(bin, "attestd")))
	w := &workshop{dir: t.TempDir(), env: []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ada \"the\" \\ Author", "GIT_AUTHOR_EMAIL=ada@example.com",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com", "ATTESTD_URL=" + url, "ATTESTD_KEY=" + key,
	}}
	w.must(t, "git", "init", "-q", "-b", "main")
	return w
}

func (w *workshop) run(t *testing.T, env []string, name string, args ...string) (string, error) {
	t.Helper()
	path := name
	if filepath.Base(name) == name {
		path = testenv.Path(t, name)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Env = w.dir, append(slices.Clone(w.env), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}

func (w *workshop) must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := w.run(t, nil, name, args...)
	must.OK(t, err)
	return out
}

// closedPort is an address without a listener.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	must.OK(t, l.Close())
	return "http://" + l.Addr().String()
}

// The git hook attests a commit when it is made, lets nothing leave that is not attested, and
// attests each commit once.
func TestGitHookAttestsCommits(t *testing.T) {
	othersRun(t)
	s := serve(t, storetest.New(t))
	c := s.register(t, "acme")
	w := newWorkshop(t, s.URL, c.key)
	hook, err := filepath.Abs("../examples/git-hook/attest-commits")
	must.OK(t, err)
	for _, name := range []string{"post-commit", "pre-push"} {
		must.OK(t, os.Symlink(hook, filepath.Join(w.dir, ".git", "hooks", name)))
	}
	remote := t.TempDir()
	w.must(t, "git", "init", "-q", "--bare", remote)
	w.must(t, "git", "remote", "add", "origin", remote)

	w.must(t, "git", "commit", "-q", "--allow-empty", "-m", `The "first" \ commit`)
	if records := c.shellRecords(t); len(records) != 1 || records[0].Payload.ActionType != "git.commit" || records[0].Payload.AgentID != "git" ||
		records[0].Payload.Payload["subject"] != `The "first" \ commit` || records[0].Payload.Payload["author"] != `Ada "the" \ Author <ada@example.com>` ||
		records[0].Payload.Payload["commit"] != w.must(t, "git", "rev-parse", "HEAD") {
		t.Fatalf("after a commit the chain has %+v", records)
	}

	away := []string{"ATTESTD_URL=" + closedPort(t)}
	if out, err := w.run(t, away, "git", "commit", "--allow-empty", "-m", "while attestd is away"); err != nil || !strings.Contains(out, "not attested yet") {
		t.Fatalf("a commit while attestd is away: %s, %v", out, err)
	}
	if out, err := w.run(t, away, "git", "push", "-q", "origin", "main"); err == nil {
		t.Fatalf("what is not attested was pushed: %s", out)
	}
	w.must(t, "git", "push", "-q", "origin", "main")
	w.must(t, "git", "push", "-q", "origin", ":main")
	var attested []string
	for _, r := range c.shellRecords(t) {
		attested = append(attested, r.Payload.Payload["commit"].(string))
	}
	if made := strings.Fields(w.must(t, "git", "rev-list", "--reverse", "main")); !slices.Equal(attested, made) {
		t.Errorf("the commits %v were made, and %v attested", made, attested)
	}
}

// job is what the test knows of a workflow.
type job struct {
	Env   map[string]string
	Steps []struct {
		Run string
		If  string
		Env map[string]string
	}
}

// The job of GitHub Actions attests its run and how it ended, when it succeeds and when it fails.
// Its steps are run as a runner does.
func TestGitHubActionsJobAttestsItsRun(t *testing.T) {
	othersRun(t)
	text, err := os.ReadFile("../examples/github-actions/build.yml")
	must.OK(t, err)
	var workflow struct{ Jobs map[string]job }
	must.OK(t, yaml.Unmarshal(text, &workflow))
	s := serve(t, storetest.New(t))
	for name, script := range map[string]string{
		"success": "git commit -q --allow-empty -m 'made by the build'",
		"failure": "exit 3",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := s.register(t, name)
			w := newWorkshop(t, s.URL, c.key)
			must.OK(t, os.WriteFile(filepath.Join(w.dir, "build.sh"), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
			w.must(t, "git", "add", "build.sh")
			w.must(t, "git", "commit", "-q", "-m", "The build")
			if status := runJob(t, w, workflow.Jobs["build"], s.URL, c.key); status != name {
				t.Fatalf("the job ends with %s", status)
			}
			records := c.shellRecords(t)
			want := map[string][]string{"success": {"run.started", "git.commit", "run.ended", "ci.job"}, "failure": {"run.started", "run.ended", "ci.job"}}[name]
			var has []string
			for _, r := range records {
				has = append(has, r.Payload.ActionType)
				if r.Payload.AgentID != "github-actions" {
					t.Errorf("%s is of %s", r.Payload.ActionType, r.Payload.AgentID)
				}
			}
			slices.Sort(has[:len(has)-1]) // a commit is seen before the end or with it
			slices.Sort(want[:len(want)-1])
			if !slices.Equal(has, want) {
				t.Fatalf("the chain has %v, want %v", has, want)
			}
			if ended := records[len(records)-1].Payload.Payload; ended["status"] != name || ended["repository"] != "octo/build" || ended["attempt"] != 1.0 {
				t.Errorf("the job's end is %v", ended)
			}
		})
	}
}

var expression = regexp.MustCompile(`\$\{\{ *([\w.]+) *\}\}`)

// runJob runs the steps of a job that have a script, as `bash -e`, with what a runner sets, and
// returns how the job ended.
func runJob(t *testing.T, w *workshop, j job, url, key string) (status string) {
	t.Helper()
	status = "success"
	variables := func(set map[string]string) (env []string) {
		for name, value := range set {
			env = append(env, name+"="+expression.ReplaceAllStringFunc(value, func(s string) string {
				known := map[string]string{"vars.ATTESTD_URL": url, "secrets.ATTESTD_KEY": key, "job.status": status}
				value, ok := known[expression.FindStringSubmatch(s)[1]]
				if !ok {
					t.Fatalf("the test knows no %s", s)
				}
				return value
			}))
		}
		return env
	}
	runner := []string{
		"CI=true", "GITHUB_ACTIONS=true", "GITHUB_REPOSITORY=octo/build", "GITHUB_SHA=" + w.must(t, "git", "rev-parse", "HEAD"), "GITHUB_WORKFLOW=build", "GITHUB_JOB=build",
		"GITHUB_RUN_ID=42", "GITHUB_RUN_ATTEMPT=1", "GITHUB_ACTOR=octocat", "GITHUB_SERVER_URL=https://github.com",
	}
	for _, step := range j.Steps {
		if step.Run == "" || status == "failure" && step.If != "always()" {
			continue
		}
		file := filepath.Join(t.TempDir(), "step.sh")
		must.OK(t, os.WriteFile(file, []byte(step.Run), 0o600))
		if out, err := w.run(t, slices.Concat(runner, variables(j.Env), variables(step.Env)), "bash", "-e", file); err != nil {
			t.Logf("a step fails: %v %s", err, out)
			status = "failure"
		}
	}
	return status
}

// Package run runs a command and attests its start, its end, and the commits made meanwhile. The
// command keeps its input, output and errors. Signals and the exit status are forwarded.
//
// The records, whose payloads are JSON objects without what is absent:
//
//	run.started  {"source":"run","runId":"…","command":["go","test"]}
//	run.ended    {"source":"run","runId":"…","exitStatus":0,"durationMs":12}, or "signal":"killed" for the exit
//	             status, or "error":"…" of a command that did not begin
//	git.commit   {"source":"run","runId":"…","commit":"…",
//	             "author":"Ada <ada@example.com>","committedAt":"…","subject":"…"}
//
// Secrets in the command's arguments and in subjects are masked as those of tool calls are. Its
// environment is never recorded.
package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"attestd/agent/toolcall"
	"attestd/sdk/attestd"
)

// Exit statuses of a command that could not start, as in a shell.
const (
	notFound      = 127
	notExecutable = 126
	signalled     = 128 // and the signal's number
)

// Config says what is run, and how it is attested.
type Config struct {
	Agent   string
	Command []string // at least one
	Git     string   // folder of the repository whose commits are attested; "" is none

	Stdin, Stdout, Stderr *os.File
	Signals               <-chan os.Signal // handed on to the command
	// whose keys send the command their signals without us: those must not come twice
	Terminal bool

	// Keep returns when a record is safe: in the spool or, with a closed door, with the service. An
	// error before the command began keeps it from beginning.
	Keep func(context.Context, attestd.Attestation) error
}

// Run runs the command to its end and returns its exit status. An error means that it did not
// start, or that a record of it is missing.
func Run(ctx context.Context, c Config) (status int, err error) {
	r := running{Config: c, id: rand.Text(), keys: attestd.NewIdempotencyKey()}
	var repository *repository
	if c.Git != "" {
		if repository, err = openRepository(ctx, c.Git); err != nil {
			return 1, err
		}
	}
	err = r.keep(ctx, "run.started", "started", struct {
		Source  string   `json:"source"`
		RunID   string   `json:"runId"`
		Command []string `json:"command"`
	}{source, r.id, toolcall.MaskArguments(c.Command)})
	if err != nil {
		return 1, fmt.Errorf("the command was not started, for that could not be attested: %w", err)
	}
	start := time.Now()
	end, err := r.command()
	end.Source, end.RunID, end.DurationMS = source, r.id, time.Since(start).Milliseconds()
	if repository != nil {
		commits, failed := repository.since(ctx, start)
		err = errors.Join(err, failed)
		for _, commit := range commits {
			commit.Source, commit.RunID = source, r.id
			err = errors.Join(err, r.keep(ctx, "git.commit", "git:"+commit.Commit, commit))
		}
	}
	return end.status, errors.Join(err, r.keep(ctx, "run.ended", "ended", end))
}

const source = "run"

// running is a run under way.
type running struct {
	Config
	id string
	// what its idempotency keys begin with; it stands in no record, so that nobody can take a key
	// beforehand
	keys string
}

func (r *running) keep(ctx context.Context, action, event string, payload any) error {
	return r.Keep(ctx, attestd.Attestation{AgentID: r.Agent, ActionType: action, Payload: payload, IdempotencyKey: r.keys + ":" + event})
}

// ended is how a command came to its end.
type ended struct {
	Source     string `json:"source"`
	RunID      string `json:"runId"`
	ExitStatus *int   `json:"exitStatus,omitempty"`
	Signal     string `json:"signal,omitempty"`
	Error      string `json:"error,omitempty"`
	DurationMS int64  `json:"durationMs"`

	status int // for whoever runs us
}

// command runs the command. The error is of one that did not begin.
func (r *running) command() (end ended, err error) {
	cmd := exec.Command(r.Command[0], r.Command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.Stdin, r.Stdout, r.Stderr
	if err := cmd.Start(); err != nil {
		end.status, end.Error = notExecutable, "the command could not be started"
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			end.status, end.Error = notFound, "the command was not found"
		}
		return end, err
	}
	done := make(chan struct{})
	handing := make(chan struct{})
	go func() {
		defer close(handing)
		for {
			select {
			case s := <-r.Signals:
				if !r.Terminal || s != os.Interrupt && s != syscall.SIGQUIT {
					_ = cmd.Process.Signal(s) // it may have ended
				}
			case <-done:
				return
			}
		}
	}()
	err = cmd.Wait()
	close(done)
	<-handing
	if cmd.ProcessState == nil {
		end.status, end.Error = 1, "how the command ended is not known"
		return end, err
	}
	end.status = cmd.ProcessState.ExitCode()
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		end.status, end.Signal = signalled+int(s.Signal()), s.Signal().String()
	} else {
		end.ExitStatus = &end.status
	}
	return end, nil
}

// commit is a commit that was made meanwhile.
type commit struct {
	Source      string `json:"source"`
	RunID       string `json:"runId"`
	Commit      string `json:"commit"`
	Author      string `json:"author"`
	CommittedAt string `json:"committedAt"`
	Subject     string `json:"subject"`
}

// repository is a git repository as it was when a run began.
type repository struct {
	dir   string
	known []string // what could be reached then
}

func openRepository(ctx context.Context, dir string) (*repository, error) {
	r := &repository{dir: dir}
	if _, err := r.git(ctx, "", "rev-parse", "--git-dir"); err != nil {
		return nil, err
	}
	// Everything that a ref or a reflog names. What can be reached from there was made before.
	out, err := r.git(ctx, "", "rev-list", "--no-walk", "--all", "--reflog")
	if err != nil {
		return nil, err
	}
	r.known = strings.Fields(out)
	return r, nil
}

// since returns the commits that came into the repository since it was opened, the oldest first,
// those too that an amendment or a reset has left behind. What was fetched from elsewhere and
// committed before start is left out.
func (r *repository) since(ctx context.Context, start time.Time) ([]commit, error) {
	var not strings.Builder
	for _, hash := range r.known {
		not.WriteString("^" + hash + "\n")
	}
	const format = "--format=%H%x00%an <%ae>%x00%cI%x00%ct%x00%s"
	out, err := r.git(ctx, not.String(), "rev-list", "--topo-order", "--reverse", "--all", "--reflog", format, "--stdin")
	if err != nil {
		return nil, err
	}
	own, err := r.git(ctx, not.String(), "rev-list", "--branches", "--reflog", "--stdin", "--not", "--remotes")
	if err != nil {
		return nil, err
	}
	local := map[string]bool{}
	for _, hash := range strings.Fields(own) {
		local[hash] = true
	}
	var commits []commit
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		if len(fields) != 5 { // "commit …" stands before each
			continue
		}
		var seconds int64
		if _, err := fmt.Sscan(fields[3], &seconds); err != nil {
			return nil, fmt.Errorf("git: %w", err)
		}
		if local[fields[0]] || seconds >= start.Unix() {
			commits = append(commits, commit{Commit: fields[0], Author: fields[1], CommittedAt: fields[2], Subject: toolcall.MaskText(fields[4])})
		}
	}
	return commits, nil
}

// git runs git and returns what it prints. It takes no lock and starts no program of the
// repository's settings.
func (r *repository) git(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "log.showSignature=false", "-C", r.dir}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("git %s: %s", args[0], strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("git: %w", err)
	}
	return string(out), nil
}

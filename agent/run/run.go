// Package run runs a command and attests its start, its end, and the commits made meanwhile. The
// command has the caller's standard streams. Signals and the exit status are forwarded.
//
// These are the records. Absent members are left out of the payloads:
//
//	run.started  {"source":"run","runId":"…","command":["go","test"]}, and where the start is decided
//	             "tool":"run","input":{"command":"go test"}, on which policies decide
//	run.ended    {"source":"run","runId":"…","exitStatus":0,"durationMs":12}, or "signal":"killed" for the exit
//	             status, or "error":"…" of a command that did not begin
//	git.commit   {"source":"run","runId":"…","commit":"…",
//	             "author":"Ada <ada@example.com>","committedAt":"…","subject":"…"}
//
// Secrets in the command's arguments and in commit subjects are masked as in tool calls. The
// environment is never recorded.
package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"attestd/chain/action/mask"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

// Exit statuses of a command that could not start, as in a shell.
const (
	notFound      = 127
	notExecutable = 126
	signalBase    = 128 // plus the signal's number
)

// Config configures a run.
type Config struct {
	Agent   string
	ID      string   // of the run
	Command []string // at least one
	Mask    mask.Key // of the digests in masks
	Git     string   // folder of the repository whose commits are attested; "" for none

	Stdin, Stdout, Stderr *os.File
	Signals               <-chan os.Signal // forwarded to the command
	// The command shares a terminal, which sends it keyboard signals directly. They are not
	// forwarded, so that they do not arrive twice.
	Terminal bool

	Decided bool // the record of the start is to be decided, as a call of the tool run

	Signed bool // the records are a session, which has an end also if the command is not started
	// Record returns when a record is durable: in the spool or, with --fail closed, acknowledged by
	// the service. If it fails for the start, the command is not started; a *RefusedError says that
	// the start is recorded and refused.
	Record func(context.Context, attestd.Attestation) error
}

// Run runs the command to its end and returns its exit status. An error means that it did not
// start, or that a record of it is missing.
func Run(ctx context.Context, c Config) (status int, err error) {
	r := running{Config: c, keys: attestd.NewIdempotencyKey()}
	var repository *repository
	if c.Git != "" {
		if repository, err = openRepository(ctx, c.Git); err != nil {
			return 1, err
		}
	}
	begun := started{Source: source, RunID: r.ID, Command: c.Mask.Arguments(c.Command)}
	if c.Decided {
		begun.Tool, begun.Input = source, &input{printable.ShellWords(begun.Command)}
	}
	err = r.record(ctx, Started, "started", begun)
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return 1, errors.Join(err, r.record(ctx, "run.ended", "ended", ended{Source: source, RunID: r.ID, Error: refused.Error()}))
	}
	if err != nil {
		err = fmt.Errorf("the command was not started because its start could not be attested: %w", err)
		if c.Signed { // the start may be recorded all the same
			err = errors.Join(err, r.record(ctx, "run.ended", "ended", ended{Source: source, RunID: r.ID, Error: "the command was not started"}))
		}
		return 1, err
	}
	start := time.Now()
	end, err := r.command()
	end.Source, end.RunID, end.DurationMS = source, r.ID, time.Since(start).Milliseconds()
	if repository != nil {
		commits, failed := repository.since(ctx, start)
		err = errors.Join(err, failed)
		for _, commit := range commits {
			commit.Source, commit.RunID, commit.Subject = source, r.ID, c.Mask.Text(commit.Subject)
			err = errors.Join(err, r.record(ctx, "git.commit", "git:"+commit.Commit, commit))
		}
	}
	return end.status, errors.Join(err, r.record(ctx, "run.ended", "ended", end))
}

const source = "run"

// Started is the action type of the record of a start.
const Started = "run.started"

// started is the payload of run.started. Tool and Input are what a decision is about.
type started struct {
	Source  string   `json:"source"`
	RunID   string   `json:"runId"`
	Command []string `json:"command"`
	Tool    string   `json:"tool,omitempty"`
	Input   *input   `json:"input,omitempty"`
}

// input has a command as policies read those of a shell.
type input struct {
	Command string `json:"command"`
}

// RefusedError reports that a command must not start.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "the command was not started: " + e.Reason }

// running is a run in progress.
type running struct {
	Config
	// secret prefix of the idempotency keys; no record contains it, so no one else can use a key
	// first
	keys string
}

func (r *running) record(ctx context.Context, action, event string, payload any) error {
	return r.Record(ctx, attestd.Attestation{
		AgentID: r.Agent, ActionType: action, Payload: payload, IdempotencyKey: r.keys + ":" + event, Last: event == "ended",
	})
}

// ended is the payload of run.ended.
type ended struct {
	Source     string `json:"source"`
	RunID      string `json:"runId"`
	ExitStatus *int   `json:"exitStatus,omitempty"`
	Signal     string `json:"signal,omitempty"`
	Error      string `json:"error,omitempty"`
	DurationMS int64  `json:"durationMs"`

	status int // exit status of attestd run
}

// command runs the command. err is an error to start or wait for it.
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
	forwarding := make(chan struct{})
	go func() {
		defer close(forwarding)
		for {
			select {
			case s := <-r.Signals:
				if !r.Terminal || s != os.Interrupt && s != syscall.SIGQUIT {
					_ = cmd.Process.Signal(s) // fails if it has ended
				}
			case <-done:
				return
			}
		}
	}()
	err = cmd.Wait()
	close(done)
	<-forwarding
	if cmd.ProcessState == nil {
		end.status, end.Error = 1, "the command's exit status is unknown"
		return end, err
	}
	end.status = cmd.ProcessState.ExitCode()
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		end.status, end.Signal = signalBase+int(s.Signal()), s.Signal().String()
	} else {
		end.ExitStatus = &end.status
	}
	return end, nil
}

package attack

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"attestd/internal/harness"
)

// notice is one check that may find a rewritten history. It returns what it found, or "". wait
// bounds how long a silent server is watched.
type notice struct {
	column string
	look   func(ctx context.Context, s *scene, wait time.Duration) (found string, err error)
}

var notices = []notice{
	{"`attestd verify`", func(ctx context.Context, s *scene, _ time.Duration) (string, error) {
		return s.run(ctx, "verify", "--db", s.db())
	}},
	{"`verify --heads`", func(ctx context.Context, s *scene, _ time.Duration) (string, error) {
		return s.run(ctx, "verify", "--db", s.db(), "--heads", s.heads())
	}},
	{"start, head file there", func(ctx context.Context, s *scene, wait time.Duration) (string, error) {
		return s.start(ctx, true, true, wait, nil)
	}},
	{"start, head file gone", func(ctx context.Context, s *scene, wait time.Duration) (string, error) {
		return s.start(ctx, false, true, wait, nil)
	}},
	{"witness", func(ctx context.Context, s *scene, wait time.Duration) (found string, err error) {
		return s.asked(ctx, wait)
	}},
	{"kept evidence", func(ctx context.Context, s *scene, _ time.Duration) (found string, err error) {
		_, err = s.start(ctx, false, false, 0, func(addr string) error {
			found, err = s.compareEvidence(ctx, addr)
			return err
		})
		return found, err
	}},
}

// run runs a command of attestd. Its exit statuses 4, 5 and 8 are findings.
func (s *scene) run(ctx context.Context, args ...string) (found string, err error) {
	cmd := exec.CommandContext(ctx, s.Lab.Binary(), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == 4 || exit.ExitCode() == 5 || exit.ExitCode() == 8) {
		return stderr.String(), nil
	}
	if err != nil {
		return "", fmt.Errorf("attestd %v: %w: %s", args, err, stderr.String())
	}
	return "", nil
}

// start starts a server on a copy of the database, with or without its head file and its stored
// checkpoints, and watches it. with, if not nil, is called while it runs.
func (s *scene) start(
	ctx context.Context, heads, checkpoints bool, wait time.Duration, with func(addr string) error,
	flags ...string,
) (found string, err error) {
	folder, err := s.Lab.Folder()
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	db := filepath.Join(folder, dbFile)
	if err = copyFile(s.db(), db); err == nil && heads {
		err = copyFile(s.heads(), db+headsOf)
	}
	if err == nil && !checkpoints {
		err = forgetIn(ctx, db)
	}
	if err != nil {
		return "", err
	}
	server, err := s.Lab.Serve(ctx, db, append(flags, "--rate-limits", "off", "--webhooks-allow-private")...)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if with != nil {
		if err := with(server.Addr); err != nil {
			return "", err
		}
	}
	found, err = ready(ctx, server.Addr, wait, func(r readiness) bool { return r.Status != "ready" })
	if err == nil && s.undone != "" && with == nil { // before the first response, if at all
		return s.isUndone(ctx, db)
	}
	return found, err
}

// undone is the finding if a start reverts a change and records that. Whether it also reports the
// change is a matter of timing.
const undone = "undone"

func (s *scene) isUndone(ctx context.Context, db string) (found string, err error) {
	file, err := sql.Open("sqlite", "file:"+db)
	if err != nil {
		return "", err
	}
	defer file.Close()
	var is bool
	if err := file.QueryRowContext(ctx, s.undone).Scan(&is); err != nil || !is {
		return "", err
	}
	return undone, nil
}

// readiness is a response of /readyz.
type readiness struct {
	Status, Error                            string
	TablesChanged, RolledBack, WitnessAlarms int
}

// ready polls /readyz until a condition is true.
func ready(ctx context.Context, addr string, wait time.Duration, is func(readiness) bool) (found string, err error) {
	c := &harness.Client{Addr: addr}
	defer c.Close()
	for end := time.Now().Add(wait); ; {
		a, err := c.Do(harness.Request{Method: "GET", Path: "/readyz"})
		if err != nil {
			return "", err
		}
		var r readiness
		if err := json.Unmarshal(a.Body, &r); err != nil {
			return "", err
		}
		if is(r) {
			return string(a.Body), nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return "", ctx.Err()
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// twoRounds is the maximum time in which a server asks a witness twice, because a log that has
// grown since the first time is sent again.
const twoRounds = 5 * time.Second

// asked starts the witness, and a server without a head file and stored checkpoints, so that only
// the witness's response can reveal the change.
func (s *scene) asked(ctx context.Context, wait time.Duration) (found string, err error) {
	w, err := s.Lab.Serve(ctx, filepath.Join(s.folder, witnessFile), "--cosign-for", s.file("policy"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	_, err = s.start(ctx, false, false, 0, func(addr string) (err error) {
		found, err = ready(ctx, addr, max(wait, twoRounds), func(r readiness) bool {
			return r.RolledBack+r.WitnessAlarms > 0
		})
		return err
	}, "--witness", s.witness(w.Addr))
	return found, err
}

// compareEvidence compares each stored evidence file with a server's current state, with `attestd
// check --newer`. A log that is shorter or missing is found too.
func (s *scene) compareEvidence(ctx context.Context, addr string) (found string, err error) {
	c := &harness.Client{Addr: addr}
	defer c.Close()
	for _, k := range s.evidence {
		path := fmt.Sprintf("/v1/log/%s/consistency?from=%d", k.logID, k.size)
		a, err := c.Do(harness.Request{Method: "GET", Path: path, Key: s.keys[k.company]})
		if err != nil {
			return "", err
		}
		switch a.Status {
		case 200:
		case 503: // the server has found something itself, which another check covers
			continue
		case 400, 401, 404: // the log is shorter, or the company or the log is gone
			found = fmt.Sprintf("%s: %s", path, a.Body)
			continue
		default:
			return "", fmt.Errorf("%s answers %d %s", path, a.Status, a.Body)
		}
		newer := filepath.Join(s.folder, "newer")
		if err := os.WriteFile(newer, a.Body, 0o600); err != nil {
			return "", err
		}
		differs, err := s.run(ctx, "check", k.path, "--key", k.fingerprint, "--newer", newer)
		if err != nil {
			return "", err
		}
		if differs != "" {
			found = differs
		}
	}
	return found, nil
}

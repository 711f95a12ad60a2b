package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/crypto/statement"
	"attestd/internal/atomicfile"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

// maxPayload is the largest number of bytes read from standard input. The server's own limit is
// lower by default.
const maxPayload = 64 << 20

func attestCommand() *cobra.Command {
	var a attestd.Attestation
	var delegation string
	cmd := &cobra.Command{
		Use:   "attest --agent ID --action TYPE [PAYLOAD]",
		Short: "Append a record",
		Long: `Append a record to the company's chain and print it as one line of JSON. The payload is any
JSON value, from the argument, or else from standard input.

A request without a response is sent again with the same idempotency key. Exit status 0 means
that the record is on the server's disk exactly once. To retry safely in a later run, choose
the key with --idempotency-key: for four weeks such a run prints the record that is there. What an
agent's key has signed under it is stored on this machine, so retry on the same one.

` + agentHelp,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case a.AgentID == "":
				return cli.Usagef("--agent, --action and a payload are required")
			case a.ActionType == "":
				return cli.Usagef("--action is required: the action type must have 1 to 256 characters")
			}
			text := []byte(nil)
			if len(args) == 1 {
				text = []byte(args[0])
			} else {
				var err error
				if text, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxPayload+1)); err != nil {
					return err
				}
				if len(text) > maxPayload {
					return fmt.Errorf("the payload is longer than %d bytes", maxPayload)
				}
			}
			if len(bytes.TrimSpace(text)) == 0 {
				return cli.Usagef("no payload: write a JSON value as the argument or to standard input")
			}
			a.Payload = json.RawMessage(text)
			if delegation != "" {
				token, err := cli.ReadPrivate(delegation)
				if err != nil {
					return err
				}
				a.Delegation = strings.TrimSpace(token)
			}
			prepared, err := a.Prepare()
			if err != nil {
				return cli.UsageError{Err: err}
			}
			at, c, err := connectAs(cmd, a.AgentID, "")
			if err != nil {
				return err
			}
			defer c.Close()
			var record attestd.Record
			if at.identity != nil {
				prepared.IdempotencyKey = a.IdempotencyKey // of which a statement needs none
				record, err = at.attestSigned(cmd.Context(), c, prepared)
			} else {
				record, err = c.Attest(cmd.Context(), prepared)
			}
			if err != nil {
				return err
			}
			return printable.JSON(cmd.OutOrStdout(), record)
		},
	}
	cli.URLFlag(cmd)
	cli.AgentFlag(cmd, &a.AgentID, "")
	cmd.Flags().StringVar(&a.ActionType, "action", "", "`type` of the action, such as deploy.started")
	cmd.Flags().StringVar(&delegation, "delegation", "", "`file` with the delegation token of the agent")
	cmd.Flags().StringVar(&a.IdempotencyKey, "idempotency-key", "",
		"`key` that makes a retry of this record safe (default: a random one)")
	return cmd
}

// statementLife is shorter than the 30 days for which a server takes a statement.
const statementLife = 29 * 24 * time.Hour

// attestSigned appends what the agent signs. The server has one statement for a jti, and two that
// are signed at two times are two statements. So one with an idempotency key, which becomes its
// jti, is stored before it is sent, and a later run with the same key and action sends it again,
// also one that was refused: so no one holds a second one of the same jti.
func (c agentConnection) attestSigned(ctx context.Context, client *attestd.Client, a attestd.Attestation) (r attestd.Record, err error) {
	client.LearnLog(ctx)
	if a.IdempotencyKey == "" {
		if a, err = c.identity.Sign(ctx, a, attestd.Place{}); err != nil {
			return r, err
		}
		return client.Attest(ctx, a)
	}
	folder := filepath.Join(c.folder, "statements")
	if err := privateFolder(folder); err != nil {
		return r, err
	}
	action, err := c.identity.ActionHash(a)
	if err != nil {
		return r, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", a.IdempotencyKey, action, a.Delegation))
	path := filepath.Join(folder, hex.EncodeToString(sum[:]))
	stored, err := readStatement(path, a.IdempotencyKey, action)
	if err != nil {
		return r, err
	}
	isNew := stored == ""
	if isNew {
		removeOldStatements(folder)
		if stored, err = c.makeStatement(ctx, path, action, a); err != nil {
			return r, err
		}
		// another process was first
		if err = putStatement(path, stored); errors.Is(err, fs.ErrExist) {
			isNew = false
			stored, err = readStatement(path, a.IdempotencyKey, action)
		}
		if err != nil {
			return r, err
		}
		if stored == "" {
			return r, errors.New("another process has tried the same at the same time, and was refused; try again")
		}
	}
	a.Statement, a.IdempotencyKey = stored, ""
	r, err = client.Attest(ctx, a)
	switch {
	case err == nil:
		_ = os.Remove(path + refusedAs) // of an earlier run
	case isNew && attestd.NotRecorded(err):
		if renamed := os.Rename(path, path+refusedAs); renamed != nil {
			err = errors.Join(err, renamed)
		}
	}
	return r, err
}

// refusedAs ends the name of the file of a statement that was refused.
const refusedAs = ".refused"

// makeStatement returns the statement of an action that no run has stored, or that the server has
// refused. That one is sent again, unless the agent now signs with another key or for another log.
func (c agentConnection) makeStatement(ctx context.Context, path, action string, a attestd.Attestation) (string, error) {
	refused, err := readStatement(path+refusedAs, a.IdempotencyKey, action)
	if err != nil {
		return "", err
	}
	if refused != "" {
		stmt, err := statement.Parse(refused)
		if err != nil {
			return "", err
		}
		if stmt.KeyID == c.identity.Key().Thumbprint() {
			if stmt.Log == c.identity.Log() {
				return refused, nil
			}
			a.IdempotencyKey = attestd.StatementIDAfter(a.IdempotencyKey, 1)
		}
	}
	signed, err := c.identity.Sign(ctx, a, attestd.Place{})
	return signed.Statement, err
}

// readStatement returns the stored statement of an action; "" where there is none, or one that is
// too old for the server. One that the disk has changed is not replaced: with the agent's next key,
// the same action could be recorded a second time.
func readStatement(path, key, action string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	stmt, err := statement.Parse(string(text))
	if err != nil || stmt.ActionHash != action || stmt.ID != attestd.StatementID(key) && stmt.ID != attestd.StatementIDAfter(key, 1) {
		return "", fmt.Errorf("%s is damaged: look whether the action is recorded, and remove this file to sign it again", path)
	}
	if time.Since(time.Unix(stmt.IssuedAt, 0)) > statementLife {
		return "", os.Remove(path)
	}
	return string(text), nil
}

// putStatement stores a statement for good, or returns fs.ErrExist where there is one.
func putStatement(path, compact string) error {
	if err := atomicfile.Create(path, []byte(compact)); err != nil {
		return err
	}
	return atomicfile.SyncFolder(filepath.Dir(path))
}

// removeOldStatements removes what the server would no longer take, and what processes that were
// killed have left.
func removeOldStatements(folder string) {
	files, _ := os.ReadDir(folder) // where this fails, they are removed another time
	for _, file := range files {
		if info, err := file.Info(); err == nil && time.Since(info.ModTime()) > statementLife {
			_ = os.Remove(filepath.Join(folder, file.Name()))
		}
	}
}

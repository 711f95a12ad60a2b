package cmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"attestd/crypto/statement"
	"attestd/internal/wholefile"
	"attestd/sdk/attestd"
)

// statementLife is shorter than the 30 days for which a server takes a statement.
const statementLife = 29 * 24 * time.Hour

// attestSigned appends what the agent signs. The server has one statement for a jti, and two that
// are signed at two times are two statements. So one with an idempotency key, which becomes its
// jti, is stored before it is sent, and a later run with the same key and action sends it again.
func (c agentConnection) attestSigned(ctx context.Context, client *attestd.Client, a attestd.Attestation) (r attestd.Record, err error) {
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
	stored, err := readStatement(path, attestd.StatementID(a.IdempotencyKey), action)
	if err != nil {
		return r, err
	}
	isNew := stored == ""
	if isNew {
		removeOldStatements(folder)
		signed, err := c.identity.Sign(ctx, a, attestd.Place{})
		if err != nil {
			return r, err
		}
		stored = signed.Statement
		// another process was first
		if err = putStatement(path, stored); errors.Is(err, fs.ErrExist) {
			isNew = false
			stored, err = readStatement(path, attestd.StatementID(a.IdempotencyKey), action)
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
	if isNew && attestd.NotRecorded(err) {
		// what was refused may be signed anew; an error here changes nothing of the outcome
		_ = os.Remove(path)
	}
	return r, err
}

// readStatement returns the stored statement of an action; "" where there is none, or one that is
// too old for the server. One that the disk has changed is not replaced: with the agent's next key,
// the same action could be recorded a second time.
func readStatement(path, id, action string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	said, err := statement.Parse(string(text))
	if err != nil || said.ID != id || said.ActionHash != action {
		return "", fmt.Errorf("%s is damaged: look whether the action is recorded, and remove this file to sign it anew", path)
	}
	if time.Since(time.Unix(said.IssuedAt, 0)) > statementLife {
		return "", os.Remove(path)
	}
	return string(text), nil
}

// putStatement stores a statement for good, or returns fs.ErrExist where there is one.
func putStatement(path, compact string) error {
	if err := wholefile.Create(path, []byte(compact)); err != nil {
		return err
	}
	return wholefile.SyncFolder(filepath.Dir(path))
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

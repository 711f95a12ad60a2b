package cmd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"time"

	"github.com/gofrs/flock"

	"attestd/cmd/cli"
	"attestd/internal/wholefile"
	"attestd/server/export"
)

const (
	cursorFormat  = "attestd-export-cursor/v1"
	maxCursorFile = 64 << 10
	cursorEvery   = time.Second // the least time between two writes
)

// cursorFile stores how far an export has come. It is written whole and renamed into place, at most
// once in cursorEvery; what a kill loses of it comes again.
type cursorFile struct {
	path    string
	lock    *flock.Flock
	content cursorContent
	written time.Time
	dirty   bool
}

type cursorContent struct {
	Format      string                     `json:"format"`
	CompanyID   string                     `json:"companyId"`
	Destination string                     `json:"destination"` // for people
	ID          string                     `json:"id"`          // of the destination
	Logs        map[string]export.Position `json:"logs"`
}

// openCursorFile reads a cursor, or begins one. No other process can have it at the same time.
func openCursorFile(path, companyID string, to export.Destination) (c *cursorFile, err error) {
	id := sha256.Sum256([]byte(to.ID())) // the destination may have a token
	c = &cursorFile{path: path, lock: flock.New(path+".lock", flock.SetPermissions(0o600)),
		content: cursorContent{cursorFormat, companyID, to.String(), hex.EncodeToString(id[:]), map[string]export.Position{}}}
	has, err := c.lock.TryLock()
	if err != nil {
		return nil, err
	}
	if !has {
		return nil, cli.ExitError{Status: cli.ExitInUse, Err: fmt.Errorf("another export uses %s", path)}
	}
	if err := c.read(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *cursorFile) read() error {
	text, err := cli.ReadBounded(c.path, maxCursorFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var stored cursorContent
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&stored); err != nil || len(text) > maxCursorFile || stored.Format != cursorFormat {
		return fmt.Errorf("%s is no cursor of an export; remove it to begin with the first record", c.path)
	}
	if stored.CompanyID != c.content.CompanyID || stored.ID != c.content.ID {
		return fmt.Errorf("%s is the cursor of another export, of %s to %s; name another file with --cursor", c.path, stored.CompanyID,
			stored.Destination)
	}
	maps.Copy(c.content.Logs, stored.Logs)
	return nil
}

// Load implements export.Cursors.
func (c *cursorFile) Load(_ context.Context, l export.Log) (export.Position, error) {
	return c.content.Logs[l.Name], nil
}

// Save implements export.Cursors.
func (c *cursorFile) Save(at map[export.Log]export.Position) error {
	for l, p := range at {
		c.content.Logs[l.Name] = p
	}
	c.dirty = true
	if time.Since(c.written) < cursorEvery {
		return nil
	}
	return c.flush()
}

// flush writes the file.
func (c *cursorFile) flush() error {
	if !c.dirty {
		return nil
	}
	text, err := json.Marshal(c.content)
	if err != nil {
		return err
	}
	if err := wholefile.Replace(c.path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("the cursor cannot be written: %w", err)
	}
	c.written, c.dirty = time.Now(), false
	return nil
}

func (c *cursorFile) close() { _ = c.lock.Unlock() }

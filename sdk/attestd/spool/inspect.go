package spool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"attestd/crypto/statement"
	"attestd/internal/atomicfile"
	"attestd/internal/regular"
	"attestd/sdk/attestd/private"
)

// Item is an attestation in a folder: one that waits, or one that was set apart. It has no secret:
// neither the delegation nor the idempotency key.
type Item struct {
	ID        string          `json:"id"` // derived from its idempotency key or statement
	Apart     bool            `json:"setApart"`
	At        string          `json:"at,omitempty"` // when it was set apart, UTC
	Status    int             `json:"status,omitempty"`
	Code      string          `json:"code,omitempty"`
	Error     string          `json:"error,omitempty"`
	RequestID string          `json:"requestId,omitempty"`
	AgentID   string          `json:"agentId,omitempty"`
	Action    string          `json:"actionType,omitempty"`
	Session   string          `json:"session,omitempty"` // of a statement
	Seq       int64           `json:"seq,omitempty"`     // its place there
	Size      int             `json:"size"`              // in bytes
	Payload   json.RawMessage `json:"payload,omitempty"`

	file string // in a folder of the TypeScript or Python client
}

// ErrNoSpool reports that a folder is no spool.
var ErrNoSpool = errors.New("there is no spool")

// Contents returns what waits in a folder of any client, and what was set apart there. It changes
// nothing, and refuses a folder as [Open] does.
func Contents(dir string) ([]Item, error) {
	switch ofFiles, err := kindOf(dir); {
	case err != nil:
		return nil, err
	case ofFiles:
		return filesOf(dir)
	}
	s, err := Open(dir, nil)
	if err != nil {
		return nil, err
	}
	return s.contents()
}

// kindOf reports whether a folder is one of the TypeScript and Python clients, which has a file for
// each item.
func kindOf(dir string) (ofFiles bool, err error) {
	if err := private.Check(dir); err != nil {
		return false, err
	}
	if info, err := os.Stat(filepath.Join(dir, pendingAs)); err == nil && info.IsDir() {
		return true, nil
	}
	for _, name := range []string{addLock, current, refusedAs} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return false, nil
		}
	}
	return false, fmt.Errorf("%s: %w", dir, ErrNoSpool)
}

// itemOf describes an attestation, as an item of POST /v1/attest/batch.
func itemOf(text []byte) (item Item, ok bool) {
	var a struct {
		AgentID, ActionType, IdempotencyKey, Statement string
		Payload                                        json.RawMessage
	}
	if json.Unmarshal(text, &a) != nil || a.IdempotencyKey+a.Statement == "" {
		return item, false
	}
	sum := sha256.Sum256([]byte("attestd spool " + a.IdempotencyKey + a.Statement))
	item = Item{ID: hex.EncodeToString(sum[:8]), AgentID: a.AgentID, Action: a.ActionType, Size: len(text), Payload: a.Payload}
	if stmt, err := statement.Parse(a.Statement); a.Statement != "" && err == nil {
		item.Session, item.Seq = stmt.Session, stmt.Seq
	}
	return item, true
}

func (s *Spool) contents() (items []Item, err error) {
	lock := s.lock(addLock)
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	defer lock.Unlock()
	numbers, err := s.sealed()
	if err != nil {
		return nil, err
	}
	add := func(line []byte) {
		if len(line) < checksumSize || !isLive(line) {
			return
		}
		if item, ok := itemOf(line[checksumSize:]); ok {
			items = append(items, item)
		}
	}
	for _, n := range numbers {
		text, err := regular.Read(s.path(sealedName(n)))
		if err != nil {
			continue // it was sent in between
		}
		all := lines(text)
		done, err := openProgress(s.path(progressName(n)), text, len(all))
		if err != nil {
			return nil, err
		}
		for _, at := range done.left() {
			add(all[at])
		}
	}
	text, err := regular.Read(s.path(current))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, line := range lines(text) {
		add(line)
	}
	apart, err := s.Refused()
	for _, r := range apart {
		item, ok := itemOf(r.Attestation)
		if !ok {
			continue
		}
		item.Apart, item.At, item.Status, item.Code, item.Error, item.RequestID = true, r.At, r.Status, r.Code, r.Error, r.RequestID
		items = append(items, item)
	}
	return items, err
}

// Retry puts items that were set apart back among those that wait, under the same idempotency key,
// so that none is recorded twice. wants chooses them. What is of a session stays: its place is
// noted as refused, and a statement in the log may say so; left has it.
func Retry(dir string, wants func(Item) bool) (back, left []Item, err error) {
	switch ofFiles, err := kindOf(dir); {
	case err != nil:
		return nil, nil, err
	case ofFiles:
		return retryFiles(dir, wants)
	}
	s, err := Open(dir, nil)
	if err != nil {
		return nil, nil, err
	}
	return s.retry(wants)
}

func (s *Spool) retry(wants func(Item) bool) (back, left []Item, err error) {
	lock := s.lock(addLock)
	if err := lock.Lock(); err != nil {
		return nil, nil, fmt.Errorf("spool: %w", err)
	}
	defer lock.Unlock()
	text, err := regular.Read(s.path(refusedAs))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("spool: %w", err)
	}
	var queue, rest []byte
	for line := range bytes.Lines(text) {
		var r Refusal
		item, ok := Item{}, json.Unmarshal(line, &r) == nil
		if ok {
			item, ok = itemOf(r.Attestation)
		}
		item.Apart = true
		switch {
		case !ok || !wants(item):
		case item.Session != "":
			left = append(left, item)
		default:
			var compact bytes.Buffer
			if err := json.Compact(&compact, r.Attestation); err != nil {
				return nil, nil, err
			}
			queue = fmt.Appendf(queue, "%08x %s\n", checksum(compact.Bytes()), compact.Bytes())
			back = append(back, item)
			continue
		}
		rest = append(rest, line...)
	}
	if len(back) == 0 {
		return nil, left, nil
	}
	// In this order: a process that is killed in between leaves items twice, under one key.
	if err := s.appendLines(queue); err != nil {
		return nil, nil, fmt.Errorf("spool: %w", err)
	}
	if err := atomicfile.Replace(s.path(refusedAs), rest, 0o600); err != nil {
		return nil, nil, fmt.Errorf("spool: %w", err)
	}
	return back, left, nil
}

// Names in a folder of the TypeScript and Python clients.
const (
	pendingAs = "pending"
	reasonAs  = ".reason"
	maxFile   = 64 << 20
)

func filesOf(dir string) (items []Item, err error) {
	for _, folder := range []string{pendingAs, refusedAs} {
		entries, err := os.ReadDir(filepath.Join(dir, folder))
		if err != nil {
			return nil, fmt.Errorf("spool: %w", err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, folder, e.Name())
			info, err := e.Info()
			if strings.HasSuffix(path, reasonAs) || err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
				continue
			}
			text, err := regular.Read(path)
			if err != nil {
				continue // it was sent in between
			}
			at := bytes.IndexByte(text, '{') // after the checksum
			item, ok := itemOf(text[max(at, 0):])
			if !ok { // the disk has changed it
				sum := sha256.Sum256([]byte("attestd spool " + e.Name()))
				item = Item{ID: hex.EncodeToString(sum[:8]), Size: len(text)}
			}
			if item.file = e.Name(); folder == refusedAs {
				reason, _ := regular.Read(path + reasonAs) // one that is missing says nothing
				item.Apart, item.Error = true, strings.TrimSpace(string(reason[:min(len(reason), 1000)]))
				item.At = info.ModTime().UTC().Format(time.RFC3339)
			}
			items = append(items, item)
		}
	}
	return items, nil
}

func retryFiles(dir string, wants func(Item) bool) (back, left []Item, err error) {
	items, err := filesOf(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, item := range items {
		switch {
		case !item.Apart || !wants(item):
			continue
		case item.Session != "" || item.AgentID+item.Action == "":
			left = append(left, item)
			continue
		}
		from, to := filepath.Join(dir, refusedAs, item.file), filepath.Join(dir, pendingAs, item.file)
		if err := os.Rename(from, to); err != nil {
			return back, left, fmt.Errorf("spool: %w", err)
		}
		if err := errors.Join(syncFolder(filepath.Dir(to)), os.Remove(from+reasonAs)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return back, left, fmt.Errorf("spool: %w", err)
		}
		back = append(back, item)
	}
	return back, left, nil
}

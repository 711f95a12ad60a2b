package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"attestd/crypto/statement"
)

// place is a line of the file of a session: where one of its statements stands.
type place struct {
	Session string `json:"sid"`
	Seq     int64  `json:"seq"`
	Hash    string `json:"hash"` // of the statement
	ID      string `json:"jti,omitempty"`
	Action  string `json:"action,omitempty"` // action_hash
	End     bool   `json:"end,omitempty"`
}

// placeOf reads where a statement of a session stands.
func placeOf(compact string) (place, error) {
	s, err := statement.Parse(compact)
	if err != nil {
		return place{}, err
	}
	if s.Session == "" {
		return place{}, errors.New("spool: the statement is of no session")
	}
	return newPlace(s), nil
}

func newPlace(s *statement.Statement) place {
	return place{s.Session, s.Seq, s.Hash(), s.ID, s.ActionHash, s.End}
}

// after reports whether p follows other in a session's file.
func (p place) after(other place) bool {
	if p.Session == other.Session {
		return p.Seq > other.Seq
	}
	return began(p.Session) > began(other.Session)
}

// began is the number behind the "~" of a session's ID; 0 where it has none.
func began(session string) int64 {
	_, digits, _ := strings.Cut(session, "~")
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

// places are the lines of a session's file.
type places struct {
	lines []place
	ends  []int64 // where each ends in the file
}

// last is the newest place; nil where there is none.
func (p places) last() *place {
	if len(p.lines) == 0 {
		return nil
	}
	return &p.lines[len(p.lines)-1]
}

// with returns the place of the statement with a jti; nil where there is none.
func (p places) with(id string) *place {
	for i := range p.lines {
		if p.lines[i].ID == id {
			return &p.lines[i]
		}
	}
	return nil
}

// readPlaces reads the file of a session. After a line that the disk has changed the session goes
// on under another ID.
func readPlaces(path string) (p places, err error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("spool: %w", err)
	}
	end := int64(0)
	for line := range bytes.Lines(text) {
		end += int64(len(line))
		at := place{End: true}
		if step, ok := readStep(line); ok {
			var read place
			if json.Unmarshal([]byte(step), &read) == nil {
				at = read
			}
		} else if !bytes.HasSuffix(line, []byte("\n")) { // a process was killed
			break
		}
		p.lines, p.ends = append(p.lines, at), append(p.ends, end)
	}
	return p, nil
}

// cut removes the last place. moves makes the session go on under another ID.
func (p places) cut(path string, moves bool) error {
	end := int64(0)
	if n := len(p.ends); n > 1 {
		end = p.ends[n-2]
	}
	if err := os.Truncate(path, end); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if moves {
		return appendPlace(path, place{Session: p.last().Session, Seq: p.last().Seq, End: true})
	}
	return nil
}

func appendPlace(path string, p place) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	line := append(fmt.Appendf(nil, "%08x ", checksum(text)), text...)
	if err := appendSynced(path, append(line, '\n')); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}

// placesKept is for how long the file of a session that nothing is added to is kept, and placesRead
// how many of them one process looks at.
const (
	placesKept = 60 * 24 * time.Hour
	placesRead = 256
)

// removeOldPlaces removes files of sessions that are over for long. A session that goes on after
// that goes on under another ID, when the service refuses its first place.
func (s *Spool) removeOldPlaces() {
	folder, err := os.Open(s.path(sessionsAs))
	if err != nil {
		return
	}
	defer folder.Close()
	entries, _ := folder.ReadDir(placesRead)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > placesKept {
			_ = os.Remove(filepath.Join(s.path(sessionsAs), e.Name()))
		}
	}
}

package spool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"attestd/crypto/statement"
	"attestd/internal/bounded"
	"attestd/internal/regular"
	"attestd/sdk/attestd"
)

// place is a line of the file of a session. It is one of these:
//
//   - the place of one of its statements, with the places that its claim refused names;
//   - that the service has refused the statement of a place: Refused is the code of the refusal;
//   - a mark without Hash: what follows goes on under another ID.
type place struct {
	Session string     `json:"sid"`
	Seq     int64      `json:"seq"`
	Hash    string     `json:"hash"` // of the statement
	ID      string     `json:"jti,omitempty"`
	Action  string     `json:"action,omitempty"` // action_hash
	End     bool       `json:"end,omitempty"`
	Names   [][2]int64 `json:"names,omitempty"` // ranges of seq
	Refused string     `json:"refused,omitempty"`
	Status  int        `json:"status,omitempty"` // of the refusal
}

// spot names a place of a file.
type spot struct {
	session string
	seq     int64
}

func (p place) spot() spot { return spot{p.Session, p.Seq} }

// placeOf reads the place of a statement in its session.
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
	p := place{Session: s.Session, Seq: s.Seq, Hash: s.Hash(), ID: s.ID, Action: s.ActionHash, End: s.End}
	for _, r := range s.Refused {
		if n := len(p.Names); n > 0 && p.Names[n-1][1] == r.Seq-1 {
			p.Names[n-1][1] = r.Seq
		} else {
			p.Names = append(p.Names, [2]int64{r.Seq, r.Seq})
		}
	}
	return p
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

// places is what the file of a session says.
type places struct {
	lines   []place        // of statements and marks, in the order of the file
	refused map[spot]place // the refusals
	broken  bool           // the disk has changed what comes after the last statement
	size    int64          // of the complete lines, in bytes
}

// newest is the last statement or mark; nil where there is none.
func (p *places) newest() *place {
	if len(p.lines) == 0 {
		return nil
	}
	return &p.lines[len(p.lines)-1]
}

// isOver reports whether the session goes on under another ID: its end is not refused, a mark says
// so, its file is damaged, or the service has statements of it that the file does not have.
func (p *places) isOver() bool {
	last := p.newest()
	if p.broken || last == nil {
		return p.broken
	}
	if _, refused := p.refused[last.spot()]; last.End && (last.Hash == "" || !refused) {
		return true
	}
	for at, r := range p.refused {
		if at.session == last.Session && r.Refused == attestd.StatementReused {
			return true
		}
	}
	return false
}

// head is the last statement that a session which goes on from this one names: also one that was
// refused, unless the service has another one at its place. It is nil where there is none.
func (p *places) head() *place {
	for i := len(p.lines) - 1; i >= 0; i-- {
		if at := &p.lines[i]; at.Hash != "" && p.refused[at.spot()].Refused != attestd.StatementReused {
			return at
		}
	}
	return nil
}

// unnamed returns the refused places of the newest statement's session that no statement has named,
// unless it was refused itself; the oldest, and at most as many as a statement may name.
func (p *places) unnamed() (list []attestd.RefusedPlace) {
	session := p.newest().Session
	named := map[int64]bool{}
	for i := range p.lines {
		if _, refused := p.refused[p.lines[i].spot()]; refused || p.lines[i].Session != session {
			continue
		}
		for _, r := range p.lines[i].Names {
			for seq := r[0]; seq <= r[1] && seq < r[0]+attestd.MaxRefused; seq++ {
				named[seq] = true
			}
		}
	}
	for at, r := range p.refused {
		if at.session == session && !named[at.seq] {
			list = append(list, attestd.RefusedPlace{Seq: at.seq, Hash: r.Hash, Code: r.Refused})
		}
	}
	slices.SortFunc(list, func(a, b attestd.RefusedPlace) int { return cmp.Compare(a.Seq, b.Seq) })
	return list[:min(len(list), attestd.MaxRefused)]
}

// with returns the statement with a jti; nil where there is none.
func (p *places) with(id string) *place {
	for i := range p.lines {
		if p.lines[i].ID == id {
			return &p.lines[i]
		}
	}
	return nil
}

// readPlaces reads the file of a session.
func readPlaces(path string) (p *places, err error) {
	text, err := regular.Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("spool: %w", err)
	}
	p = &places{refused: map[spot]place{}}
	for line := range bytes.Lines(text) {
		var read place
		step, ok := readStep(line)
		switch {
		case !bytes.HasSuffix(line, []byte("\n")): // a process was killed
			return p, nil
		case !ok || !read.parse(step):
			p.broken = true
		case read.Refused != "":
			p.refused[read.spot()] = read
		default:
			p.lines, p.broken = append(p.lines, read), false
		}
		p.size += int64(len(line))
	}
	return p, nil
}

// parse reads a line. Each process of a long session reads all lines, and most are statements:
// those are read without a parser of JSON, which takes six times as long.
func (p *place) parse(line string) bool {
	if plain, ok := plainPlace(line); ok {
		*p = plain
		return true
	}
	return json.Unmarshal([]byte(line), p) == nil
}

// plainPlace reads the line of a statement as appendPlace writes it. ok is false for others, and
// for texts with escapes.
func plainPlace(line string) (p place, ok bool) {
	rest := line
	text := func(before string) (value string) {
		after, found := strings.CutPrefix(rest, before)
		end := strings.IndexByte(after, '"')
		if !found || end < 0 {
			return ""
		}
		value, rest = after[:end], after[end+1:]
		return value
	}
	if strings.ContainsFunc(line, func(r rune) bool { return r == '\\' || r < ' ' || r > '~' }) {
		return p, false
	}
	p.Session = text(`{"sid":"`)
	after, found := strings.CutPrefix(rest, `,"seq":`)
	digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
	seq, err := strconv.ParseInt(after[:digits], 10, 64)
	if !found || err != nil || strconv.FormatInt(seq, 10) != after[:digits] {
		return p, false
	}
	p.Seq, rest = seq, after[digits:]
	p.Hash, p.ID, p.Action = text(`,"hash":"`), text(`,"jti":"`), text(`,"action":"`)
	return p, p.Session != "" && p.Hash != "" && rest == "}"
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

// refuse notes that the service has refused the statement of a place. The caller holds the lock to
// add.
func (s *Spool) refuse(thumbprint string, p place, why *attestd.Error) error {
	path := s.placesOf(thumbprint, p.Session)
	known, err := readPlaces(path)
	if err != nil {
		return err
	}
	if _, recorded := known.refused[p.spot()]; recorded {
		return nil
	}
	if err := s.makeSessions(); err != nil {
		return err
	}
	return appendPlace(path, place{Session: p.Session, Seq: p.Seq, Hash: p.Hash, Refused: why.RefusalCode(), Status: why.Status})
}

// leave marks that a session of a former key goes on under the present one.
func (s *Spool) leave(path string) error {
	lock := s.lock(addLock)
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	defer lock.Unlock()
	if err := s.repairLocked(); err != nil {
		return err
	}
	p, err := readPlaces(path)
	if err != nil || p.newest() == nil || p.isOver() {
		return err
	}
	return appendPlace(path, place{Session: p.newest().Session, Seq: p.newest().Seq, End: true})
}

// before finds the run that a session without a file goes on from: under a former key of the agent,
// the last one of several, or under its own, where the file was removed. used reports whether the
// session's ID is taken by such a run, of which nothing else may be known.
func (s *Session) before() (last *attestd.Continuation, used bool, err error) {
	for _, thumbprint := range append(s.identity.Known(), s.identity.Key().Thumbprint()) {
		path := s.spool.placesOf(thumbprint, s.id)
		found, head, err := s.spool.formerRun(path, path == s.path)
		if err != nil {
			return nil, false, err
		}
		if used = used || found; head != nil && (last == nil || began(head.Session) > began(last.Session)) {
			last = &attestd.Continuation{Session: head.Session, KeyID: thumbprint, Hash: head.Hash}
		}
	}
	return last, used, nil
}

// formerRun returns the last statement of a run from its file, or from the list of those whose file
// was removed. So that nothing more is added to it, it marks the file, unless that is the caller's
// own.
func (s *Spool) formerRun(path string, own bool) (found bool, head *place, err error) {
	if _, err := os.Stat(path); !own && !errors.Is(err, fs.ErrNotExist) {
		if err := s.leave(path); err != nil {
			return false, nil, err
		}
		p, err := readPlaces(path)
		if err != nil {
			return false, nil, err
		}
		if p.newest() != nil {
			return true, p.head(), nil
		}
	}
	list, err := regular.Read(s.path(removedAs))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("spool: %w", err)
	}
	for line := range bytes.Lines(list) {
		var read place
		name, rest, _ := strings.Cut(string(line), " ")
		if name != filepath.Base(path) {
			continue
		}
		if found = true; json.Unmarshal([]byte(rest), &read) == nil && read.Hash != "" {
			head = &read
		}
	}
	return found, head, nil
}

// placesRetention is how long the file of an idle session is retained, and placesRead how many of
// them one process looks at.
const (
	placesRetention = 60 * 24 * time.Hour
	placesRead      = 256
)

// removeOldPlaces removes files of sessions that are over for long. Of each, one line in the list
// of those that were removed stays, so that no place of it is ever used again.
func (s *Spool) removeOldPlaces() {
	folder, err := os.Open(s.path(sessionsAs))
	if err != nil {
		return
	}
	defer folder.Close()
	entries, _ := folder.ReadDir(placesRead)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > placesRetention {
			s.removePlaces(e.Name())
		}
	}
}

// removePlaces removes the file of a session, unless something was added to it meanwhile.
func (s *Spool) removePlaces(name string) {
	lock := s.lock(addLock)
	if lock.Lock() != nil {
		return
	}
	defer lock.Unlock()
	path := filepath.Join(s.path(sessionsAs), name)
	info, err := os.Stat(path)
	if err != nil || time.Since(info.ModTime()) <= placesRetention {
		return
	}
	p, err := readPlaces(path)
	if err != nil {
		return
	}
	if p.newest() != nil || p.broken {
		last := place{}
		if at := p.head(); at != nil {
			last = place{Session: at.Session, Seq: at.Seq, Hash: at.Hash}
		}
		text, err := json.Marshal(last)
		if err != nil || appendSynced(s.path(removedAs), fmt.Appendf(nil, "%s %s\n", name, text)) != nil {
			return
		}
	}
	_ = os.Remove(path)
}

// refusals are the refusals that the files of sessions note, as one Flush reads them.
type refusals struct {
	*Spool
	files *bounded.Map[string, *places]
}

// of returns the noted refusal of a statement; nil where there is none.
func (r *refusals) of(stmt *statement.Statement) (*place, error) {
	path := r.placesOf(stmt.KeyID, stmt.Session)
	p, read := r.files.Get(path)
	if !read {
		var err error
		if p, err = readPlaces(path); err != nil {
			return nil, err
		}
		p.lines = nil // only what was refused is asked for
		r.files.Put(path, p)
	}
	if recorded, ok := p.refused[spot{stmt.Session, stmt.Seq}]; ok && recorded.Hash == stmt.Hash() {
		return &recorded, nil
	}
	return nil, nil
}

// maxRefusalFiles bounds the files that a Flush remembers.
const maxRefusalFiles = 1000

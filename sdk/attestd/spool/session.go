package spool

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"attestd/sdk/attestd"
)

// Errors of an attestation whose IdempotencyKey was used in its session. ErrSigned reports that it
// was used for this very action, which is recorded or waits in the folder.
var (
	ErrSigned    = errors.New("spool: this is signed already, under its idempotency key")
	ErrKeyReused = errors.New("spool: something else is signed under this idempotency key")
)

// Session is one run of an agent, of which each attestation is signed and numbered. Its place is
// kept on disk: several processes may share a session, at the same time and one after another, and
// one that is killed at any moment leaves no hole in the numbers and uses none twice. It is safe
// for concurrent use.
//
// After the last attestation of a session, and where the service has statements that this folder
// does not know, a session goes on under its ID with "~" and the milliseconds since 1970.
type Session struct {
	spool    *Spool
	identity *attestd.Identity
	id       string
	path     string // of the places

	mu sync.Mutex // one statement is made at a time, also by this process
}

// sessionsAs is the folder of the places.
const sessionsAs = "sessions"

// Session opens a session of the agent by an ID, which may be any text. It sends nothing.
func (s *Spool) Session(identity *attestd.Identity, id string) (*Session, error) {
	if id == "" {
		return nil, errors.New("spool: a session needs an ID")
	}
	if err := os.Mkdir(s.path(sessionsAs), 0o700); err == nil {
		err = syncFolder(s.dir)
		if err != nil {
			return nil, err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("spool: %w", err)
	}
	id = sessionID(id)
	return &Session{spool: s, identity: identity, id: id, path: s.placesOf(identity.Key().Thumbprint(), id)}, nil
}

// maxSessionID leaves room for "~" and a number.
const maxSessionID = 100

// sessionID returns an ID as a statement can have it, and without '~'.
func sessionID(id string) string {
	odd := strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	})
	if !odd && len(id) <= maxSessionID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// placesOf returns the path of the places of a key's session. id may have a "~" and a number.
func (s *Spool) placesOf(thumbprint, id string) string {
	id, _, _ = strings.Cut(id, "~")
	sum := sha256.Sum256([]byte(thumbprint + "\n" + id))
	return filepath.Join(s.path(sessionsAs), base64.RawURLEncoding.EncodeToString(sum[:16]))
}

// Add signs an attestation at the next place of the session, and returns when it is synced to disk.
// [ErrSigned] and [ErrKeyReused] say that its IdempotencyKey was used in the session.
func (s *Session) Add(ctx context.Context, a attestd.Attestation) error {
	_, err := s.add(ctx, a)
	return err
}

// Attest is Add, after which it sends the attestation: without an answer it stays in the folder,
// and queued is true. What the service refuses is returned as the error that it is. It then has no
// place and does not wait, unless another has been added since.
func (s *Session) Attest(ctx context.Context, a attestd.Attestation) (r attestd.Record, queued bool, err error) {
	r, queued, err = s.attest(ctx, a)
	if queued {
		err = nil
	}
	return r, queued, err
}

// AttestNow is Attest for a caller that needs the answer: where there is none, the error says why,
// and the attestation waits in the folder.
func (s *Session) AttestNow(ctx context.Context, a attestd.Attestation) (attestd.Record, error) {
	r, _, err := s.attest(ctx, a)
	return r, err
}

// End is Attest of the last attestation of the session.
func (s *Session) End(ctx context.Context, a attestd.Attestation) (attestd.Record, bool, error) {
	a.Last = true
	return s.Attest(ctx, a)
}

func (s *Session) attest(ctx context.Context, a attestd.Attestation) (r attestd.Record, queued bool, err error) {
	for moved := false; ; moved = true {
		added, err := s.add(ctx, a)
		if err != nil {
			return r, false, err
		}
		r, err = s.spool.client.Attest(ctx, added.Attestation)
		switch {
		case err == nil:
			s.spool.markSent(added.line)
			return r, false, nil
		case !blamed(err) || !attestd.NotRecorded(err):
			return r, true, err
		}
		reused := errors.Is(err, &attestd.Error{Code: attestd.StatementReused})
		if undone := s.undo(added, reused); undone != nil {
			return r, false, errors.Join(err, undone)
		}
		if !reused || moved {
			return r, false, err
		}
	}
}

// blamed reports whether the service refuses this very attestation for good.
func blamed(err error) bool {
	var answer *attestd.Error
	if !refused(err) || !errors.As(err, &answer) || errors.As(err, new(*attestd.CredentialError)) {
		return false
	}
	switch answer.Status {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed:
		return false
	}
	switch answer.Code {
	case "FORBIDDEN_ROLE", "FORBIDDEN_AGENT", "COMPANY_SUSPENDED":
		return false
	}
	return true
}

// added is an attestation at its place.
type added struct {
	attestd.Attestation
	place place
	line  queued
}

// lock locks the session among processes, with its places as the file that is locked.
func (s *Session) lock() (*flock.Flock, error) {
	lock := flock.New(s.path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return lock, nil
}

// add makes a statement at the next place, and keeps both.
func (s *Session) add(ctx context.Context, a attestd.Attestation) (added, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lock, err := s.lock()
	if err != nil {
		return added{}, err
	}
	defer lock.Unlock()
	if err := s.spool.repair(); err != nil {
		return added{}, err
	}
	last, err := readPlaces(s.path)
	if err != nil {
		return added{}, err
	}
	if a.IdempotencyKey != "" {
		if err := s.fresh(a, last); err != nil {
			return added{}, err
		}
	}
	if len(last.lines) == 0 {
		s.spool.removeOldPlaces()
	}
	next := attestd.Place{Session: s.id, End: a.Last}
	if at := last.last(); at != nil && at.End {
		next.Session = s.id + "~" + strconv.FormatInt(time.Now().UnixMilli(), 10)
	} else if at != nil {
		next.Session, next.Seq, next.Previous = at.Session, at.Seq+1, at.Hash
	}
	signed, err := s.identity.Sign(ctx, a, next)
	if err != nil {
		return added{}, err
	}
	at, err := placeOf(signed.Statement)
	if err != nil {
		return added{}, err
	}
	line, err := s.spool.appendSigned(appendLine(nil, signed), s.path, at)
	return added{signed, at, line}, err
}

// fresh requires that an attestation's key was not used in the session.
func (s *Session) fresh(a attestd.Attestation, in places) error {
	before := in.with(attestd.StatementID(a.IdempotencyKey))
	if before == nil {
		return nil
	}
	hash, err := s.identity.ActionHash(a)
	switch {
	case err != nil:
		return err
	case hash == before.Action:
		return ErrSigned
	}
	return ErrKeyReused
}

// undo takes back what the service has refused, if it is the last of the session. Otherwise the
// next Flush sets it apart. moves makes the session go on under another ID.
func (s *Session) undo(a added, moves bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	lock, err := s.lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	adding := s.spool.lock(addLock)
	if err := adding.Lock(); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	defer adding.Unlock()
	if err := s.spool.repairLocked(); err != nil {
		return err
	}
	last, err := readPlaces(s.path)
	if err != nil {
		return err
	}
	if at := last.last(); at == nil || at.Hash != a.place.Hash || !s.spool.holds(a.line) {
		return nil
	}
	// In this order: a process that is killed in between leaves what repair and Flush find.
	if err := last.cut(s.path, moves); err != nil {
		return err
	}
	s.spool.markSentLocked(a.line)
	return nil
}

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

	"attestd/sdk/attestd"
)

// Errors of an attestation whose IdempotencyKey was used in its session. ErrSigned reports that it
// was used for this very action, which is recorded or waits in the folder.
var (
	ErrSigned    = errors.New("spool: this is signed already, under its idempotency key")
	ErrKeyReused = errors.New("spool: something else is signed under this idempotency key")
)

// Session is one run of an agent, of which each attestation is signed and numbered. Its place is
// stored on disk: several processes may share a session, at the same time and one after another,
// and one that is killed at any moment leaves no hole in the numbers and uses none twice. It is
// safe for concurrent use.
//
// A place that is on disk is used for good. What the service refuses has its place all the same,
// and a later statement of the session says that it was refused; so the end of a session is none
// when it was refused.
//
// After its end, and under the agent's next key where [attestd.Identity] knows the former one, a
// session goes on under its ID with "~" and the milliseconds since 1970, and its first statement
// there names the last one before. It does so, too, where the service has statements of it that
// this folder does not know, and where the disk has changed the file.
//
// Once it has ended, a Session takes nothing more ([attestd.ErrEnded]); one that is opened again by
// its ID goes on so.
type Session struct {
	spool    *Spool
	identity *attestd.Identity
	id       string
	path     string                // of the places
	after    *attestd.Continuation // what it goes on from, as the caller says; or nil

	mu    sync.Mutex // one statement is made at a time, also by this process
	ended string     // the hash of the end that this Session has signed
}

// sessionsAs is the folder of the places, and removedAs the list of those that were removed from
// it.
const (
	sessionsAs = "sessions"
	removedAs  = "removed"
)

// Session opens a session of the agent by an ID, which may be any text. It sends nothing.
func (s *Spool) Session(identity *attestd.Identity, id string) (*Session, error) {
	if id == "" {
		return nil, errors.New("spool: a session needs an ID")
	}
	if err := s.makeSessions(); err != nil {
		return nil, err
	}
	id = sessionID(id)
	return &Session{spool: s, identity: identity, id: id, path: s.placesOf(identity.Key().Thumbprint(), id)}, nil
}

// SessionAfter is Session for a run that goes on from another one. last is what Last of that one
// has returned; the first statement of the new session names it.
func (s *Spool) SessionAfter(identity *attestd.Identity, id string, last attestd.Continuation) (*Session, error) {
	made, err := s.Session(identity, id)
	if err != nil {
		return nil, err
	}
	if last.Session == made.id {
		return nil, errors.New("spool: a session that goes on from another one needs an ID of its own")
	}
	made.after = &last
	return made, nil
}

// Last names the newest statement of the session, also one that was refused; nil where the folder
// has none.
func (s *Session) Last() (*attestd.Continuation, error) {
	if err := s.spool.repair(); err != nil {
		return nil, err
	}
	known, err := readPlaces(s.path)
	if err != nil {
		return nil, err
	}
	head := known.head()
	if head == nil {
		return nil, nil
	}
	return &attestd.Continuation{Session: head.Session, KeyID: s.identity.Key().Thumbprint(), Hash: head.Hash}, nil
}

// makeSessions makes the folder of the places where there is none.
func (s *Spool) makeSessions() error {
	switch err := os.Mkdir(s.path(sessionsAs), 0o700); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return fmt.Errorf("spool: %w", err)
	}
	return syncFolder(s.dir)
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
// [ErrSigned] and [ErrKeyReused] say that its IdempotencyKey was used in the session, and a
// [FolderError] that the folder could not be used, so that it was not sent either.
func (s *Session) Add(ctx context.Context, a attestd.Attestation) error {
	_, err := s.add(ctx, a)
	return err
}

// ApartError is the service's refusal of an attestation that was signed. It has its place in the
// session, does not wait, and is set apart in the folder.
type ApartError struct{ Err *attestd.Error }

func (e *ApartError) Error() string { return e.Err.Error() }
func (e *ApartError) Unwrap() error { return e.Err }

// Attest is Add, after which it sends the attestation: without an answer it stays in the folder,
// and queued is true. What the service refuses is set apart there, and the error is an *ApartError.
// Where the service has another statement at its place, it is signed again under another ID of the
// session; one with an IdempotencyKey is not, because the service may have this very action.
func (s *Session) Attest(ctx context.Context, a attestd.Attestation) (r attestd.Record, queued bool, err error) {
	r, queued, err = s.attest(ctx, a)
	if queued && !errors.As(err, new(*attestd.RecordMismatchError)) { // no other caller reports it
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
	s.spool.client.LearnLog(ctx)
	for moved := false; ; moved = true {
		added, err := s.add(ctx, a)
		if err != nil {
			return r, false, err
		}
		r, err = s.spool.client.Attest(ctx, added.Attestation)
		var answer *attestd.Error
		switch {
		case err == nil:
			s.spool.markSent(added.line)
			return r, false, nil
		case !blamed(err) || !attestd.NotRecorded(err) || !errors.As(err, &answer):
			return r, true, err
		}
		apart, failed := s.setApart(added, answer)
		if failed != nil {
			return r, false, errors.Join(err, failed)
		}
		if !apart {
			return r, true, err
		}
		if answer.Code != attestd.StatementReused || a.IdempotencyKey != "" || moved {
			return r, false, &ApartError{answer}
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
func (s *Session) lock() (*folderLock, error) {
	lock := s.spool.lockAt(s.path)
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	return lock, nil
}

// add makes a statement at the next place, and keeps both.
func (s *Session) add(ctx context.Context, a attestd.Attestation) (added, error) {
	if a.AgentID == "" {
		a.AgentID = s.identity.AgentID()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lock, err := s.lock()
	if err != nil {
		return added{}, folderError(err)
	}
	defer lock.Unlock()
	for {
		made, err := s.addLocked(ctx, a)
		if !errors.Is(err, errPlacesChanged) {
			return made, err
		}
		if ctx.Err() != nil {
			return added{}, ctx.Err()
		}
	}
}

// addLocked is add of a caller that holds the lock of the session. It is errPlacesChanged where
// another process has written to the file of the session meanwhile.
func (s *Session) addLocked(ctx context.Context, a attestd.Attestation) (added, error) {
	if err := s.spool.repair(); err != nil {
		return added{}, folderError(err)
	}
	known, err := readPlaces(s.path)
	if err != nil {
		return added{}, folderError(err)
	}
	if a.IdempotencyKey != "" {
		if a.IdempotencyKey, err = s.freshID(a, known); err != nil {
			return added{}, err
		}
	}
	next, err := s.next(known)
	if errors.Is(err, attestd.ErrEnded) {
		return added{}, err
	}
	if err != nil {
		return added{}, folderError(err)
	}
	next.End = a.Last
	signed, err := s.identity.Sign(ctx, a, next)
	if err != nil {
		return added{}, err
	}
	at, err := placeOf(signed.Statement)
	if err != nil {
		return added{}, err
	}
	line, err := s.spool.appendSigned(appendLine(nil, signed), s.path, at, known.size)
	if err == nil && a.Last {
		s.ended = at.Hash
	}
	return added{signed, at, line}, folderError(err)
}

// next is the place after those that are used.
func (s *Session) next(known *places) (next attestd.Place, err error) {
	last := known.newest()
	if last != nil && !known.isOver() {
		return attestd.Place{Session: last.Session, Seq: last.Seq + 1, Previous: last.Hash, Refused: known.unnamed()}, nil
	}
	used := last != nil || known.isOver()
	switch head := known.head(); {
	case !used:
		s.spool.removeOldPlaces()
		if next.Continues, used, err = s.before(); err != nil {
			return next, err
		}
		if s.after != nil {
			next.Continues = s.after
		}
	case s.ended != "" && last != nil && last.Hash == s.ended:
		return next, attestd.ErrEnded
	case head != nil:
		next.Continues = &attestd.Continuation{Session: head.Session, KeyID: s.identity.Key().Thumbprint(), Hash: head.Hash}
	}
	if next.Session = s.id; used {
		at := time.Now().UnixMilli()
		if last != nil {
			at = max(at, began(last.Session)+1) // also where the clock has gone back
		}
		next.Session += "~" + strconv.FormatInt(at, 10)
	}
	return next, nil
}

// freshID returns the jti for an attestation whose key was not used in the session, but for
// statements that were refused.
func (s *Session) freshID(a attestd.Attestation, in *places) (string, error) {
	for refusals := 0; ; refusals++ {
		id := attestd.StatementIDAfter(a.IdempotencyKey, refusals)
		before := in.with(id)
		if before == nil {
			return id, nil
		}
		if _, refused := in.refused[before.spot()]; refused {
			continue
		}
		hash, err := s.identity.ActionHash(a)
		switch {
		case err != nil:
			return "", err
		case hash == before.Action:
			return "", ErrSigned
		}
		return "", ErrKeyReused
	}
}

// setApart keeps what the service has refused, at its place in the session. apart is false where
// the line is being sent by a Flush, which finds out what becomes of it.
func (s *Session) setApart(a added, why *attestd.Error) (apart bool, err error) {
	lock := s.spool.lock(addLock)
	if err := lock.Lock(); err != nil {
		return false, fmt.Errorf("spool: %w", err)
	}
	defer lock.Unlock()
	if err := s.spool.repairLocked(); err != nil {
		return false, err
	}
	if !s.spool.holds(a.line) {
		return false, nil
	}
	// In this order: Flush sets apart what is noted, and sends it no more.
	if err := s.spool.refuse(s.identity.Key().Thumbprint(), a.place, why); err != nil {
		return false, err
	}
	if _, err := s.spool.appendRefusal(a.Attestation, why); err != nil {
		return false, err
	}
	s.spool.markSentLocked(a.line)
	return true, nil
}

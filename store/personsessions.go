package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"attestd/crypto/keys"
	"attestd/store/db"
	"attestd/store/projection"
)

// How long people are signed in: at most, and without a request.
const (
	SessionLifetime = 12 * time.Hour
	SessionIdle     = time.Hour

	// a request writes its time where the last one is older
	sessionTouch = time.Minute
	// sessions of a person; another one ends the oldest
	maxSessions = 32
)

// How a person has signed in.
const (
	ByPasskey = "passkey"
	ByOIDC    = "oidc" // by an account at the identity provider of this service
)

// NewSession is a session that begins.
type NewSession struct {
	Secret   string   // made by begin; only its hash is stored
	SignedIn string   // ByPasskey or ByOIDC
	Account  *Subject // of ByOIDC
	// the passkey can be synced, which it could not at its enrolment
	BackupEligible bool
}

// PersonSession is where a person is signed in.
type PersonSession struct {
	ID                            string
	SignedIn, Passkey             string // Passkey is "" where none has signed
	CreatedAt, LastUsedAt, Expiry time.Time
	Reauthenticated               time.Time // zero where no passkey has signed
}

// personSessionRow is the row of a session.
type personSessionRow struct {
	hash                             []byte
	company                          int64
	id, person, signedIn, passkey    string
	created, used, reauthed, expires int64 // Unix milliseconds
	mac                              []byte
	latest                           sql.NullInt64 // control record about the session
}

const personSessionColumns = `hash, company, session_id, person_id, signed_in, passkey, created_at, last_used_at, reauthenticated_at, expires_at, mac`

// subjectSession is of control records about a session.
const subjectSession = "person-session:"

func scanPersonSession(rows *sql.Rows) (r personSessionRow, err error) {
	err = rows.Scan(&r.hash, &r.company, &r.id, &r.person, &r.signedIn, &r.passkey, &r.created, &r.used, &r.reauthed, &r.expires, &r.mac, &r.latest)
	return r, err
}

// sum computes the HMAC of the row.
func (r *personSessionRow) sum(key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	writePart(mac, 't', []byte("row of "+projection.TablePersonSession))
	writePart(mac, 'b', r.hash)
	for _, text := range []string{r.id, r.person, r.signedIn, r.passkey} {
		writePart(mac, 't', []byte(text))
	}
	for _, n := range []int64{r.company, r.created, r.used, r.reauthed, r.expires} {
		writePart(mac, 'i', binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	return mac.Sum(nil)
}

// live reports whether the session has not ended.
func (r *personSessionRow) live(now time.Time) bool {
	at := now.UnixMilli()
	return at < r.expires && at < r.used+SessionIdle.Milliseconds()
}

func (r *personSessionRow) shown() PersonSession {
	return PersonSession{ID: r.id, SignedIn: r.signedIn, Passkey: r.passkey, CreatedAt: time.UnixMilli(r.created), LastUsedAt: time.UnixMilli(r.used),
		Expiry: time.UnixMilli(r.expires), Reauthenticated: r.reauthenticated()}
}

// reauthenticated is when a passkey has signed last; zero where none has.
func (r *personSessionRow) reauthenticated() time.Time {
	if r.reauthed == 0 {
		return time.Time{}
	}
	return time.UnixMilli(r.reauthed)
}

// begin writes a session of the caller, who has signed in with a passkey, or with none of it where
// k is zero.
func (s People) begin(w *db.Conn, by Caller, k Passkey, n *NewSession) (events []controlEvent, err error) {
	key, err := s.keys.needTokenKey(w)
	if err != nil {
		return nil, err
	}
	n.Secret = keys.NewSecret("ses")
	hash := keys.HashSecret(n.Secret)
	at := by.At.UnixMilli()
	r := personSessionRow{hash[:], by.Company.Chain, keys.Fingerprint(hash), by.Person, n.SignedIn, k.CredentialID, at, at, at, by.At.Add(SessionLifetime).UnixMilli(), nil, sql.NullInt64{}}
	if n.SignedIn != ByPasskey {
		r.reauthed = 0
	}
	// the oldest ones go, so that a person has a bounded number
	ended, err := s.endWhere(w, `hash IN (SELECT hash FROM person_session WHERE company = ? AND person_id = ? ORDER BY created_at DESC LIMIT 1000 OFFSET ?)`, r.company, r.person, maxSessions-1)
	if err == nil {
		_, err = w.Exec(`INSERT INTO person_session (`+personSessionColumns+`) VALUES (`+placeholders(1, 11)+`)`,
			r.hash, r.company, r.id, r.person, r.signedIn, r.passkey, r.created, r.used, r.reauthed, r.expires, r.sum(key))
	}
	details := map[string]any{"personId": by.Person, "session": r.id, "signedIn": n.SignedIn, "passkey": textOrNil(k.CredentialID)}
	if n.Account != nil {
		details["account"] = *n.Account
	}
	if n.BackupEligible {
		details["backupEligible"] = true
	}
	return append(signedOut(by.Person, ended), controlEvent{PersonSignedIn, subjectSession + r.id, details}), err
}

// SignIn begins a session of a person whose passkey has signed a challenge, which counts once:
// ErrUsed. The passkey and the person are looked up again. Nobody signs in to a company that is
// suspended: ErrSuspended.
func (s People) SignIn(ctx context.Context, by Caller, k Passkey, challenge UsedProof, n NewSession) (secret string, err error) {
	if err := s.companies.Active(ctx, by); err != nil {
		return "", fmt.Errorf("sign in person %q: %w", by.Person, err)
	}
	err = s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		if err := s.assert(w, by, k, challenge); err != nil {
			return nil, err
		}
		return s.begin(w, by, k, &n)
	})
	if err != nil {
		return "", fmt.Errorf("sign in person %q: %w", by.Person, err)
	}
	return n.Secret, nil
}

// assert uses a challenge up, and requires that the passkey that has signed it and the person count
// in this transaction: ErrNotFound.
func (s People) assert(w *db.Conn, by Caller, k Passkey, challenge UsedProof) error {
	if err := useProofs(w, by.At, []UsedProof{challenge}); err != nil {
		return err
	}
	_, err := s.loadEnabled(w, by.Company, by.Person)
	if errors.Is(err, ErrDisabled) {
		err = db.ErrNotFound
	}
	if err != nil {
		return err
	}
	found, err := passkeys.knownOne(w, "company = ? AND person_id = ? AND credential_id = ?", by.Company.Chain, by.Person, k.CredentialID)
	if err == nil {
		k, err = s.checkPasskey(w, by.Company, found)
	}
	if err == nil && k.RevokedAt != "" {
		err = db.ErrNotFound
	}
	return err
}

// Reauthenticate records in the caller's session that a passkey of the person has signed a
// challenge. ErrUsed, ErrNotFound.
func (s People) Reauthenticate(ctx context.Context, by Caller, k Passkey, challenge UsedProof) error {
	err := s.db.Write(ctx, func(w *db.Conn) error {
		if err := s.assert(w, by, k, challenge); err != nil {
			return err
		}
		r, err := s.sessionOf(w, by.Company, by.Session)
		if err != nil {
			return err
		}
		r.passkey, r.reauthed = k.CredentialID, max(r.reauthed, by.At.UnixMilli())
		return s.update(w, r)
	})
	if err != nil {
		return fmt.Errorf("reauthenticate person %q: %w", by.Person, err)
	}
	return nil
}

// sessionOf reads a session of the company, whose row is what its HMAC says; ErrNotFound.
func (s People) sessionOf(w *db.Conn, company *Company, id string) (personSessionRow, error) {
	r, err := db.Row(w, scanPersonSession, `SELECT `+personSessionColumns+`, NULL FROM person_session WHERE company = ? AND session_id = ?`, company.Chain, id)
	if err == nil {
		err = s.authentic(w, &r)
	}
	return r, err
}

// authentic returns ErrNotFound, as for an unknown session, unless the service has written the row.
func (s People) authentic(c *db.Conn, r *personSessionRow) error {
	key, err := s.keys.tokenKey(c)
	if err == nil && !hmac.Equal(r.sum(key), r.mac) {
		err = db.ErrNotFound
	}
	return err
}

// update writes what may change of a session, unless that has changed since it was read.
func (s People) update(w *db.Conn, r personSessionRow) error {
	key, err := s.keys.needTokenKey(w)
	if err == nil {
		_, err = w.Exec(`UPDATE person_session SET passkey = ?, last_used_at = ?, reauthenticated_at = ?, mac = ? WHERE hash = ? AND mac = ?`,
			r.passkey, r.used, r.reauthed, r.sum(key), r.hash, r.mac)
	}
	return err
}

// Session returns the caller whose session has a secret with this hash; ErrNotFound where there is
// none or it has ended. The row must be what its HMAC says, and the newest control record about the
// session must be that of its beginning. touch says whether it counts as used.
func (s People) Session(ctx context.Context, hash [32]byte, now time.Time, touch bool) (by Caller, err error) {
	var r personSessionRow
	err = s.db.Read(ctx, func(c *db.Conn) error {
		r, err = db.Row(c, scanPersonSession, `SELECT `+personSessionColumns+`, `+latestOf("person_session.company", "'"+subjectSession+"' || person_session.session_id")+`
			FROM person_session WHERE hash = ?`, hash[:])
		if err == nil {
			err = s.authentic(c, &r)
		}
		if err == nil && !r.live(now) {
			err = db.ErrNotFound
		}
		return err
	})
	if err == nil {
		by.Company, err = s.companies.now(ctx, r.company)
	}
	if err != nil {
		return Caller{}, fmt.Errorf("session: %w", err)
	}
	err = s.db.Read(ctx, func(c *db.Conn) error {
		began, err := controlRecord(c, by.Company, r.latest)
		if err != nil {
			return s.db.noted(by.Company, err)
		}
		if began == nil || began.Action() != string(PersonSignedIn) || began.Payload.PersonID != r.person {
			return db.ErrNotFound // it has ended, and its row was put back
		}
		p, err := s.loadEnabled(c, by.Company, r.person)
		// a person who was made later under the same ID is another one
		if errors.Is(err, ErrDisabled) || err == nil && p.CreatedAt > began.Timestamp {
			err = db.ErrNotFound
		}
		by.Person, by.Credential, by.Role = p.ID, people.about(p.ID), p.role()
		return err
	})
	if err != nil {
		return Caller{}, fmt.Errorf("session: %w", err)
	}
	by.Session, by.SignedIn, by.Passkey, by.Reauthenticated = r.id, r.signedIn, r.passkey, r.reauthenticated()
	by.SignedInAt = time.UnixMilli(r.created)
	by.Expires, by.HolderExpires, by.At = time.UnixMilli(r.expires), time.UnixMilli(r.expires), now
	if touch && now.UnixMilli() >= r.used+sessionTouch.Milliseconds() && !s.db.IsReadOnly() {
		r.used = now.UnixMilli()
		// A failure costs no more than an hour of the session.
		_ = s.db.Write(ctx, func(w *db.Conn) error { return s.update(w, r) })
	}
	return by, nil
}

// Sessions returns where a person is signed in, newest first.
func (s People) Sessions(ctx context.Context, by Caller, personID string) (list []PersonSession, err error) {
	err = s.db.Read(ctx, func(c *db.Conn) error {
		rows, err := db.All(c, scanPersonSession, `SELECT `+personSessionColumns+`, NULL FROM person_session WHERE company = ? AND person_id = ? ORDER BY created_at DESC, session_id LIMIT ?`,
			by.Company.Chain, personID, maxSessions)
		for i := range rows {
			if rows[i].live(by.At) {
				list = append(list, rows[i].shown())
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sessions of person %q: %w", personID, err)
	}
	return list, nil
}

// EndSessions ends a session of the caller, or with "" all, and returns them; ErrNotFound where
// there is no such session.
func (s People) EndSessions(ctx context.Context, by Caller, id string) (ended []string, err error) {
	err = s.db.controlled(ctx, by, func(w *db.Conn) (_ []controlEvent, err error) {
		if id == "" {
			ended, err = s.endSessions(w, by.Company, by.Person)
		} else {
			ended, err = s.endWhere(w, "company = ? AND person_id = ? AND session_id = ?", by.Company.Chain, by.Person, id)
		}
		if err == nil && len(ended) == 0 {
			err = db.ErrNotFound
		}
		return signedOut(by.Person, ended), err
	})
	if err != nil {
		return nil, fmt.Errorf("end sessions of person %q: %w", by.Person, err)
	}
	return ended, nil
}

func (s People) endSessions(w *db.Conn, company *Company, personID string) ([]string, error) {
	return s.endWhere(w, "company = ? AND person_id = ?", company.Chain, personID)
}

// signedOut are the changes that sessions of a person have ended before their time.
func signedOut(personID string, ended []string) (events []controlEvent) {
	for _, id := range ended {
		events = append(events, controlEvent{PersonSignedOut, subjectSession + id, map[string]any{"personId": personID, "session": id}})
	}
	return events
}

// endWhere deletes sessions, and returns their IDs.
func (s People) endWhere(w *db.Conn, condition string, args ...any) ([]string, error) {
	return db.All(w, func(rows *sql.Rows) (id string, err error) {
		err = rows.Scan(&id)
		return id, err
	}, `DELETE FROM person_session WHERE `+condition+` RETURNING session_id`, args...)
}

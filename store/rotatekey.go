package store

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
	"attestd/store/sqlite"
)

// rotationGrace is how long after the transaction of a rotation the old key may sign tokens still:
// until the commit is durable, and until no server remembers the key.
const rotationGrace = propagationTime

// endOf is when a key ends whose rotation was asked for at a time and waited for its turn since.
// Tokens were issued under it meanwhile, and will be for rotationGrace. They are dated by the
// second: only where one turns until then, the key ends later than it was asked for.
func endOf(asked time.Time, waited time.Duration) time.Time {
	if end := asked.Add(waited + rotationGrace); end.Unix() > asked.Unix() {
		return end
	}
	return asked
}

// RotateKey gives the caller's company a new key, which signs its tokens, and the records of both
// logs from the next one on. The old key ends: see endOf. Its tokens verify until they expire. With
// compromised, no token signed until now verifies from the return of Companies.RotateKey on: the
// old key and all whose tokens could still be valid are declared compromised. Of next it returns
// the range in the actions, of old none. ErrTooMany.
//
// It is one transaction. Whoever comes after it is answered with the new key: nothing that was
// remembered of the company outlives it.
func (s Companies) RotateKey(ctx context.Context, by Caller, compromised bool) (old, next keyring.Key, err error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return old, next, err
	}
	defer s.forgetKeys() // whatever the outcome
	write := s.db.change
	if compromised { // nothing may hold that up
		write = s.db.urgently(&by)
	} else if err := s.db.Tables.Changeable(by); err != nil {
		return old, next, fmt.Errorf("rotate the key of company %q: %w", by.Company.ID, err)
	}
	var asked time.Duration
	if s.db.writer != nil {
		asked = s.db.writer.keyClock.elapsed()
	}
	err = s.db.recorded(ctx, by, write, func(w *conn) (_ []controlEvent, err error) {
		end := by.At
		if !compromised { // else no token counts
			end = endOf(by.At, s.db.writer.keyClock.elapsed()-asked)
		}
		old, next, err = s.rotate(w, by.Company, private, end, compromised)
		for _, l := range by.Company.Logs() {
			s.db.writer.rekeyed = append(s.db.writer.rekeyed, l.Chain)
		}
		if err != nil {
			return nil, err
		}
		of := keys.Describe(next.Public)
		return []controlEvent{{SigningKeyRotated, subjectSigningKey(of.KID), map[string]any{
			"kid": of.KID, "fingerprint": of.Fingerprint, "previousKid": keys.Describe(old.Public).KID, "compromised": compromised, "fromIndex": next.From, "endedAt": old.EndedAt,
		}}}, nil
	})
	if err != nil {
		return keyring.Key{}, keyring.Key{}, fmt.Errorf("rotate the key of company %q: %w", by.Company.ID, err)
	}
	// What is signed with the old key from now on counts no more, and to cut the log may take a
	// while.
	s.forgetKeys()
	if s.db.isPostgres { // its log is the server's, and its backups'
		return old, next, nil
	}
	if err := sqlite.CutLog(ctx, s.db.path); err != nil { // the rotation is done all the same
		s.db.writer.logger.Warn("the seed of a key that has ended may stand in the write-ahead log until that is cut", "error", err)
	}
	return old, next, nil
}

// rotate ends the key that signs at a time, and puts another in its place. The seed of a key that
// has ended signs nothing more, and goes.
func (s Companies) rotate(w *conn, of *Company, private ed25519.PrivateKey, end time.Time, compromised bool) (old, next keyring.Key, err error) {
	company := of.Chain
	var seed []byte
	if err := w.one([]any{&old.Generation, &old.Public, &seed, &old.CreatedAt},
		`SELECT generation, public_key, seed, created_at FROM company_key WHERE company = ? AND ended_at IS NULL`, company); err != nil {
		return old, next, err
	}
	if old.Generation+1 >= MaxCompanyKeys {
		return old, next, fmt.Errorf("%w: the bound is %d", ErrTooMany, MaxCompanyKeys)
	}
	signer, err := s.db.secrets.PrivateKey(company, old.Generation, seed, old.Public)
	if err != nil {
		return old, next, err
	}
	old.EndedAt = max(chain.FormatTime(end), old.CreatedAt) // the clock may have been set back
	if compromised {
		old.CompromisedAt = old.EndedAt
	}
	next.Generation, next.CreatedAt = old.Generation+1, old.EndedAt
	next.Public = private.Public().(ed25519.PublicKey)

	if err := s.overwriteDeleted(w, true); err != nil {
		return old, next, err
	}
	if _, err := w.exec(`UPDATE company_key SET ended_at = ?, compromised_at = nullif(?, ''), seed = NULL WHERE company = ? AND generation = ?`,
		old.EndedAt, old.CompromisedAt, company, old.Generation); err != nil {
		return old, next, err
	}
	if err := s.overwriteDeleted(w, false); err != nil {
		return old, next, err
	}
	// whoever asks for it after a theft may have rotated before: then it was a former key
	if compromised {
		began, err := parseTime(next.CreatedAt)
		if err != nil {
			return old, next, err
		}
		if _, err := w.exec(`UPDATE company_key SET compromised_at = ? WHERE company = ? AND ended_at > ? AND compromised_at IS NULL`,
			old.CompromisedAt, company, chain.FormatTime(began.Add(-cred.MaxPassportTTL))); err != nil {
			return old, next, err
		}
	}
	if _, err = w.exec(`INSERT INTO company_key (company, generation, public_key, seed, created_at) VALUES (?, ?, ?, ?, ?)`,
		company, next.Generation, []byte(next.Public), s.db.secrets.KeepSeed(company, next.Generation, private), next.CreatedAt); err != nil {
		return old, next, err
	}
	if _, _, err = rotateIn(w, of.Control, next.Generation, signer, private); err == nil {
		next.From, next.Rotation, err = rotateIn(w, of.Actions, next.Generation, signer, private)
	}
	return old, next, err
}

// rotateIn says, and has both keys sign, from which record of a log on a key follows the one before
// it.
func rotateIn(w *conn, l Log, generation int64, old, next ed25519.PrivateKey) (from int64, r *keyring.Rotation, err error) {
	if err := w.one([]any{&from}, w.dialect.rekey, l.Chain); err != nil {
		return 0, nil, err
	}
	r = keyring.Rotate(l.Origin, from, old, next)
	_, err = w.exec(`INSERT INTO log_key (chain, generation, first_record, statement, old_signature, new_signature) VALUES (?, ?, ?, ?, ?, ?)`,
		l.Chain, generation, from, r.Statement, r.OldSignature, r.NewSignature)
	return from, r, err
}

// forgetKeys drops what is remembered of companies, and then of those who ask in their name: a
// lookup of a caller that began before and still holds a former company finds its place taken.
func (s Companies) forgetKeys() {
	s.db.companies.forget()
	s.db.chains.forget()
	s.db.credentials.forget()
}

// overwriteDeleted has SQLite overwrite what is deleted on the connection that writes, where it
// would else stay in the free part of a page, or leave it.
func (s Companies) overwriteDeleted(w *conn, on bool) error {
	if s.db.isPostgres {
		return nil
	}
	if on {
		return w.one([]any{new(int64)}, "PRAGMA secure_delete = ON")
	}
	return w.one([]any{new(int64)}, "PRAGMA secure_delete = OFF")
}

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
	"attestd/crypto/tokenkey"
	"attestd/store/db"
	"attestd/store/sqlite"
)

// rotationGrace is how long after the transaction of a rotation the old key may still sign tokens:
// until the commit is durable and no server caches the key.
const rotationGrace = db.PropagationTime

// endOf returns when a key ends whose rotation was requested at a time and has waited for its turn
// since. Tokens were issued with it meanwhile, and will be for rotationGrace. Token times are in
// seconds, so the end moves only if a new second begins until then.
func endOf(asked time.Time, waited time.Duration) time.Time {
	if end := asked.Add(waited + rotationGrace); end.Unix() > asked.Unix() {
		return end
	}
	return asked
}

// RotateKey gives the caller's company a new key, which signs its tokens and, from the next record
// on, both of its logs. The old key ends: see endOf. Its tokens verify until they expire. With
// compromised, no earlier token verifies when RotateKey returns: the old key, and all former keys
// whose tokens could still be valid, are declared compromised. The keys that sign tokens for others
// rotate with it: see TokenKeys. next has the range in the action
// log, old does not. It returns ErrTooMany if the company has had MaxCompanyKeys keys.
//
// It is one transaction. Later requests use the new key, because no cached value of the company
// survives.
func (s Companies) RotateKey(ctx context.Context, by Caller, compromised bool) (old, next keyring.Key, err error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return old, next, err
	}
	defer s.forgetKeys() // whatever the outcome
	var tokenKeys map[string]*tokenkey.Private
	write := s.db.Change
	if compromised { // must not wait for or depend on anything else
		write = s.db.Urgently(&by.At)
	} else if err := s.db.intact(by.Company.Chain); err != nil {
		return old, next, fmt.Errorf("rotate the key of company %q: %w", by.Company.ID, err)
	} else {
		tokenKeys = s.tokenKeys.prepare(ctx, by)
	}
	var asked time.Duration
	if !s.db.IsReadOnly() {
		asked = s.db.Elapsed()
	}
	var replace bool // token keys
	err = s.db.recorded(ctx, by, write, func(w *db.Conn) (_ []controlEvent, err error) {
		end := by.At
		if !compromised { // otherwise no token of the key counts
			end = endOf(by.At, s.db.Elapsed()-asked)
		}
		old, next, err = s.rotate(w, by.Company, private, end, compromised)
		for _, l := range by.Company.Logs() {
			s.db.Rekeyed(l.Chain)
		}
		if err != nil {
			return nil, err
		}
		of := keys.Describe(next.Public)
		var events []controlEvent
		if compromised {
			events, err = s.tokenKeys.endCompromised(w, by)
			replace = len(events) > 0
		} else {
			events, err = s.tokenKeys.rotate(w, by.Company, end, tokenKeys)
		}
		return append([]controlEvent{{SigningKeyRotated, signingKeys.about(of.KID), map[string]any{
			"kid": of.KID, "fingerprint": of.Fingerprint, "previousKid": keys.Describe(old.Public).KID,
			"compromised": compromised, "fromIndex": next.From, "endedAt": old.EndedAt,
		}}}, events...), err
	})
	if err != nil {
		return keyring.Key{}, keyring.Key{}, fmt.Errorf("rotate the key of company %q: %w", by.Company.ID, err)
	}
	// Tokens signed with the old key from now on do not count, so forget it before cutting the log,
	// which may take a while.
	s.forgetKeys()
	if replace {
		s.tokenKeys.replace(ctx, by)
	}
	if s.db.MultiWriter() { // its write-ahead log belongs to the database server
		return old, next, nil
	}
	if err := sqlite.CutLog(ctx, s.db.Path()); err != nil { // the rotation is complete all the same
		s.db.WriterLogger().Warn("the seed of a former key may remain in the write-ahead log until that is truncated", "error",
			err)
	}
	return old, next, nil
}

// rotate ends the current key at a time, and inserts the next one. It deletes the seed of the old
// key.
func (s Companies) rotate(
	w *db.Conn, of *Company, private ed25519.PrivateKey, end time.Time, compromised bool,
) (old, next keyring.Key, err error) {
	company := of.Chain
	var seed []byte
	if err := w.One([]any{&old.Generation, &old.Public, &seed, &old.CreatedAt},
		`SELECT generation, public_key, seed, created_at FROM company_key WHERE company = ?
			AND ended_at IS NULL`, company); err != nil {
		return old, next, err
	}
	if old.Generation+1 >= MaxCompanyKeys {
		return old, next, fmt.Errorf("%w: the bound is %d", ErrTooMany, MaxCompanyKeys)
	}
	signer, err := s.db.Secrets().PrivateKey(company, old.Generation, seed, old.Public)
	if err != nil {
		return old, next, err
	}
	old.EndedAt = max(chain.FormatTime(end), old.CreatedAt) // the clock may have been set back
	if compromised {
		old.CompromisedAt = old.EndedAt
	}
	next.Generation, next.CreatedAt = old.Generation+1, old.EndedAt
	next.Public = private.Public().(ed25519.PublicKey)

	if err := s.db.overwriteDeleted(w, true); err != nil {
		return old, next, err
	}
	if _, err := w.Exec(`UPDATE company_key SET ended_at = ?, compromised_at = nullif(?, ''), seed = NULL
		WHERE company = ? AND generation = ?`,
		old.EndedAt, old.CompromisedAt, company, old.Generation); err != nil {
		return old, next, err
	}
	if err := s.db.overwriteDeleted(w, false); err != nil {
		return old, next, err
	}
	// after a theft, an earlier rotation may have ended the stolen key
	if compromised {
		began, err := db.ParseTime(next.CreatedAt)
		if err != nil {
			return old, next, err
		}
		if _, err := w.Exec(`UPDATE company_key SET compromised_at = ? WHERE company = ? AND ended_at > ?
			AND compromised_at IS NULL`,
			old.CompromisedAt, company, chain.FormatTime(began.Add(-cred.MaxPassportTTL))); err != nil {
			return old, next, err
		}
	}
	if err = s.insertKey(w, company, next.Generation, private, next.CreatedAt); err != nil {
		return old, next, err
	}
	if _, _, err = rotateIn(w, of.Control, next.Generation, signer, private); err == nil {
		next.From, next.Rotation, err = rotateIn(w, of.Actions, next.Generation, signer, private)
	}
	return old, next, err
}

// rotateIn records from which record of a log on the next key follows the old one, with a statement
// signed by both keys.
func rotateIn(
	w *db.Conn, l db.Log, generation int64, old, next ed25519.PrivateKey,
) (from int64, r *keyring.Rotation, err error) {
	if from, err = w.Rekey(l.Chain); err != nil {
		return 0, nil, err
	}
	r = keyring.Rotate(l.Origin, from, old, next)
	_, err = w.Exec(`INSERT INTO log_key (chain, generation, first_record, statement, old_signature, new_signature)
		VALUES (?, ?, ?, ?, ?, ?)`,
		l.Chain, generation, from, r.Statement, r.OldSignature, r.NewSignature)
	return from, r, err
}

// forgetKeys clears the caches of companies, and then of credentials, which refer to companies. A
// concurrent lookup that has read a former company cannot store it afterwards.
func (s Companies) forgetKeys() {
	s.byID.Forget()
	s.byChain.Forget()
	s.credentials.forgetTokens()
	s.tokenKeys.sets.Forget()
}

// MaxCompanyKeys is the maximum number of keys of a company over its lifetime: a new one each day
// for 27 years.
const MaxCompanyKeys = 10_000

// insertFirstKey inserts the first key of a new company.
func (s Companies) insertFirstKey(w *db.Conn, company int64, private ed25519.PrivateKey, createdAt string) error {
	return s.insertKey(w, company, 0, private, createdAt)
}

func (s Companies) insertKey(w *db.Conn, company, generation int64, private ed25519.PrivateKey, createdAt string) error {
	_, err := signingKeys.insert(w, &storedSigningKey{company: company, generation: generation, public: private.Public().(ed25519.PublicKey),
		seed: s.db.Secrets().KeepSeed(company, generation, private), createdAt: createdAt}, "")
	return err
}

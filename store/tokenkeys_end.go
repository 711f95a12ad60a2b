package store

import (
	"context"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/tokenkey"
	"attestd/store/db"
	"attestd/store/sqlite"
)

func tokenKeyEnded(kid, endedAt string, compromised bool) controlEvent {
	return controlEvent{TokenKeyEnded, tokenKeys.about(kid), map[string]any{"kid": kid, "endedAt": endedAt, "compromised": compromised}}
}

// prepare generates the keys that a rotation probably needs, by algorithm, before its transaction,
// because RSA keys are slow. The transaction makes those that are missing.
func (s TokenKeys) prepare(ctx context.Context, by Caller) map[string]*tokenkey.Private {
	next := map[string]*tokenkey.Private{}
	keys, err := s.read(ctx, by)
	if err != nil {
		return next
	}
	for _, k := range keys {
		if k.EndedAt != "" || next[k.Algorithm] != nil {
			continue
		}
		if private, err := tokenkey.Generate(k.Algorithm); err == nil {
			next[k.Algorithm] = private
		}
	}
	return next
}

// rotate lets a key follow each one that signs, after the time in which verifiers learn of it. A
// key that does not sign yet stays.
func (s TokenKeys) rotate(w *db.Conn, company *Company, at time.Time, next map[string]*tokenkey.Private) (events []controlEvent, err error) {
	from := at.Add(tokenKeyNotice)
	current, err := db.All(w, tokenKeys.scan, "SELECT "+tokenKeys.list("token_key")+` FROM token_key WHERE company = ? AND ended_at IS NULL ORDER BY alg`, company.Chain)
	if err != nil {
		return nil, err
	}
	for _, old := range current {
		if old.SignsFrom > chain.FormatTime(at) {
			continue
		}
		private := next[old.Algorithm]
		if private == nil {
			if private, err = tokenkey.Generate(old.Algorithm); err != nil {
				return nil, err
			}
		}
		ended := chain.FormatTime(from)
		if _, err := w.Exec(`UPDATE token_key SET ended_at = ? WHERE company = ? AND kid = ?`, ended, company.Chain, old.KID); err != nil {
			return nil, err
		}
		created, err := s.insert(w, company, private, at, from)
		if err != nil {
			return nil, err
		}
		events = append(events, created, tokenKeyEnded(old.KID, ended, false))
	}
	return events, nil
}

// endCompromised declares all keys compromised whose tokens may be valid, now or later, and deletes
// their private parts.
func (s TokenKeys) endCompromised(w *db.Conn, by Caller) (events []controlEvent, err error) {
	keys, err := db.All(w, tokenKeys.scan, "SELECT "+tokenKeys.list("token_key")+` FROM token_key
		WHERE company = ? AND (ended_at IS NULL OR ended_at > ?) AND compromised_at IS NULL ORDER BY kid`,
		by.Company.Chain, chain.FormatTime(by.At.Add(-TokenLife)))
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	if err := s.db.overwriteDeleted(w, true); err != nil {
		return nil, err
	}
	for _, k := range keys {
		now := max(chain.FormatTime(by.At), k.CreatedAt) // the clock may have been set back
		ended := now
		if k.EndedAt != "" {
			ended = min(ended, k.EndedAt)
		}
		if _, err := w.Exec(`UPDATE token_key SET ended_at = ?, compromised_at = ?, private = NULL WHERE company = ? AND kid = ?`,
			ended, now, by.Company.Chain, k.KID); err != nil {
			return nil, err
		}
		events = append(events, tokenKeyEnded(k.KID, ended, true))
	}
	return events, s.db.overwriteDeleted(w, false)
}

// replace makes the keys that follow compromised ones. What fails is made when it is first needed.
func (s TokenKeys) replace(ctx context.Context, by Caller) {
	if _, err := s.whole(ctx, by, nil); err != nil {
		s.db.WriterLogger().Warn("the token keys that follow compromised ones are made when they are first needed",
			"company", by.Company.ID, "error", err)
		return
	}
	s.db.WaitPropagation(ctx)
}

// wipeAfter is how long after its end the private part of a key is there still: a request may have
// its time from before.
const wipeAfter = time.Minute

// Wipe deletes the private parts of the keys that sign no more.
func (s TokenKeys) Wipe(ctx context.Context, now time.Time) error {
	const ended = ` FROM token_key WHERE private IS NOT NULL AND ended_at <= ?`
	until := chain.FormatTime(now.Add(-wipeAfter))
	var due int64
	err := s.db.Read(ctx, func(r *db.Conn) error { return r.One([]any{&due}, "SELECT count(*)"+ended, until) })
	if err == nil && due > 0 {
		err = s.db.Write(ctx, func(w *db.Conn) error {
			if err := s.db.overwriteDeleted(w, true); err != nil {
				return err
			}
			if _, err := w.Exec(`UPDATE token_key SET private = NULL WHERE private IS NOT NULL AND ended_at <= ?`, until); err != nil {
				return err
			}
			return s.db.overwriteDeleted(w, false)
		})
		s.sets.Forget()
		if err == nil && !s.db.MultiWriter() {
			err = sqlite.CutLog(ctx, s.db.Path())
		}
	}
	if err != nil {
		return fmt.Errorf("take out the private parts of token keys: %w", err)
	}
	return nil
}

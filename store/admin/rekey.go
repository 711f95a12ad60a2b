package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"attestd/chain"
	"attestd/crypto/seal"
	"attestd/store"
	"attestd/store/atrest"
	"attestd/store/db"
	"attestd/store/sqlite"
)

// RekeyOptions has the current master key of the file's secrets and the new one; nil means
// plaintext.
type RekeyOptions struct {
	Old, New *seal.Master
	Heads    string                                // head file, next to the file of verified logs
	Progress func(stage string, done, total int64) // "seal" in secrets, "copy" in bytes; may be nil
}

// Rekey seals the private keys and API keys of the database at path, seals them under another
// master key, or stores them in plaintext again. It also replaces the hashes of credentials by
// HMACs if it has not yet. No server may have the database open: ErrInUse.
//
// It has two atomic steps, and resumes after an interruption. One transaction changes all secrets
// and settings. Then a copy without free pages, which might contain old secrets, replaces the file.
// After the first step, Old is no longer needed. Rekey cannot reach older backups, snapshots and
// blocks of the disk.
func Rekey(ctx context.Context, path, schema string, o RekeyOptions) error {
	path, err := db.Absolute(path)
	if err != nil {
		return err
	}
	found, err := db.Identify(ctx, path)
	if err != nil {
		return err
	}
	if found.Sealing.KeyID != keyID(o.New) {
		if err := changeSecrets(ctx, path, schema, found.Sealing, o); err != nil {
			return err
		}
	} else if !found.Sealing.Scrub {
		return nil
	}
	if err := scrub(ctx, path, o.Progress); err != nil {
		return fmt.Errorf("the keys are changed, but free pages of the file may hold the old ones; run it once more: %w", err)
	}
	return nil
}

func keyID(master *seal.Master) string {
	if master == nil {
		return ""
	}
	return master.ID()
}

// changeSecrets is the first step. It stores every secret under the new master key, and changes the
// settings.
func changeSecrets(ctx context.Context, path, schema string, found atrest.Sealing, o RekeyOptions) error {
	s, err := store.Open(ctx, path, schema, store.Options{Master: o.Old})
	if err != nil {
		return err
	}
	err = Run(ctx, s, store.RunOptions{AcceptClock: true}, func() error { // no time is written
		old, err := found.Unseal(path, o.Old)
		if err != nil {
			return err
		}
		return s.Write(ctx, func(w *db.Conn) error { return reseal(w, s.Tables, found, old, o) })
	})
	if err != nil {
		return fmt.Errorf("change the master key: %w", err)
	}
	return forgetVerified(o.Heads)
}

// forgetVerified removes the file of what was verified: its MAC is of the old master key, so the
// next server would warn of an external write.
func forgetVerified(heads string) error {
	if heads == "" {
		return nil
	}
	if err := os.Remove(store.VerifiedBeside(heads)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what was verified before: %w", err)
	}
	return nil
}

func reseal(w *db.Conn, tables store.Tables, found atrest.Sealing, old atrest.Secrets, o RekeyOptions) error {
	next, values := atrest.New(o.New, &old)
	if err := store.LeaveUnrecorded(w, unrecordedRekey(found, atrest.Sealing{KeyID: keyID(o.New)},
		time.Now())); err != nil {
		return err
	}
	values["scrub"] = "due"
	if _, err := w.Exec(`DELETE FROM setting WHERE name IN ('master_key_id', 'seal_salt', 'lookup_key', 'scrub')`); err != nil {
		return err
	}
	for name, value := range values {
		if _, err := w.Exec(`INSERT INTO setting (name, value) VALUES (?, ?)`, name, value); err != nil {
			return err
		}
	}
	r := resealing{Conn: w, tables: tables, old: old, next: next, progress: o.Progress}
	return r.run()
}

// unrecordedRekey returns the pending control record about a change of the master key.
func unrecordedRekey(from, to atrest.Sealing, at time.Time) store.Unrecorded {
	return store.Unrecorded{Action: store.DatabaseRekeyed, Subject: store.SubjectDatabase,
		Details: map[string]any{"from": from.String(), "to": to.String(), "rekeyedAt": chain.FormatTime(at)}}
}

// scrub is the second step. VACUUM copies only live rows.
func scrub(ctx context.Context, path string, progress func(stage string, done, total int64)) error {
	l, err := checkTarget(ctx, path, true)
	if err != nil {
		return err
	}
	defer l.Unlock()
	tmp, err := compactCopy(ctx, path, path, progress)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	if err := endScrub(ctx, tmp.Path); err != nil {
		return err
	}
	if err := retire(ctx, path); err != nil {
		return err
	}
	return sqlite.Replace(tmp.Path, path)
}

// endScrub checks the copy at path, and removes the setting that free pages may contain old
// secrets.
func endScrub(ctx context.Context, path string) error {
	return db.OnFile(ctx, path, sqlite.ModeCreate, func(c *db.Conn) error {
		if err := c.CheckPages(ctx); err != nil {
			return err
		}
		_, err := c.Exec(`DELETE FROM setting WHERE name = 'scrub'`)
		return err
	})
}

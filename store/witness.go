package store

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/store/atrest"
	"attestd/store/db"
	"attestd/store/headfile"
)

// Cosigner is the key with which we cosign the logs of others, and what it has signed.
type Cosigner struct {
	db   *base
	head *headState

	// what is known of the logs of others
	cosigned *cosigned
}

// Key returns the name and the private key with which this database cosigns the logs of others. The
// first call creates both, permanently. The key has no other use, because a cosignature does not
// say which log or program it belongs to. An empty name selects the existing one, or initially the
// host of the logs' origins with "/witness". The caller MUST call Key before Run. It returns
// ErrRefused if the cosigner has a different name, or if name is invalid.
func (s Cosigner) Key(ctx context.Context, name string, now time.Time) (string, ed25519.PrivateKey, error) {
	if s.db.IsReadOnly() {
		return "", nil, db.ErrReadOnly
	}
	fixed, private, err := s.readKey(s.db.WriterConn())
	if errors.Is(err, db.ErrNotFound) {
		if reason := s.db.Stopped(); reason != nil {
			return "", nil, fmt.Errorf("key of the witness: %w", reason)
		}
		if err := s.cosigned.stop(); err != nil { // the key that it signed with is gone
			return "", nil, fmt.Errorf("key of the witness: %w", err)
		}
		fixed = cmp.Or(name, s.db.logHost+"/witness")
		private, err = s.makeKey(s.db.WriterConn(), fixed, now)
	}
	if err == nil && name != "" && name != fixed {
		err = fmt.Errorf("%w: the witness is named %q, for good; asked for %q", db.ErrRefused, fixed, name)
	}
	if err != nil {
		return "", nil, fmt.Errorf("key of the witness: %w", err)
	}
	return fixed, private, nil
}

func (s Cosigner) readKey(r *db.Conn) (name string, private ed25519.PrivateKey, err error) {
	var seed, public []byte
	if err := r.One([]any{&name, &public, &seed}, `SELECT name, public_key, seed FROM witness_key`); err != nil {
		return "", nil, err
	}
	private, err = s.db.Secrets().CosignerKey(seed, public)
	return name, private, err
}

func (s Cosigner) makeKey(w *db.Conn, name string, now time.Time) (ed25519.PrivateKey, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	if _, err := tlog.ParseVKey((tlog.VKey{Name: name, Type: tlog.TypeCosignature, Public: public}).String()); err != nil {
		return nil, fmt.Errorf("%w: a witness cannot be named %q", db.ErrRefused, name)
	}
	return private, s.insertKey(w, name, private, now)
}

func (s Cosigner) insertKey(w *db.Conn, name string, private ed25519.PrivateKey, now time.Time) error {
	_, err := w.Exec(`INSERT INTO witness_key (id, name, public_key, seed, created_at) VALUES (1, ?, ?, ?, ?)`,
		name, []byte(private.Public().(ed25519.PublicKey)), s.db.Secrets().Keep(private.Seed(),
			atrest.CosignerPlace), chain.FormatTime(now))
	return err
}

// CosignedLogs is the stored state of a cosigner about the logs of others. It implements
// witness.State.
type CosignedLogs struct{ of Cosigner }

// Logs returns the state of this database's cosigner.
func (s Cosigner) Logs() CosignedLogs { return CosignedLogs{s} }

// Latest implements witness.State. It returns a *CosignerError if the database has less than was
// cosigned.
func (l CosignedLogs) Latest(ctx context.Context, origin string) (latest tlog.Tree, err error) {
	known, err := l.of.cosigned.of(origin) // read before the row, which may grow
	if err == nil {
		err = l.of.db.Read(ctx, func(r *db.Conn) error {
			latest, err = latestCosigned(r, origin)
			return err
		})
	}
	if err == nil {
		err = l.of.cosigned.compare(origin, known, latest)
	}
	if err != nil {
		return tlog.Tree{}, fmt.Errorf("cosigned log %q: %w", origin, err)
	}
	l.of.cosigned.put(origin, latest)
	return latest, nil
}

// Advance implements witness.State. When it returns true, the head file, if there is one, has the
// tree too; ErrUnavailable means that it could not be written. It returns a *CosignerError if the
// database has less than was cosigned.
func (l CosignedLogs) Advance(
	ctx context.Context, origin string, from, to tlog.Tree, checkpoint []byte,
) (advanced bool, err error) {
	hash := sha256.Sum256([]byte(origin))
	known, err := l.of.cosigned.of(origin)
	if err == nil {
		err = l.of.db.Write(ctx, func(w *db.Conn) error {
			latest, err := latestCosigned(w, origin)
			if err == nil {
				err = l.of.cosigned.compare(origin, known, latest)
			}
			if advanced = err == nil && latest == from; !advanced {
				return err
			}
			_, err = w.Exec(`INSERT INTO witness_log (origin, origin_hash, size, root, note) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (origin) DO UPDATE SET size = excluded.size, root = excluded.root, note = excluded.note`, origin, hash[:], to.Size, to.Root[:], string(checkpoint))
			return err
		})
	}
	if err == nil && advanced {
		l.of.cosigned.put(origin, to)
		if l.of.head.heads.hasFile() {
			err = l.of.head.heads.cosign(ctx, headfile.Cosigned{Origin: hash, Size: to.Size, Root: to.Root})
		}
	}
	if err != nil {
		return false, fmt.Errorf("advance cosigned log %q: %w", origin, err)
	}
	return advanced, nil
}

// latestCosigned reads the last cosigned tree of a log, or the empty tree.
func latestCosigned(c *db.Conn, origin string) (tlog.Tree, error) {
	var size int64
	var root []byte
	err := c.One([]any{&size, &root}, `SELECT size, root FROM witness_log WHERE origin = ?`, origin)
	switch {
	case errors.Is(err, db.ErrNotFound):
		return tlog.Tree{Root: tlog.EmptyRoot()}, nil
	case err != nil:
		return tlog.Tree{}, err
	}
	tree := tlog.Tree{Size: size}
	db.FillHash(tree.Root[:], root)
	return tree, nil
}

// Checkpoint returns the last cosigned checkpoint of the log whose origin has this SHA-256, with
// the cosignature, or ErrNotFound.
func (l CosignedLogs) Checkpoint(ctx context.Context, originHash [sha256.Size]byte) (note string, err error) {
	err = l.of.db.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&note}, `SELECT note FROM witness_log WHERE origin_hash = ?`, originHash[:])
	})
	if err != nil {
		return "", fmt.Errorf("cosigned log %x: %w", originHash, err)
	}
	return note, nil
}

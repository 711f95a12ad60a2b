package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"sync"

	"attestd/chain/tlog"
	"attestd/store/db"
	"attestd/store/headfile"
)

// CosignerError means that this database's cosigner has signed trees of other logs that are missing
// from the database. It signs nothing until an operator accepts that, because it might sign a
// different history. It wraps ErrRolledBack.
type CosignerError struct{ Behind []Behind }

func (e *CosignerError) Error() string { return db.ErrRolledBack.Error() + ": " + e.Reason() }
func (e *CosignerError) Unwrap() error { return db.ErrRolledBack }

// Reason describes the first affected log, by its origin or the SHA-256 of it, and says how many
// more there are.
func (e *CosignerError) Reason() string {
	reason := fmt.Sprintf("log %s %s", e.Behind[0].origin, e.Behind[0].Why)
	if more := len(e.Behind) - 1; more > 0 {
		reason += fmt.Sprintf(" (and %d more logs)", more)
	}
	return reason
}

// cosigned is what this process knows of the cosigner's signatures, from the head file and since
// the start. It never has more than was durable at some time.
type cosigned struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]tlog.Tree // by the SHA-256 of the origin
	// why signing has stopped; nil while the database has all of known
	behind *CosignerError
}

func (c *cosigned) of(origin string) (tlog.Tree, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.behind != nil {
		return tlog.Tree{}, c.behind
	}
	return c.known[sha256.Sum256([]byte(origin))], nil
}

// put adds a tree that was made durable, unless a larger one is known.
func (c *cosigned) put(origin string, tree tlog.Tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = make(map[[sha256.Size]byte]tlog.Tree)
	}
	if hash := sha256.Sum256([]byte(origin)); tree.Size >= c.known[hash].Size {
		c.known[hash] = tree
	}
}

// compare checks the tree in the database against the tree that was known before the database was
// read.
func (c *cosigned) compare(origin string, known, found tlog.Tree) error {
	hash := sha256.Sum256([]byte(origin))
	why := whyForgotten(known, found)
	if why == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.behind == nil {
		c.behind = &CosignerError{[]Behind{forgotten(hash, origin, known, found, why)}}
	}
	return c.behind
}

// stop returns why signing has stopped, or nil.
func (c *cosigned) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.behind == nil {
		return nil
	}
	return c.behind
}

// Stopped returns why the cosigner signs nothing, a *CosignerError, or nil while it signs.
func (s Cosigner) Stopped() error { return s.cosigned.stop() }

// whyForgotten describes what the database has lost of a cosigned log, or returns "".
func whyForgotten(known, found tlog.Tree) string {
	switch {
	case found.Size < known.Size:
		return fmt.Sprintf("was cosigned at size %d with log root %x, and the last that is known is size %d", known.Size,
			known.Root[:], found.Size)
	case found.Size == known.Size && found.Root != known.Root && known.Size > 0:
		return fmt.Sprintf("was cosigned at size %d with log root %x, and log root %x is known of that size", known.Size,
			known.Root[:], found.Root[:])
	}
	return ""
}

func forgotten(hash [sha256.Size]byte, origin string, known, found tlog.Tree, why string) Behind {
	if origin == "" { // the database does not have it any more
		origin = "of the origin with SHA-256 " + hex.EncodeToString(hash[:])
	}
	return Behind{
		Log: db.Cosigned, Why: why, origin: origin,
		Known: headfile.Head{Tree: headfile.Tree{Size: known.Size, LogRoot: known.Root}},
		Found: headfile.Head{Tree: headfile.Tree{Size: found.Size, LogRoot: found.Root}},
	}
}

// trees reads the cosigned trees from the database.
func (s Cosigner) trees(
	ctx context.Context,
) (list []headfile.Cosigned, origins map[[sha256.Size]byte]string, err error) {
	origins = make(map[[sha256.Size]byte]string)
	err = s.db.Read(ctx, func(r *db.Conn) error {
		return r.Each(func(rows *sql.Rows) error {
			var c headfile.Cosigned
			var origin string
			var root []byte
			err := rows.Scan(&origin, &c.Size, &root)
			db.FillHash(c.Root[:], root)
			c.Origin = sha256.Sum256([]byte(origin))
			origins[c.Origin] = origin
			list = append(list, c)
			return err
		}, `SELECT origin, size, root FROM witness_log ORDER BY origin`)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("cosigned logs: %w", err)
	}
	return list, origins, nil
}

// open compares the cosigned trees in the database with those in the head file, and remembers the
// larger of both.
func (s Cosigner) open(ctx context.Context, file *headfile.File) error {
	behind, err := s.compare(ctx, file)
	if err != nil {
		return err
	}
	if len(behind) > 0 {
		s.cosigned.behind = &CosignerError{behind}
		s.db.notices = append(s.db.notices, fmt.Sprintf("nothing is cosigned: %v; see attestd help accept-rollback",
			s.cosigned.behind))
	}
	return nil
}

// compare finds the other logs of which the database has a smaller tree than its head file, or a
// different one.
func (s Cosigner) compare(ctx context.Context, file *headfile.File) (behind []Behind, err error) {
	list, origins, err := s.trees(ctx)
	if err != nil {
		return nil, err
	}
	found := make(map[[sha256.Size]byte]tlog.Tree, len(list))
	for _, c := range list {
		found[c.Origin] = tlog.Tree{Size: c.Size, Root: c.Root}
		s.cosigned.put(origins[c.Origin], found[c.Origin])
	}
	err = file.EachCosigned(func(c headfile.Cosigned) error {
		known := tlog.Tree{Size: c.Size, Root: c.Root}
		if why := whyForgotten(known, found[c.Origin]); why != "" {
			behind = append(behind, forgotten(c.Origin, origins[c.Origin], known, found[c.Origin], why))
		}
		return nil
	})
	return behind, err
}

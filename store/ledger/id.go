package ledger

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"attestd/store/db"
	"attestd/store/headfile"
)

// DatabaseID returns the ID of the database, which its copies share.
func (l *Ledger) DatabaseID(ctx context.Context) (id headfile.ID, err error) {
	var text string
	err = l.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&text}, `SELECT value FROM setting WHERE name = 'database_id'`)
	})
	if err == nil {
		id, err = ParseLogID(text)
	}
	if errors.Is(err, db.ErrNotFound) {
		err = fmt.Errorf("%w: the setting database_id is missing", db.ErrCorrupt)
	}
	return id, err
}

// ParseLogID parses 32 hex digits.
func ParseLogID(text string) (id [16]byte, err error) {
	if n, err := hex.Decode(id[:], []byte(text[:min(len(text), 32)])); err != nil || n != len(id) || len(text) != 32 {
		return id, fmt.Errorf("%w: %q is not 32 hex digits", db.ErrCorrupt, text)
	}
	return id, nil
}

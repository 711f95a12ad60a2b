package backups

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"

	"attestd/store"
	"attestd/store/admin"
	"attestd/store/headfile"
	"attestd/store/sqlite"
)

// readBack reads the backup from its place, compares it with what was sent, and restores it to a
// temporary file if it can be opened.
func (b *making) readBack(ctx context.Context) error {
	if b.canOpen() {
		b.copied.Discard() // the room of one copy is enough
		b.copied = nil
	}
	r, err := b.to.Read(ctx, b.name.String(), b.manifest.Version)
	if err != nil {
		return err
	}
	defer r.Close()
	paced := pacedReader{r, b.pace(ctx, filepath.Dir(b.temp))}
	if !b.canOpen() {
		return compareSent(b.manifest, paced, io.Discard, nil, b.Progress)
	}
	if b.copied, err = sqlite.NewTemp(b.temp); err != nil {
		return err
	}
	return restoreTo(b.copied.Path, b.manifest, paced, b.Identities, b.Progress)
}

// verify opens the plaintext database and verifies it completely: every page, table, chain and
// head, and that it has at least what the database had at the beginning.
func (b *making) verify(ctx context.Context) error {
	s, heads, err := verifyDatabase(ctx, b.copied.Path, b.Schema, b.Progress)
	if err != nil {
		return err
	}
	b.checked = s
	if err := s.Rollback.CheckHeads(ctx, b.begin); err != nil {
		return fmt.Errorf("it lacks what the database had when the backup began: %w", err)
	}
	b.manifest.describe(heads)
	return nil
}

// verifyDatabase verifies the database at path, which has no other writer, and returns it open,
// with its heads.
func verifyDatabase(ctx context.Context, path, schema string, progress func(string, int64, int64)) (_ *store.Store, heads []headfile.Head, err error) {
	s, err := store.OpenReadOnly(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := s.VerifyContents(ctx, runtime.GOMAXPROCS(0), func(done, total int64) { progress("verify", done, total) }); err != nil {
		return nil, nil, err
	}
	if err := admin.CheckFile(ctx, s, schema); err != nil {
		return nil, nil, err
	}
	heads, err = s.Rollback.Heads(ctx)
	return s, heads, err
}

package backups

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"attestd/store/headfile"
)

// sweep chooses the name of the backup, and removes what killed processes have left of others of
// the same database.
func (b *making) sweep(ctx context.Context, id headfile.ID) (err error) {
	if b.existing, err = b.to.List(ctx); err != nil {
		return err
	}
	isOurs := func(text string) bool {
		n, ok := ParseName(text)
		return ok && n.Database == id
	}
	number := 0
	for _, text := range b.existing {
		n, ok := ParseName(strings.TrimSuffix(strings.TrimSuffix(text, partialSuffix), manifestSuffix))
		if ok && n.Database == id {
			number = max(number, n.Number)
		}
	}
	if b.name, err = newName(id, number+1, b.At, len(b.Recipients) > 0); err != nil {
		return err
	}
	if err := b.to.Sweep(ctx, b.At, isOurs); err != nil {
		return fmt.Errorf("remove what an interrupted backup has left: %w", err)
	}
	for _, text := range b.existing {
		n, ok := ParseName(text)
		if !ok || n.Database != id || b.At.Sub(n.Time) < abandoned || slices.Contains(b.existing, n.manifest()) {
			continue
		}
		// A list that leaves out the manifest must not cost the backup.
		if _, err := b.to.Size(ctx, n.manifest(), ""); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		// A locked one stays until a later backup finds it unlocked.
		_ = b.to.Remove(ctx, text, "")
	}
	return nil
}

// prune removes old backups of the same database beyond the newest that are to be retained. Only
// those whose manifest and size are as they were count. It leaves a backup that is locked, or that
// has what the database now lacks, and says why. Old is what has a lower number than this backup.
func (b *making) prune(ctx context.Context) (removed, left []string) {
	if b.Keep <= 0 {
		return nil, nil
	}
	kept := 1 // this one
	var old []Name
	for _, text := range b.existing {
		if n, ok := ParseName(text); ok && n.Database == b.name.Database && compareNames(n, b.name) < 0 {
			old = append(old, n)
		}
	}
	slices.SortFunc(old, func(a, b Name) int { return compareNames(b, a) })
	for _, n := range old {
		m, err := readManifest(ctx, b.to, n)
		if errors.Is(err, fs.ErrNotExist) {
			continue // unfinished
		}
		if err == nil {
			var size int64
			size, err = b.to.Size(ctx, n.String(), m.Version)
			if err == nil && size != m.Size {
				err = fmt.Errorf("it has %d bytes, and its manifest says %d", size, m.Size)
			}
		}
		switch {
		case ctx.Err() != nil:
			return removed, append(left, ctx.Err().Error())
		case err != nil:
			left = append(left, fmt.Sprintf("%s: %v", b.to.Address(n.String()), err))
		case kept < b.Keep:
			kept++
		case m.RetainUntil != nil && b.At.Before(*m.RetainUntil):
			// it is locked, and a later backup removes it
		default:
			if err := b.remove(ctx, n, m); err != nil {
				left = append(left, fmt.Sprintf("%s: %v", b.to.Address(n.String()), err))
			} else {
				removed = append(removed, n.String())
			}
		}
	}
	return removed, left
}

// remove removes an old backup. Its manifest goes first: if the process is killed in between, the
// rest is unfinished and removed later.
func (b *making) remove(ctx context.Context, n Name, m Manifest) error {
	known, err := m.heads()
	if err != nil {
		return err
	}
	if m.Records > b.manifest.Records {
		return fmt.Errorf("it is not removed, because it has %d records and the new backup has %d", m.Records,
			b.manifest.Records)
	}
	if err := b.checked.Rollback.CheckHeads(ctx, known); err != nil {
		return fmt.Errorf("it is not removed, because it has what the new backup lacks: %w", err)
	}
	if err := b.to.Remove(ctx, n.manifest(), ""); err != nil {
		return err
	}
	return b.to.Remove(ctx, n.String(), m.Version)
}

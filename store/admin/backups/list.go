package backups

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"attestd/store"
	"attestd/store/admin"
	"attestd/store/db"
	"attestd/store/headfile"
	"attestd/store/sqlite"
)

// Listed is a backup in its place. Manifest is the zero value if it is unfinished, or if Err says
// why it cannot be read or does not fit.
type Listed struct {
	Name
	Address  string
	Manifest Manifest
	Err      error
}

// Done reports whether the backup was verified when it was made, and is there.
func (l Listed) Done() bool { return l.Err == nil && l.Manifest.Form != "" }

// List returns the backups of all databases in a place, the oldest first.
func List(ctx context.Context, p Place) (list []Listed, err error) {
	names, err := p.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, text := range names {
		n, ok := ParseName(text)
		if !ok {
			continue
		}
		l, err := look(ctx, p, n)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b Listed) int { return compareNames(a.Name, b.Name) })
	return list, nil
}

// look compares a backup with its manifest. The error is that of ctx.
func look(ctx context.Context, p Place, n Name) (Listed, error) {
	l := Listed{Name: n, Address: p.Address(n.String())}
	switch m, err := readManifest(ctx, p, n); {
	case ctx.Err() != nil:
		return l, ctx.Err()
	case errors.Is(err, fs.ErrNotExist): // unfinished
	case err != nil:
		l.Err = err
	default:
		var size int64
		if size, l.Err = p.Size(ctx, n.String(), m.Version); l.Err == nil && size != m.Size {
			l.Err = fmt.Errorf("%w: it has %d bytes, and its manifest says %d", store.ErrCorrupt, size, m.Size)
		}
		l.Manifest = m
	}
	return l, nil
}

// Latest looks at the newest backups of a database, most of them at most, until it has found one
// that is done. found is the zero value if there is none, and wrong has those that do not fit their
// manifests.
func Latest(ctx context.Context, p Place, id headfile.ID, most int) (found Listed, wrong []Listed, err error) {
	ours, err := namesOf(ctx, p, id)
	if err != nil {
		return found, nil, err
	}
	for _, n := range ours[:min(most, len(ours))] {
		l, err := look(ctx, p, n)
		switch {
		case err != nil:
			return found, wrong, err
		case l.Done():
			return l, wrong, nil
		case l.Err != nil:
			wrong = append(wrong, l)
		}
	}
	return found, wrong, nil
}

// namesOf returns the names of the backups of a database, the newest first.
func namesOf(ctx context.Context, p Place, id headfile.ID) (ours []Name, err error) {
	names, err := p.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, text := range names {
		if n, ok := ParseName(text); ok && n.Database == id {
			ours = append(ours, n)
		}
	}
	slices.SortFunc(ours, func(a, b Name) int { return compareNames(b, a) })
	return ours, nil
}

// Verify reads a backup from its place, compares it with its manifest, restores it to a temporary
// file in the folder temp, and verifies that. Of an encrypted one without identities it compares
// only the digest.
func Verify(ctx context.Context, p Place, l Listed, temp string, o Options) (err error) {
	if l.Err != nil {
		return l.Err
	}
	if !l.Done() {
		return fmt.Errorf("%w: %s has no manifest, so it is unfinished", store.ErrRefused, l.Address)
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	r, err := p.Read(ctx, l.Name.String(), l.Manifest.Version)
	if err != nil {
		return err
	}
	defer r.Close()
	paced := pacedReader{r, &pace{ctx: ctx, rate: o.Rate, dirs: []string{temp}}}
	if l.Encrypted && len(o.Identities) == 0 {
		return compareSent(l.Manifest, paced, io.Discard, nil, o.Progress)
	}
	if err := checkRoom(temp, l.Manifest.PlainSize); err != nil {
		return err
	}
	t, err := sqlite.NewTemp(filepath.Join(temp, "attestd.db"))
	if err != nil {
		return err
	}
	defer t.Discard()
	if err := restoreTo(t.Path, l.Manifest, paced, o.Identities, o.Progress); err != nil {
		return err
	}
	s, heads, err := verifyDatabase(ctx, t.Path, o.Schema, o.Progress)
	if err != nil {
		return err
	}
	defer s.Close()
	if headDigest(heads) != l.Manifest.Head {
		return fmt.Errorf("%w: its heads are not those of its manifest", store.ErrCorrupt)
	}
	return nil
}

// verifyPattern is that of the folders that VerifyFolder makes.
const verifyPattern = "attestd-verify-*"

// VerifyFolder returns the folder at path for the copies of Verify, or for "" a new one of its own:
// SQLite uses a journal next to a database, regardless of who created it. It removes files that
// killed processes have left. The caller MUST call remove.
func VerifyFolder(path string) (dir string, remove func(), err error) {
	if path != "" {
		if dir, err = db.Absolute(path); err != nil {
			return "", nil, err
		}
		_, err = sqlite.CheckAccess(filepath.Join(dir, "attestd.db"))
		return dir, func() {}, err
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), verifyPattern))
	for _, old := range left {
		if info, err := os.Lstat(old); err == nil && info.IsDir() && !sqlite.PermitsOthers(info, 0o077) {
			sqlite.Sweep(old)
			if time.Since(info.ModTime()) > abandoned {
				_ = os.Remove(old) // it stays while something is in it
			}
		}
	}
	if dir, err = os.MkdirTemp("", verifyPattern); err != nil {
		return "", nil, err
	}
	return dir, func() { _ = os.Remove(dir) }, nil
}

// ageHeader begins each file of age.
const ageHeader = "age-encryption.org/v1\n"

// IsEncrypted reports whether a file begins as one of age.
func IsEncrypted(start []byte) bool { return strings.HasPrefix(string(start), ageHeader) }

// fetchTo writes the database in a backup, encrypted or not, to the empty file at path.
func fetchTo(path string, r io.Reader, identities []age.Identity) error {
	source := bufio.NewReaderSize(r, 64<<10)
	start, _ := source.Peek(len(ageHeader))
	database := io.Reader(source)
	if IsEncrypted(start) {
		if len(identities) == 0 {
			return fmt.Errorf("%w: the backup is encrypted; name the file of a secret key with --identity", store.ErrRefused)
		}
		var err error
		if database, err = age.Decrypt(source, identities...); err != nil {
			return identityError(err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, database)
	return errors.Join(err, f.Close())
}

// Restore puts the backup that r reads at path, as admin.Restore does with a file. It needs room
// for two copies there.
func Restore(ctx context.Context, r io.Reader, path, schema string, identities []age.Identity, o admin.RestoreOptions) (undone admin.Rollback, err error) {
	if path, err = db.Absolute(path); err != nil {
		return undone, err
	}
	t, err := sqlite.NewTemp(path)
	if err != nil {
		return undone, err
	}
	defer t.Discard()
	paced := pacedReader{r, &pace{ctx: ctx, dirs: []string{filepath.Dir(path)}}}
	if err := fetchTo(t.Path, paced, identities); err != nil {
		return undone, fmt.Errorf("fetch the backup: %w", err)
	}
	return admin.Restore(ctx, t.Path, path, schema, o)
}

// Newest returns the newest backup of a database that is done, or the zero value.
func Newest(ctx context.Context, p Place, id headfile.ID) (Listed, error) {
	l, _, err := Latest(ctx, p, id, math.MaxInt)
	return l, err
}

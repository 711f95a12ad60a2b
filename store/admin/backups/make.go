package backups

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"

	"attestd/internal/sleep"
	"attestd/store"
	"attestd/store/db"
	"attestd/store/headfile"
	"attestd/store/sqlite"
)

// Options say how a backup is made and verified.
type Options struct {
	Schema  string
	Program string // that makes it, for the manifest
	// to whom it is encrypted; none leaves it in plaintext
	Recipients     []age.Recipient
	RecipientNames []string
	// with which it is opened again
	Identities []age.Identity
	// folder of the temporary copy; "" is that of the database
	Temp  string
	Heads string // head file of the database; "" for none
	Keep  int    // newest backups to retain; 0 retains all
	Rate  int64  // bytes a second that are copied, sent and read back; 0 is without a bound
	At    time.Time
	// called when the database was copied: what follows may take its time; may be nil
	Copied func()
	// as for admin.Backup; may be nil
	Progress func(stage string, done, total int64)
}

// Made is a backup that is done.
type Made struct {
	Manifest
	Address string   `json:"address"`
	Removed []string `json:"removed,omitempty"` // names of old ones
	// old backups that should have been removed, and why they were not
	Left []string `json:"left,omitempty"`
}

// Make makes a backup of the database at path, with or without a running server. When it returns an
// error, no backup was removed, and nothing that it has written counts as a backup.
func Make(ctx context.Context, path string, to Place, o Options) (m Made, err error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if path, err = db.Absolute(path); err != nil {
		return m, err
	}
	if o.Temp != "" {
		if o.Temp, err = db.Absolute(o.Temp); err != nil {
			return m, err
		}
	}
	b := making{Options: o, to: to, path: path, temp: filepath.Join(cmp.Or(o.Temp, filepath.Dir(path)), filepath.Base(path))}
	defer b.discard()
	if err := b.run(ctx); err != nil {
		if b.written { // unfinished, so that it is no backup
			removed := to.Remove(context.WithoutCancel(ctx), b.name.String(), b.manifest.Version)
			if removed != nil {
				err = fmt.Errorf("%w (what was written of it stays unfinished: %w)", err, removed)
			}
		}
		return m, fmt.Errorf("back up %s to %s: %w", path, to, err)
	}
	m = Made{Manifest: b.manifest, Address: to.Address(b.name.String())}
	m.Removed, m.Left = b.prune(ctx)
	return m, nil
}

// making is a backup in the making.
type making struct {
	Options
	to         Place
	path, temp string
	name       Name
	manifest   Manifest
	existing   []string // names in the place at the beginning
	begin      []headfile.Head
	written    bool

	copied  *sqlite.Temp // plaintext database: the copy, or what was read back
	checked *store.Store // open on copied, when that was verified
}

func (b *making) discard() {
	if b.checked != nil {
		b.checked.Close()
		b.checked = nil
	}
	if b.copied != nil {
		b.copied.Discard()
		b.copied = nil
	}
}

// canOpen reports whether what is read back can be opened.
func (b *making) canOpen() bool { return len(b.Recipients) == 0 || len(b.Identities) > 0 }

func (b *making) run(ctx context.Context) error {
	if err := b.to.Check(ctx); err != nil {
		return err
	}
	if warning, err := sqlite.CheckAccess(b.temp); err != nil {
		return err
	} else if warning != "" && b.Temp != "" {
		return fmt.Errorf("%w: %s", store.ErrRefused, warning)
	}
	if err := b.copy(ctx); err != nil {
		return err
	}
	if b.Copied != nil {
		b.Copied()
	}
	if !b.canOpen() {
		if err := b.verify(ctx); err != nil {
			return fmt.Errorf("verify the copy: %w", err)
		}
		b.manifest.Verified = verifiedBefore
	}
	if err := b.write(ctx); err != nil {
		return err
	}
	if err := b.readBack(ctx); err != nil {
		return fmt.Errorf("what was read back from %s: %w", b.to.Address(b.name.String()), err)
	}
	if b.canOpen() {
		if err := b.verify(ctx); err != nil {
			return fmt.Errorf("verify what was read back from %s: %w", b.to.Address(b.name.String()), err)
		}
		b.manifest.Verified = verifiedReadBack
	}
	if err := b.to.Finish(ctx, b.name.String()); err != nil {
		return err
	}
	return b.writeManifest(ctx)
}

// copy reads the heads of the database, and copies it to the temporary folder.
func (b *making) copy(ctx context.Context) (err error) {
	source, err := store.OpenReadOnly(ctx, b.path)
	if err != nil {
		return err
	}
	defer source.Close()
	if !source.UpToDate() {
		return fmt.Errorf("%w: %s is of an older schema; start attestd serve with it once, or use attestd backup FILE",
			store.ErrRefused, b.path)
	}
	id, err := source.DatabaseID(ctx)
	if err != nil {
		return err
	}
	if b.begin, err = source.Rollback.Heads(ctx); err != nil {
		return err
	}
	if err := b.checkHeadFile(ctx, source); err != nil {
		return fmt.Errorf("the database is not what its head file says, so no backup of it is made and none is removed: %w", err)
	}
	if err := b.sweep(ctx, id); err != nil {
		return err
	}
	b.manifest = Manifest{Form: manifestForm, Name: b.name.String(), Database: hex.EncodeToString(id[:]), Began: b.At.UTC(),
		Program: b.Program, Recipients: b.RecipientNames}
	var size int64
	if err := source.Read(ctx, func(c *db.Conn) error {
		return c.One([]any{&size}, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
	}); err != nil {
		return err
	}
	if err := b.checkRooms(size); err != nil {
		return err
	}
	if b.copied, err = sqlite.NewTemp(b.temp); err != nil {
		return err
	}
	paced := b.pace(ctx, filepath.Dir(b.temp))
	last := int64(0)
	err = source.Read(ctx, func(c *db.Conn) error {
		return c.CopyPaced(ctx, b.copied.Path, func(done, total int64) error {
			b.Progress("copy", done, total)
			n := done - last
			last = done
			return paced.move(n)
		})
	})
	if err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	return nil
}

// checkHeadFile compares the database with its head file, if there is one.
func (b *making) checkHeadFile(ctx context.Context, source *store.Store) error {
	if b.Heads == "" {
		return nil
	}
	err := source.Rollback.Check(ctx, b.Heads)
	// A tree that a witness signs is in its head file a moment before it is in the database.
	for range 3 {
		if cosigner := (*store.CosignerError)(nil); !errors.As(err, &cosigner) {
			break
		}
		if err := sleep.For(ctx, time.Second); err != nil {
			return err
		}
		err = source.Rollback.Check(ctx, b.Heads)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// checkRooms refuses a backup that would fill a disk.
func (b *making) checkRooms(size int64) error {
	temp, to := filepath.Dir(b.temp), b.to.Room()
	if to == "" {
		return checkRoom(temp, size)
	}
	if sameDisk(temp, to) {
		return checkRoom(temp, 2*size)
	}
	return errors.Join(checkRoom(temp, size), checkRoom(to, size))
}

func (b *making) pace(ctx context.Context, dirs ...string) *pace {
	return &pace{ctx: ctx, rate: b.Rate, dirs: slices.DeleteFunc(dirs, func(dir string) bool { return dir == "" })}
}

// write sends the copy to its place, encrypted if it has recipients.
func (b *making) write(ctx context.Context) error {
	plain, err := os.Open(b.copied.Path)
	if err != nil {
		return err
	}
	defer plain.Close()
	info, err := plain.Stat()
	if err != nil {
		return err
	}
	plainDigest, sent := newDigest(), newDigest()
	progress := &counted{report: func(n int64) { b.Progress("write", n, info.Size()) }}
	source := io.TeeReader(pacedReader{plain, b.pace(ctx, b.to.Room())}, io.MultiWriter(plainDigest, progress))
	r := source
	if len(b.Recipients) > 0 {
		encrypted := encrypt(source, b.Recipients)
		defer encrypted.Close()
		r = encrypted
	}
	b.written = true
	stored, err := b.to.Write(ctx, b.name.String(), io.TeeReader(r, sent), info.Size())
	b.manifest.Version = stored.Version
	if err != nil {
		return err
	}
	if plainDigest.size != info.Size() {
		return fmt.Errorf("%w: %d of %d bytes were sent", store.ErrUnavailable, plainDigest.size, info.Size())
	}
	b.manifest.Lock = stored.Lock
	if stored.Lock != "" {
		b.manifest.RetainUntil = &stored.RetainUntil
	}
	b.manifest.PlainSize, b.manifest.PlainSHA256 = plainDigest.size, plainDigest.hex()
	b.manifest.Size, b.manifest.SHA256 = sent.size, sent.hex()
	return nil
}

// writeManifest makes the backup done.
func (b *making) writeManifest(ctx context.Context) error {
	b.manifest.Done = b.At.Add(time.Since(b.At)).UTC() // by the monotonic clock
	text, err := json.MarshalIndent(b.manifest, "", "\t")
	if err != nil {
		return err
	}
	name := b.name.manifest()
	stored, err := b.to.Write(ctx, name, bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return err
	}
	read, err := b.to.Read(ctx, name, stored.Version)
	if err == nil {
		var back []byte
		back, err = io.ReadAll(io.LimitReader(read, maxManifest+1))
		err = errors.Join(err, read.Close())
		if err == nil && !bytes.Equal(back, text) {
			err = fmt.Errorf("%w: the manifest that was read back is not what was written", store.ErrUnavailable)
		}
	}
	if err == nil {
		err = b.to.Finish(ctx, name)
	}
	if err != nil {
		return errors.Join(err, b.to.Remove(context.WithoutCancel(ctx), name, stored.Version))
	}
	return nil
}

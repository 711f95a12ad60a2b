package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/db"
	"attestd/store/sqlite"
)

// Folder is a folder of this machine, which may be a mounted one.
type Folder struct {
	dir string
	// files of Write that are not finished, with what releases their locks
	pending map[string]func()
}

// OpenFolder returns the folder at path, which must exist: a folder that is missing may be a disk
// that is not mounted.
func OpenFolder(path string) (*Folder, error) {
	dir, err := db.Absolute(path)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no folder %s for backups: mount it, or make it with mkdir -m 700 %s", store.ErrRefused,
			path, printable.ShellWord(path))
	}
	if err != nil {
		return nil, err
	}
	return &Folder{dir: dir, pending: map[string]func(){}}, nil
}

func (f *Folder) String() string             { return f.dir }
func (f *Folder) Address(name string) string { return filepath.Join(f.dir, name) }
func (f *Folder) Room() string               { return f.dir }

// Check refuses a folder that others may write, because they could exchange backups.
func (f *Folder) Check(context.Context) error {
	info, err := os.Lstat(f.dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%w: %s is not a folder", store.ErrRefused, f.dir)
	case sqlite.PermitsOthers(info, 0o022):
		return fmt.Errorf("%w: others may write the folder %s: run chmod go-w %s, or give the backups a folder of their own",
			store.ErrRefused, f.dir, printable.ShellWord(f.dir))
	}
	return nil
}

// in calls fn with the folder. A symbolic link in it leads nowhere else.
func (f *Folder) in(fn func(*os.Root) error) error {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(fn(root), root.Close())
}

func (f *Folder) List(context.Context) (names []string, err error) {
	entries, err := os.ReadDir(f.dir)
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// syncEvery is the number of bytes after which a file is synced while it is written. A commit of
// the database waits for what is being synced, so that is little.
const syncEvery = 1 << 20

func (f *Folder) Write(ctx context.Context, name string, r io.Reader, _ int64) (s Stored, err error) {
	return s, f.in(func(root *os.Root) (err error) {
		if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%w: %s exists", store.ErrRefused, f.Address(name)), err)
		}
		file, err := root.OpenFile(name+partialSuffix, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		release, _, err := sqlite.LockAlone(f.Address(name + partialSuffix))
		if err != nil {
			return errors.Join(err, file.Close())
		}
		f.pending[name] = release
		for err == nil {
			if err = ctx.Err(); err == nil {
				_, err = io.CopyN(file, r, syncEvery)
			}
			if synced := file.Sync(); synced != nil {
				err = synced
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, f.Remove(ctx, name, ""))
		}
		return err
	})
}

// Finish renames a file of Write to its name, and never replaces another one.
func (f *Folder) Finish(_ context.Context, name string) error {
	release := f.pending[name]
	if release == nil {
		return nil
	}
	err := f.in(func(root *os.Root) error {
		err := root.Link(name+partialSuffix, name)
		if err == nil {
			err = root.Remove(name + partialSuffix)
		} else if _, missing := root.Lstat(name); errors.Is(missing, fs.ErrNotExist) {
			err = root.Rename(name+partialSuffix, name) // a file system without links
		}
		return err
	})
	if err == nil {
		err = sqlite.SyncDir(f.Address(name))
	}
	if err == nil {
		release()
		delete(f.pending, name)
	}
	return err
}

func (f *Folder) Read(_ context.Context, name, _ string) (r io.ReadCloser, err error) {
	err = f.in(func(root *os.Root) error {
		file, err := f.plain(root, name)
		if err == nil {
			dropCache(file) // what is read back comes from the disk
			r = file
		}
		return err
	})
	return r, err
}

func (f *Folder) Size(_ context.Context, name, _ string) (size int64, err error) {
	err = f.in(func(root *os.Root) error {
		info, err := root.Lstat(name)
		if err == nil && !info.Mode().IsRegular() {
			err = notPlain(f.Address(name))
		}
		if err == nil {
			size = info.Size()
		}
		return err
	})
	return size, err
}

// plain opens a plain file, or the unfinished one of its name that this process has written.
func (f *Folder) plain(root *os.Root, name string) (*os.File, error) {
	if f.pending[name] != nil {
		name += partialSuffix
	}
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, notPlain(f.Address(name))
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	if opened, err := file.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(notPlain(f.Address(name)), err, file.Close())
	}
	return file, nil
}

func notPlain(path string) error {
	return fmt.Errorf("%w: %s is not a plain file", store.ErrRefused, path)
}

func (f *Folder) Remove(_ context.Context, name, _ string) error {
	release := f.pending[name]
	if release != nil {
		defer release()
		delete(f.pending, name)
		name += partialSuffix
	}
	return f.in(func(root *os.Root) error {
		info, err := root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return notPlain(f.Address(name))
		}
		return root.Remove(name)
	})
}

// Sweep removes files that no living process is writing.
func (f *Folder) Sweep(ctx context.Context, now time.Time, isOurs func(string) bool) error {
	names, err := f.List(ctx)
	for _, name := range names {
		whole, isPartial := strings.CutSuffix(name, partialSuffix)
		if !isPartial || !isOurs(strings.TrimSuffix(whole, manifestSuffix)) || f.pending[whole] != nil {
			continue
		}
		release, isLocked, busy := sqlite.LockAlone(f.Address(name))
		if busy != nil {
			continue
		}
		info, failed := os.Lstat(f.Address(name))
		if failed == nil && (isLocked || now.Sub(info.ModTime()) > abandoned) {
			err = errors.Join(err, f.Remove(ctx, name, ""))
		}
		release()
	}
	return err
}

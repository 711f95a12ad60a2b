package verified

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	sealing "attestd/crypto/seal"
	"attestd/internal/printable"
	"attestd/store/sqlite"
)

// File is the place of what was verified of a database, with the key that vouches for it.
type File struct {
	path     string
	master   *sealing.Master // of a sealed database, otherwise nil
	database [16]byte
	program  string
}

// NewFile returns the file at path, which need not exist. The MAC's key derives from master, or if
// it is nil from a key file, whose name is path with .key. program is the version of attestd.
func NewFile(path string, master *sealing.Master, database [16]byte, program string) *File {
	return &File{path, master, database, program}
}

// Path returns the name of the file.
func (f *File) Path() string { return f.path }

func (f *File) keyPath() string { return f.path + ".key" }

// Read returns what the file says. It returns fs.ErrNotExist if the file or its key is missing, and
// ErrInvalid unless a server has written it.
func (f *File) Read() (Contents, error) {
	b, err := read(f.path, 0o022, maxSize)
	if err != nil {
		return Contents{}, err
	}
	key, err := f.key()
	if err != nil {
		return Contents{}, err
	}
	if b, err = open(b, key); err != nil {
		return Contents{}, fmt.Errorf("%s: %w", f.path, err)
	}
	c, err := decode(b, f.database, f.program)
	if err != nil {
		return Contents{}, fmt.Errorf("%s: %w", f.path, err)
	}
	return c, nil
}

// Write replaces the file as a whole: after a crash there is the old or the new one. It makes a key
// if there is none.
func (f *File) Write(c Contents) error {
	key, err := f.key()
	if errors.Is(err, fs.ErrNotExist) {
		if err = f.makeKey(); err == nil {
			key, err = f.key()
		}
	}
	if err != nil {
		return err
	}
	return replace(f.path, seal(encode(c, f.database, f.program), key))
}

// key returns the key of the MAC.
func (f *File) key() ([]byte, error) {
	if f.master != nil {
		return f.master.VerifiedKey(f.database), nil
	}
	text, err := read(f.keyPath(), 0o077, 4096)
	if err != nil {
		return nil, err
	}
	secret, err := sealing.ParseMaster(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.keyPath(), err)
	}
	return secret.VerifiedKey(f.database), nil
}

func (f *File) makeKey() error {
	text := base64.StdEncoding.EncodeToString(sealing.NewMaster().Bytes())
	return replace(f.keyPath(), []byte(text+"\n"))
}

// read reads a plain file of limited size on which other users have none of the permissions in
// mask, and which they cannot replace.
func read(path string, mask fs.FileMode, most int64) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if err := guarded(path); err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w: it is not a plain file", path, ErrInvalid)
	case sqlite.PermitsOthers(info, mask):
		return nil, fmt.Errorf("%w: others may read or write %s: delete it, for what it says may be theirs", ErrInvalid, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s: %w: it has more than %d bytes", path, ErrInvalid, most)
	}
	return b, err
}

// guarded returns an error if others may replace the files of the folder that contains path.
func guarded(path string) error {
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	if sqlite.PermitsOthers(info, 0o022) {
		return fmt.Errorf("%w: others may write %s, and so replace %s: run chmod go-w %s", ErrInvalid, folder, path,
			printable.ShellWord(folder))
	}
	return nil
}

// replace writes a file durably under another name, and renames it.
func replace(path string, b []byte) error {
	if err := guarded(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = f.Chmod(0o600) // an older temporary file may have been left
	if err == nil {
		_, err = f.Write(b)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return sqlite.SyncDir(path)
}

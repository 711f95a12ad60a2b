package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// A head file that a crash has truncated or torn at any point raises no false alarm, and is
// complete again after the start. Damage to its beginning, which no crash causes, is refused.
func TestDamagedHeadFile(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	path, older := grown(t)
	beside := storetest.Heads(path)
	whole := got(os.ReadFile(beside))(t)
	const header, slot = 256, 256
	opened := func(damaged []byte) error {
		must.OK(t, os.WriteFile(beside, damaged, 0o600))
		s, err := store.Open(ctx, path, schema(t), store.Options{Heads: beside})
		if err != nil {
			return err
		}
		if len(s.Rollback.Behind()) > 0 {
			t.Errorf("false alarm: %+v", s.Rollback.Behind())
		}
		return s.Close()
	}
	for end := header; end < len(whole); end += slot / 2 {
		must.OK(t, opened(whole[:end]))
	}
	for at := header; at < len(whole); at += slot {
		must.OK(t, opened(append(bytes.Clone(whole[:at]), append(make([]byte, slot/8), whole[min(at+slot/8, len(whole)):]...)...)))
	}
	for _, at := range []int{0, 15, 16, 31, 32, 200, header - 4, header - 1} {
		if err := opened(append(append(bytes.Clone(whole[:at]), whole[at]^1), whole[at+1:]...)); !errors.Is(err, store.ErrRefused) {
			t.Errorf("byte %d of the header: %v", at, err)
		}
	}
	if err := opened(whole[:header-1]); !errors.Is(err, store.ErrRefused) {
		t.Errorf("cut within the header: %v", err)
	}
	must.OK(t, opened(whole[:header]))
	storetest.Replace(t, path, older)
	if len(behind(t, path)) == 0 {
		t.Error("the head file that was made whole knows less")
	}
}

// Any file in place of the head file that does not belong to the database is refused and left
// unchanged. A missing or empty head file is created with access for its owner only.
func TestForeignHeadFileIsRefused(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	path, _ := grown(t)
	another, _ := grown(t)
	beside := storetest.Heads(path)
	own := got(os.ReadFile(beside))(t)
	for name, test := range map[string]struct {
		make func() error
		says string
	}{
		"of another database": {func() error { return os.WriteFile(beside, got(os.ReadFile(storetest.Heads(another)))(t), 0o600) }, "not the head file of this database"},
		"a text":              {func() error { return os.WriteFile(beside, []byte("These are notes."), 0o600) }, "not the head file of this database"},
		"a database":          {func() error { return os.WriteFile(beside, got(os.ReadFile("testdata/schema-1.db"))(t), 0o600) }, "not the head file of this database"},
		"a folder":            {func() error { return os.Mkdir(beside, 0o700) }, "not a plain file"},
		"writable by others":  {func() error { return errors.Join(os.WriteFile(beside, own, 0o600), os.Chmod(beside, 0o606)) }, "others may write"},
	} {
		must.OK(t, os.RemoveAll(beside))
		must.OK(t, test.make())
		before, _ := os.ReadFile(beside)
		_, err := store.Open(ctx, path, schema(t), store.Options{Heads: beside})
		if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := os.ReadFile(beside); !bytes.Equal(before, after) {
			t.Errorf("%s: it has changed", name)
		}
	}
	for _, test := range []func() error{func() error { return nil }, func() error { return os.WriteFile(beside, nil, 0o644) }} {
		must.OK(t, os.RemoveAll(beside))
		must.OK(t, test())
		s := kept(t, path)
		if n := s.Notices(); !strings.Contains(strings.Join(n, "; "), "made the head file") || s.Rollback.HeadFile() != "written" {
			t.Errorf("notices %q, the head file is %s", n, s.Rollback.HeadFile())
		}
		must.OK(t, s.Close())
		if info := got(os.Stat(beside))(t); info.Mode().Perm() != 0o600 || info.Size() == 0 {
			t.Errorf("made %v, %d bytes", info.Mode(), info.Size())
		}
	}
}

// If a head file exists and its database is gone, no new database is created. A backup that is put
// there is compared with the head file.
func TestNoNewDatabaseBesideHeadFile(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	path, older := grown(t)
	must.OK(t, os.Remove(path))
	_, err := store.Open(ctx, path, schema(t), store.Options{Heads: storetest.Heads(path)})
	if _, missing := os.Stat(path); !errors.Is(err, store.ErrRefused) || !errors.Is(missing, fs.ErrNotExist) {
		t.Errorf("opened: %v; the database: %v", err, missing)
	}
	must.OK(t, restore(t, older, path, admin.RestoreOptions{At: now}))
	if len(behind(t, path)) == 0 {
		t.Error("not behind")
	}
}

// A head file whose directory is gone does not stop writes: a notice reports it, and the file is
// created at a later commit when that is possible.
func TestHeadFileInMissingFolder(t *testing.T) {
	t.Parallel()
	path, older := grown(t)
	elsewhere := filepath.Join(t.TempDir(), "disk")
	must.OK(t, os.Mkdir(elsewhere, 0o700))
	heads := filepath.Join(elsewhere, "heads")
	must.OK(t, os.MkdirAll(filepath.Join(heads+".new", "in the way"), 0o700))
	s := got(store.Open(ctx, path, schema(t), store.Options{Heads: heads}))(t)
	go s.Run(ctx, store.RunOptions{})
	acme := got(s.Companies.Get(ctx, "acme"))(t)
	attest(t, s, acme, 3)
	if n := s.Notices(); !strings.Contains(strings.Join(n, "; "), "cannot be made") || s.Rollback.HeadFile() != "behind" {
		t.Errorf("notices %q, the head file is %s", n, s.Rollback.HeadFile())
	}
	must.OK(t, os.RemoveAll(heads+".new"))
	attest(t, s, acme, 3)
	must.OK(t, s.Close()) // closing writes the head file if that is still due
	must.OK(t, os.Rename(heads, storetest.Heads(path)))
	storetest.Replace(t, path, older)
	expect(t, behind(t, path), "acme actions was known at size 46 with log root", "acme control was known at size")
}

// The head file of a database of an older schema is also valid for its upgraded copies.
func TestUpgradedBackupKeepsHeadFile(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path, _ := written(t, "5")
	again, _ := written(t, "5")
	fine(t, path)
	must.OK(t, os.Rename(again, path))
	if len(behind(t, path)) == 0 {
		t.Error("not behind")
	}
}

// A head file of the first format, which knows no cosigned checkpoints, is read, detects what it
// detected before, and is converted to the current format.
func TestHeadFileOfFirstFormatIsUpgraded(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	path, older := grown(t)
	beside := storetest.Heads(path)
	first := firstForm(got(os.ReadFile(beside))(t))
	must.OK(t, os.WriteFile(beside, first, 0o600))
	fine(t, path)
	if made := got(os.ReadFile(beside))(t); !bytes.HasPrefix(made, []byte("attestd heads 3\n")) {
		t.Errorf("it begins with %q", made[:16])
	}
	must.OK(t, os.WriteFile(beside, first, 0o600))
	storetest.Replace(t, path, older)
	expect(t, behind(t, path), "acme actions was known at size 40 with log root", "acme control was known at size")
	if !bytes.Equal(got(os.ReadFile(beside))(t), first) {
		t.Error("the head file has changed")
	}
	accept(t, path)
	fine(t, path)
}

// firstForm returns a head file in the format that knew neither the installation nor the logs of
// others: it drops the first two pairs of slots, and keeps the first two of the three pairs of each
// log.
func firstForm(file []byte) []byte {
	const slot, crcAt = 256, 252
	header := bytes.Replace(file[:crcAt], []byte("heads 3"), []byte("heads 1"), 1)
	first := binary.BigEndian.AppendUint32(header, crc32.Checksum(header, crc32.MakeTable(crc32.Castagnoli)))
	for at := 5 * slot; at < len(file); at += 6 * slot {
		first = append(first, file[at:min(at+4*slot, len(file))]...)
	}
	return first
}

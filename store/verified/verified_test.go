package verified

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/tlog"
	sealing "attestd/crypto/seal"
	"attestd/internal/must"
)

var (
	ours    = [16]byte{1, 2, 3}
	another = [16]byte{1, 2, 4}
)

// contents are of logs of these lengths, whose chain IDs are 1, -1, 2, -2 and so on.
func contents(lengths ...int64) Contents {
	random := rand.New(rand.NewPCG(1, 2))
	hash := func() (h chain.Hash) {
		for i := range h {
			h[i] = byte(random.Uint32())
		}
		return h
	}
	at := time.UnixMilli(1_800_000_000_123)
	c := Contents{Since: at, Current: Pass{Begun: at.Add(time.Hour), Reached: 7, Verified: 5, Failed: 1, Unread: 1},
		Last: Pass{Begun: at, Ended: at.Add(time.Minute), Reached: 9, Verified: 9}, Known: map[int64]chain.Prefix{}}
	for i, n := range lengths {
		p := chain.Prefix{Length: n, Terms: hash(), Digest: hash(), Log: tlog.Frontier{Size: n}}
		for rest := n; rest > 0; rest &= rest - 1 {
			p.Log.Roots = append(p.Log.Roots, tlog.Hash(hash()))
		}
		id := int64(i/2 + 1)
		if i%2 == 1 {
			id = -id
		}
		c.Known[id] = p
	}
	return c
}

func file(t *testing.T, master *sealing.Master) *File {
	t.Helper()
	return NewFile(filepath.Join(t.TempDir(), "attestd.db.verified"), master, ours, "attestd/1.0.0")
}

func TestFileIsReadAsWritten(t *testing.T) {
	t.Parallel()
	master := sealing.NewMaster()
	for _, master := range []*sealing.Master{nil, &master} {
		f := file(t, master)
		if _, err := f.Read(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no file: %v", err)
		}
		for _, c := range []Contents{{Known: map[int64]chain.Prefix{}}, contents(1, 3, 255, 1<<40-1), contents(5)} {
			must.OK(t, f.Write(c))
			if got, err := f.Read(); err != nil || !reflect.DeepEqual(got, c) {
				t.Errorf("%+v, %v, want %+v", got, err, c)
			}
		}
		names, err := os.ReadDir(filepath.Dir(f.path))
		must.OK(t, err)
		if want := map[bool]int{true: 2, false: 1}[master == nil]; len(names) != want {
			t.Errorf("%d files, want %d: %v", len(names), want, names)
		}
		for _, n := range names {
			if info, err := n.Info(); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v, %v", n.Name(), info.Mode(), err)
			}
		}
	}
}

// Each bit of the file counts, and each byte at its end.
func TestChangedFileIsRefused(t *testing.T) {
	t.Parallel()
	f := file(t, nil)
	must.OK(t, f.Write(contents(3, 1)))
	good, err := os.ReadFile(f.path)
	must.OK(t, err)
	key, err := f.key()
	must.OK(t, err)
	accepted := func(b []byte) bool {
		body, err := open(b, key)
		if err == nil {
			_, err = decode(body, f.database, f.program)
		}
		if err != nil && !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
		return err == nil
	}
	if !accepted(good) {
		t.Fatal("the file is refused as it was written")
	}
	for i := range good {
		for bit := range 8 {
			changed := bytes.Clone(good)
			changed[i] ^= 1 << bit
			if accepted(changed) {
				t.Fatalf("byte %d, bit %d changed, and accepted", i, bit)
			}
		}
		if accepted(good[:i]) {
			t.Fatalf("cut at %d, and accepted", i)
		}
	}
	if accepted(append(bytes.Clone(good), 0)) {
		t.Fatal("a byte more, and accepted")
	}
}

// Only a file of this database, this version and this key is read.
func TestForeignFileIsRefused(t *testing.T) {
	t.Parallel()
	one, two := sealing.NewMaster(), sealing.NewMaster()
	sealed := file(t, &one)
	must.OK(t, sealed.Write(contents(3)))
	plain := file(t, nil)
	must.OK(t, plain.Write(contents(3)))
	stranger := file(t, nil) // has another key file
	must.OK(t, stranger.Write(contents(3)))
	must.OK(t, os.Rename(stranger.path, plain.path+".other"))
	must.OK(t, os.Rename(plain.keyPath(), plain.path+".other.key"))
	for name, f := range map[string]*File{
		"another database":    NewFile(sealed.path, &one, another, sealed.program),
		"another version":     NewFile(sealed.path, &one, ours, "attestd/1.0.1"),
		"another master key":  NewFile(sealed.path, &two, ours, sealed.program),
		"another key file":    NewFile(plain.path+".other", nil, ours, plain.program),
		"the key file's, not": NewFile(plain.path, &one, ours, plain.program),
	} {
		if c, err := f.Read(); !errors.Is(err, ErrInvalid) || c.Known != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := plain.Read(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its key: %v", err)
	}
}

// Any user who may write the folder, or read the key, may have written the file.
func TestFileThatOthersMayHaveWrittenIsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("has no such permissions")
	}
	f := file(t, nil)
	must.OK(t, f.Write(contents(3)))
	for _, c := range []struct {
		path      string
		mode, was fs.FileMode
	}{{filepath.Dir(f.path), 0o777, 0o700}, {f.keyPath(), 0o604, 0o600}, {f.path, 0o602, 0o600}} {
		must.OK(t, os.Chmod(c.path, c.mode))
		if _, err := f.Read(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s with mode %v: %v", c.path, c.mode, err)
		}
		must.OK(t, os.Chmod(c.path, c.was))
		_, err := f.Read()
		must.OK(t, err)
	}
	must.OK(t, os.Remove(f.keyPath()))
	must.OK(t, os.Symlink(f.path, f.keyPath()))
	if _, err := f.Read(); !errors.Is(err, ErrInvalid) {
		t.Errorf("a link as the key: %v", err)
	}
}

// However many logs there are, the file is bounded and has the longest ones.
func TestFileIsBounded(t *testing.T) {
	t.Parallel()
	c := contents(3)
	roots := make([]tlog.Hash, 30)
	for i := range int64(60_000) {
		n := int64(1<<30 - 1) // 30 roots each
		if i < 1000 {
			n = 1
		}
		c.Known[i+2] = chain.Prefix{Length: n, Log: tlog.Frontier{Size: n, Roots: roots[:min(n, 30)]}}
	}
	body := encode(c, ours, "1")
	b := seal(body, nil)
	if len(b) > maxSize || len(b) < maxSize-2000 {
		t.Errorf("%d bytes", len(b))
	}
	got, err := decode(body, ours, "1")
	must.OK(t, err)
	for id, p := range got.Known {
		if p.Length == 1 {
			t.Fatalf("log %d of one record is there, and longer ones are not", id)
		}
	}
	f := file(t, nil)
	must.OK(t, f.Write(c))
	must.OK(t, os.WriteFile(f.path, make([]byte, maxSize+1), 0o600))
	if _, err := f.Read(); !errors.Is(err, ErrInvalid) {
		t.Errorf("too many bytes: %v", err)
	}
}

// The parser accepts what encode makes, and fails only with ErrInvalid, although an attacker who
// knows the key may have written anything.
func FuzzDecode(f *testing.F) {
	f.Add(encode(contents(1, 3, 255), ours, "1"))
	f.Add(encode(Contents{}, ours, "1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decode(b, ours, "1")
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(encode(c, ours, "1"), b) {
			t.Fatalf("%x is read as %+v, which is written as something else", b, c)
		}
		v := chain.NewVerifier(nil, 1)
		v.Recall(c.Known)
		if known, _ := v.Prefixes(); !maps.EqualFunc(known, c.Known, func(a, b chain.Prefix) bool { return reflect.DeepEqual(a, b) }) {
			t.Fatal("the verifier remembers something else")
		}
	})
}

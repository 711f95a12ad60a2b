package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"attestd/store/sqlite"
)

// Whether a process has locked a database can be asked while another one locks it: the question
// takes no lock.
func TestLockIsTestedWithoutTakingIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "attestd.db")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	is := func(want bool) {
		t.Helper()
		if locked, known, err := sqlite.IsLocked(path); locked != want || !known || err != nil {
			t.Errorf("locked %t, known %t, %v", locked, known, err)
		}
	}
	is(false)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_, _, _ = sqlite.IsLocked(path)
			}
		}
	}()
	for range 2000 {
		release, isLocked, err := sqlite.LockAlone(path)
		if err != nil || !isLocked {
			t.Fatalf("beside a question: %t, %v", isLocked, err)
		}
		release()
	}
	close(stop)
	<-stopped
	release, _, err := sqlite.LockAlone(path)
	if err != nil {
		t.Fatal(err)
	}
	is(true)
	release()
	is(false)
	if _, _, err := sqlite.IsLocked(path + ".away"); err == nil {
		t.Error("a missing file is not locked, and nobody can say so")
	}
}

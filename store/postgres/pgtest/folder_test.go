package pgtest

import (
	"os"
	"testing"
)

// The next test removes the directory of a killed one, and nothing else: the system releases the
// locks of a killed process.
func TestOnlyAbandonedFoldersAreRemoved(t *testing.T) {
	left, used := makeFolder(t), makeFolder(t)
	if err := left.lock.Close(); err != nil {
		t.Fatal(err)
	}
	makeFolder(t)
	if _, err := os.Stat(left.path); !os.IsNotExist(err) {
		t.Fatalf("the folder that nobody has locked: %v", err)
	}
	if _, err := os.Stat(used.path); err != nil {
		t.Fatal(err)
	}
}

func makeFolder(t *testing.T) *folder {
	t.Helper()
	f, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.remove)
	return f
}

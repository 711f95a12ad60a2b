package pgtest

import (
	"os"
	"testing"
)

// What a killed test has left is removed by the next one, and nothing else: the system unlocks what
// a killed process had locked.
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

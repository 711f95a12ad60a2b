package hook_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"attestd/agent/hook"
)

// All processes of an installation have one secret, whichever makes it; no two installations have the same, and only the owner reads it.
func TestSecretIsOfOneInstallation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hook-secret")
	secrets := make([][]byte, 16)
	var done sync.WaitGroup
	for i := range secrets {
		done.Go(func() {
			var err error
			if secrets[i], err = hook.Secret(path); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	for _, secret := range secrets {
		if len(secret) != 32 || !bytes.Equal(secret, secrets[0]) {
			t.Fatalf("%x and %x", secret, secrets[0])
		}
	}
	if other, err := hook.Secret(filepath.Join(t.TempDir(), "hook-secret")); err != nil || bytes.Equal(other, secrets[0]) {
		t.Errorf("%x %v", other, err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("left behind: %q", left)
	}
	if err := os.Truncate(path, 7); err != nil { // as a loss of power may leave it
		t.Fatal(err)
	}
	if mended, err := hook.Secret(path); err != nil || len(mended) != 32 || bytes.Equal(mended, secrets[0]) {
		t.Errorf("%x %v", mended, err)
	}
}

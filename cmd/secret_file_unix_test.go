//go:build unix

package cmd

import (
	"os"
	"path/filepath"
	"testing"

	"attestd/crypto/seal"
	"attestd/internal/testenv"
)

// A secret that systemd hands over by LoadCredential= is root's and may be read by its group. Files
// elsewhere, of another owner, or with more rights are refused, for each kind of secret.
func TestSecretsOfTheServiceManagerAreAccepted(t *testing.T) {
	testenv.Needs(t, testenv.Root, testenv.Plain, testenv.NotRaced)
	for _, c := range []struct {
		name     string
		mode     os.FileMode
		owner    int
		inside   bool
		accepted bool
	}{
		{"systemd without access lists", 0o400, 0, true, true},
		{"systemd with access lists", 0o440, 0, true, true},
		{"readable by all", 0o444, 0, true, false},
		{"writable by the group", 0o460, 0, true, false},
		{"of another user", 0o440, 65534, true, false},
		{"elsewhere", 0o440, 0, false, false},
	} {
		credentials := t.TempDir()
		t.Setenv("CREDENTIALS_DIRECTORY", credentials+"/")
		folder := credentials
		if !c.inside {
			folder = t.TempDir()
		}
		secret := func(name string, text []byte) string {
			path := filepath.Join(folder, name)
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(path, c.owner, 0); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			return path
		}
		if _, err := readMasterKey(secret("master.key", seal.NewMaster().Bytes())); (err == nil) != c.accepted {
			t.Errorf("%s: master key: %v", c.name, err)
		}
		if _, err := readToken("registration-token-file", secret("token", []byte("a-token-of-26-characters-x")), minToken); (err == nil) != c.accepted {
			t.Errorf("%s: registration token: %v", c.name, err)
		}
	}
}

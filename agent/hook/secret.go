package hook

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// secretSize is how many bytes a secret has.
const secretSize = 32

// Secret reads the secret under which the hooks of one installation make their keys: each event has a process of its own, and all must make the
// same key of it. Where there is none, or a part of one, it is made; of several processes that do so at once, all get the same one.
func Secret(path string) ([]byte, error) {
	secret, err := os.ReadFile(path)
	if err == nil && len(secret) == secretSize {
		return secret, nil
	}
	if err == nil { // a loss of power has left a part of it
		err = os.Remove(path)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = makeSecret(path)
	}
	if err == nil {
		secret, err = os.ReadFile(path)
	}
	if err == nil && len(secret) != secretSize {
		err = fmt.Errorf("%s is damaged", path)
	}
	if err != nil {
		return nil, fmt.Errorf("the secret of this installation's keys: %w", err)
	}
	return secret, nil
}

// makeSecret puts a new secret in place, whole and synced, unless somebody else has been faster.
func makeSecret(path string) error {
	part, err := os.CreateTemp(filepath.Dir(path), ".secret-*") // for its owner alone
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	secret := make([]byte, secretSize)
	_, _ = rand.Read(secret) // never fails
	_, err = part.Write(secret)
	if err = errors.Join(err, part.Sync(), part.Close()); err != nil {
		return err
	}
	if err = os.Link(part.Name(), path); err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return os.Rename(part.Name(), path) // where there are no links
}

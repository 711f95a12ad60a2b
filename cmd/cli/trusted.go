package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"attestd/agent/setup"
	"attestd/crypto/cred"
	"attestd/internal/regular"
)

// TrustedKey is a key of a company that the user of this machine trusts. The user has its
// fingerprint from another source than a server or a file that is to be checked.
type TrustedKey struct {
	Company     string `json:"companyId"`
	Fingerprint string `json:"fingerprint"` // SHA256:…, of any of the company's keys
}

// TrustedKeysFile returns the path of the file with the trusted keys. Its lines have the form
// "COMPANY SHA256:…". Empty lines, and those that begin with "#", have no meaning.
func TrustedKeysFile() (string, error) { return ConfigFile("trusted-keys") }

// ReadTrustedKeys reads the trusted keys. There are none where the file does not exist, or where
// the process has no home folder. A file that others can write is refused, because they could
// choose the keys.
func ReadTrustedKeys() (TrustedKeys, error) {
	path, err := TrustedKeysFile()
	if err != nil {
		return nil, nil // a process without a home folder has no such file
	}
	text, err := ReadRights(path, MaxPrivateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	keys, err := parseTrustedKeys(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

func parseTrustedKeys(text string) (keys TrustedKeys, err error) {
	at := 0
	for line := range strings.Lines(text) {
		at++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 || cred.CheckSegment(words[0]) != nil || !FingerprintForm().MatchString(words[1]) {
			return nil, fmt.Errorf("line %d is not a company and the fingerprint of a key: %q", at, strings.TrimSpace(line))
		}
		if slices.ContainsFunc(keys, func(k TrustedKey) bool { return k.Company == words[0] }) {
			return nil, fmt.Errorf("line %d: %s has two keys; remove the one that is not the company's", at, words[0])
		}
		keys = append(keys, TrustedKey{words[0], words[1]})
	}
	return keys, nil
}

// TrustedKeys are keys of different companies.
type TrustedKeys []TrustedKey

// Fingerprint returns the fingerprint of a company's key, "" for none.
func (keys TrustedKeys) Fingerprint(company string) string {
	if i := slices.IndexFunc(keys, func(k TrustedKey) bool { return k.Company == company }); i >= 0 {
		return keys[i].Fingerprint
	}
	return ""
}

// TrustedKeyOf returns the fingerprint of the key that this machine trusts for a company, "" for
// none.
func TrustedKeyOf(company string) (string, error) {
	keys, err := ReadTrustedKeys()
	return keys.Fingerprint(company), err
}

// TrustKey adds a trusted key, and returns false where it was trusted before. What has not the form
// of a company's ID and of a fingerprint is a usage error. Nothing replaces a trusted key but its
// removal, so that a lying server's key cannot take its place by a slip.
func TrustKey(key TrustedKey) (added bool, err error) {
	if err := cred.CheckSegment(key.Company); err != nil {
		return false, Usagef("the company: %v", err)
	}
	if err := CheckFingerprint("the key", key.Fingerprint); err != nil {
		return false, err
	}
	err = changeTrustedKeys(func(keys TrustedKeys) (TrustedKeys, error) {
		for _, k := range keys {
			switch {
			case k == key:
				return keys, nil
			case k.Company == key.Company:
				return nil, fmt.Errorf("another key is trusted for %s: %s; if the company really has the new key and no rotation leads to it, first run attestd trust remove %s",
					k.Company, k.Fingerprint, k.Company)
			}
		}
		added = true
		return append(keys, key), nil
	})
	return added, err
}

// UntrustKey removes the trusted key of a company.
func UntrustKey(company string) error {
	return changeTrustedKeys(func(keys TrustedKeys) (TrustedKeys, error) {
		left := slices.DeleteFunc(slices.Clone(keys), func(k TrustedKey) bool { return k.Company == company })
		if len(left) == len(keys) {
			return nil, ExitError{Status: ExitNotFound, Err: fmt.Errorf("no key is trusted for %s; attestd trust list shows those that are", company)}
		}
		return left, nil
	})
}

// changeTrustedKeys replaces the file, unless the keys stay the same.
func changeTrustedKeys(change func(TrustedKeys) (TrustedKeys, error)) error {
	path, err := TrustedKeysFile()
	if err != nil {
		return errors.New("no configuration folder: set HOME")
	}
	unlock, err := lockTrustedKeys(path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	keys, err := ReadTrustedKeys()
	if err != nil {
		return err
	}
	changed, err := change(keys)
	if err != nil || slices.Equal(changed, keys) {
		return err
	}
	text := "# Keys of companies that are trusted on this machine: attestd trust\n"
	for _, k := range changed {
		text += k.Company + " " + k.Fingerprint + "\n"
	}
	return setup.WritePrivate(path, text)
}

// trustPatience is how long a change of the file waits for another one.
const trustPatience = 5 * time.Second

// lockTrustedKeys locks the file among processes for as long as it is read and written.
func lockTrustedKeys(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR|regular.NoWait), flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(context.Background(), trustPatience)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 5*time.Millisecond); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return func() { _ = lock.Unlock() }, nil
}

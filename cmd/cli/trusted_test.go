package cli

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The file of trusted keys names one key of each company, or the file is refused.
func FuzzTrustedKeys(f *testing.F) {
	key := "SHA256:" + strings.Repeat("A", 43)
	for _, text := range []string{"", "# mine\n\n", "acme " + key, "acme " + key + "\nacme " + key, "acme " + key + " more", "acme\u2028 " + key, "a/b " + key, "acme\tSHA256:x\r\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := parseTrustedKeys(text)
		if err != nil {
			if keys != nil {
				t.Errorf("%v with %v", keys, err)
			}
			return
		}
		var again strings.Builder
		for _, k := range keys {
			again.WriteString(k.Company + " " + k.Fingerprint + "\n")
			if keys.Fingerprint(k.Company) != k.Fingerprint {
				t.Errorf("%s has another key in %q", k.Company, text)
			}
		}
		if same, err := parseTrustedKeys(again.String()); err != nil || !slices.Equal(same, keys) {
			t.Errorf("%q is %v, and then %v, %v", text, keys, same, err)
		}
	})
}

// A fingerprint comes from a server too, which could answer with another line.
func TestTrustKeyHasItsForm(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	key := "SHA256:" + strings.Repeat("A", 43)
	for _, k := range []TrustedKey{{"acme", ""}, {"acme", key + "\nother " + key}, {"acme\nother", key}, {"", key}} {
		if added, err := TrustKey(k); added || err == nil {
			t.Errorf("%q is trusted", k)
		}
	}
	if keys, err := ReadTrustedKeys(); err != nil || len(keys) > 0 {
		t.Errorf("%v %v", keys, err)
	}
}

// What is trusted at the same moment by several processes is all there.
func TestTrustKeyAtTheSameTime(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	key := "SHA256:" + strings.Repeat("A", 43)
	var done sync.WaitGroup
	for i := range 20 {
		done.Go(func() {
			if added, err := TrustKey(TrustedKey{fmt.Sprint("company-", i), key}); !added || err != nil {
				t.Error(added, err)
			}
		})
	}
	done.Wait()
	if keys, err := ReadTrustedKeys(); err != nil || len(keys) != 20 {
		t.Errorf("%d keys are trusted: %v", len(keys), err)
	}
}

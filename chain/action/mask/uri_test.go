package mask_test

import (
	"strings"
	"testing"

	"attestd/chain/action/mask"
)

// No query and no fragment of a URI is recorded, nor a password in it.
func TestMaskURI(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"file:///srv/a.txt":                "file:///srv/a.txt",
		"https://u:hunter2hunter2@h/x?a=b": "https://u:[masked 14]@h/x?[masked 3]",
		"https://h/x#token":                "https://h/x#[masked 5]",
		"https://h/x?":                     "https://h/x?",
		"":                                 "",
	} {
		if got := mask.Key(nil).URI(uri); got != want {
			t.Errorf("%s becomes %s, want %s", uri, got, want)
		}
	}
}

// What follows the first ? or # of any URI is masked.
func FuzzMaskURI(f *testing.F) {
	f.Add("https://h/x?token=hunter2#a")
	f.Add("?#")
	f.Fuzz(func(t *testing.T, uri string) {
		got := mask.Key(nil).URI(uri)
		at := strings.IndexAny(uri, "?#")
		if at < 0 || at == len(uri)-1 {
			return
		}
		if end := strings.LastIndexByte(got, '['); end < 1 || got[end-1] != uri[at] || !strings.HasPrefix(got[end:], "[masked ") || !strings.HasSuffix(got, "]") {
			t.Errorf("%q becomes %q", uri, got)
		}
	})
}

package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"db", "heads", "listen", "tls-cert", "tls-key", "registration", "registration-token-file", "stream", "max-keys"}
	for name, want := range map[string]string{
		"lisen": "listen", "listten": "listen", "registraton": "registration", "tls-certt": "tls-cert", "tlscert": "tls-cert",
		"registration-tokenfile": "registration-token-file", "token-file": "registration-token-file", "cert": "tls-cert",
		"max": "max-keys", "dv": "db", "xx": "", "": "", "something-else": "", "port": "",
		strings.Repeat("l", 1000): "",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("%q means %q, want %q", name, got, want)
		}
	}
}

func TestEdits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"", "a", 1}, {"rol", "role", 1}, {"rloe", "role", 1}, {"expires", "expiresat", 2}, {"abc", "xyz", 3}, {"größe", "grösse", 2}, {"stream", "straem", 1}} {
		if got := Edits(c.a, c.b); got != c.want || Edits(c.b, c.a) != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

package mask_test

import (
	"slices"
	"testing"

	"attestd/chain/action/mask"
)

// A secret is masked inside an argument, and as the argument after its option.
func TestArgumentsAreMasked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ given, want []string }{
		{[]string{"go", "test", "./..."}, []string{"go", "test", "./..."}},
		{[]string{"mysql", "--password", "correct horse", "db"}, []string{"mysql", "--password", "[masked 13]", "db"}},
		{[]string{"x", "--api-key=hunter2", "-v"}, []string{"x", "--api-key=[masked 7]", "-v"}},
		{[]string{"curl", "-H", "Authorization: Bearer abcdefgh", "u"}, []string{"curl", "-H", "Authorization: Bearer [masked 8]", "u"}},
		{[]string{"sh", "-c", "PGPASSWORD=hunter2 psql"}, []string{"sh", "-c", "PGPASSWORD=[masked 7] psql"}},
		{[]string{"git", "clone", "https://me:hunter2@host/x"}, []string{"git", "clone", "https://me:[masked 7]@host/x"}},
		{[]string{"x", "token", "y"}, []string{"x", "token", "y"}},
		{[]string{"curl", "-u", "a:hunter2", "u"}, []string{"curl", "-u", "a:[masked 7]", "u"}},
		{[]string{"/usr/bin/curl", "-su", "a:hunter2"}, []string{"/usr/bin/curl", "-su", "a:[masked 7]"}},
		{[]string{"curl", "-s", "-ua:hunter2", "u"}, []string{"curl", "-s", "-ua:[masked 7]", "u"}},
		{[]string{"curl", "--user=a:hunter 2"}, []string{"curl", "--user=a:[masked 8]"}},
		{[]string{"curl", "--user", "a:hunter 2", "u"}, []string{"curl", "--user", "a:[masked 8]", "u"}},
		{[]string{"curl", "--proxy-user", "a:hunter2"}, []string{"curl", "--proxy-user", "a:[masked 7]"}},
		{[]string{"curl", "--cookie", "sid=hunter2; b=c"}, []string{"curl", "--cookie", "sid=[masked 7]; b=c"}},
		{[]string{"curl", "-b", "sid=hunter2"}, []string{"curl", "-b", "sid=[masked 7]"}},
		{[]string{"curl", "--user-agent", "x", "u"}, []string{"curl", "--user-agent", "x", "u"}},
		{[]string{"wget", "--user", "a:hunter2"}, []string{"wget", "--user", "a:[masked 7]"}},
		{[]string{"docker", "run", "-u", "1000:1000", "x"}, []string{"docker", "run", "-u", "1000:1000", "x"}},
		{[]string{"x", "--pin-password", "1234"}, []string{"x", "--pin-password", "[masked 4]"}},
		{nil, []string{}},
	} {
		got := mask.Key(nil).Arguments(c.given)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q becomes %q, want %q", c.given, got, c.want)
		}
	}
}

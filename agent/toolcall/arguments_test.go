package toolcall_test

import (
	"slices"
	"testing"

	"attestd/agent/toolcall"
)

// A secret is masked inside an argument, and as the argument after its option.
func TestArgumentsAreMasked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ given, want []string }{
		{[]string{"go", "test", "./..."}, []string{"go", "test", "./..."}},
		{[]string{"mysql", "--password", "correct horse", "db"}, []string{"mysql", "--password", "[masked]", "db"}},
		{[]string{"x", "--api-key=hunter2", "-v"}, []string{"x", "--api-key=[masked]", "-v"}},
		{[]string{"curl", "-H", "Authorization: Bearer abcdefgh", "u"}, []string{"curl", "-H", "Authorization: [masked]", "u"}},
		{[]string{"sh", "-c", "PGPASSWORD=hunter2 psql"}, []string{"sh", "-c", "PGPASSWORD=[masked] psql"}},
		{[]string{"git", "clone", "https://me:hunter2@host/x"}, []string{"git", "clone", "https://me:[masked]@host/x"}},
		{[]string{"x", "token", "y"}, []string{"x", "token", "y"}},
		{[]string{"curl", "-u", "a:hunter2", "u"}, []string{"curl", "-u", "[masked]", "u"}},
		{[]string{"/usr/bin/curl", "-su", "a:hunter2"}, []string{"/usr/bin/curl", "-su", "[masked]"}},
		{[]string{"curl", "-s", "-ua:hunter2", "u"}, []string{"curl", "-s", "-u[masked]", "u"}},
		{[]string{"curl", "--user=a:hunter 2"}, []string{"curl", "--user=[masked]"}},
		{[]string{"curl", "--user", "a:hunter 2", "u"}, []string{"curl", "--user", "[masked]", "u"}},
		{[]string{"curl", "--proxy-user", "a:hunter2"}, []string{"curl", "--proxy-user", "[masked]"}},
		{[]string{"curl", "--cookie", "sid=hunter2; b=c"}, []string{"curl", "--cookie", "[masked]"}},
		{[]string{"curl", "-b", "sid=hunter2"}, []string{"curl", "-b", "[masked]"}},
		{[]string{"curl", "--user-agent", "x", "u"}, []string{"curl", "--user-agent", "x", "u"}},
		{[]string{"wget", "--user", "a:hunter2"}, []string{"wget", "--user", "[masked]"}},
		{[]string{"docker", "run", "-u", "1000:1000", "x"}, []string{"docker", "run", "-u", "1000:1000", "x"}},
		{[]string{"x", "--pin-password", "1234"}, []string{"x", "--pin-password", "[masked]"}},
		{nil, []string{}},
	} {
		if got := toolcall.MaskArguments(c.given); !slices.Equal(got, c.want) {
			t.Errorf("%q becomes %q, want %q", c.given, got, c.want)
		}
	}
}

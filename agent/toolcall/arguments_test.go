package toolcall_test

import (
	"slices"
	"testing"

	"attestd/agent/toolcall"
)

// A secret is masked where it stands in an argument, and where it is one that follows its option.
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
		{nil, []string{}},
	} {
		if got := toolcall.MaskArguments(c.given); !slices.Equal(got, c.want) {
			t.Errorf("%q becomes %q, want %q", c.given, got, c.want)
		}
	}
}

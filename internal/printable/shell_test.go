package printable_test

import (
	"os/exec"
	"strings"
	"testing"

	"attestd/internal/printable"
	"attestd/internal/testenv"
)

// A shell parses any quoted word back to the word.
func TestShellWord(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, testenv.Program("sh"))
	for _, word := range []string{"", "plain", "/a.b_c-d+e:1", "a b", "$(id)", "`id`", "'", "''", `a'b"c\d`, "a\nb", "*", "~", "~root", "#", "!x", "a;b", "{a,b}", "é", "-x", "a=b", "\x1b[2J", `\`} {
		quoted := printable.ShellWord(word)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s x"+quoted).Output()
		if err != nil {
			t.Fatal(err)
		}
		if string(out) != "x"+word {
			t.Errorf("%q is %q, which a shell reads as %q", word, quoted, out)
		}
		if strings.ContainsAny(word, "$`; ") && !strings.HasPrefix(quoted, "'") {
			t.Errorf("%q is not quoted", quoted)
		}
	}
}

package printable

import (
	"regexp"
	"strings"
)

// plainWord is what no shell reads as anything but itself.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9/._+:-]+$`)

// ShellWord writes a word for a POSIX shell: in single quotes, unless it is plain.
func ShellWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return ShellQuoted(word)
}

// ShellWords writes words for a POSIX shell, with spaces between them.
func ShellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = ShellWord(word)
	}
	return strings.Join(quoted, " ")
}

// ShellQuoted writes a word for a POSIX shell, in single quotes.
func ShellQuoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

package printable

import (
	"strings"

	"attestd/internal/lazyregexp"
)

// plainWord matches words that need no quotes in any shell.
var plainWord = lazyregexp.New(`^[A-Za-z0-9/._+:-]+$`)

// ShellWord quotes a word for a POSIX shell if necessary.
func ShellWord(word string) string {
	if plainWord().MatchString(word) {
		return word
	}
	return ShellQuoted(word)
}

// ShellWords quotes words for a POSIX shell and joins them with spaces.
func ShellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = ShellWord(word)
	}
	return strings.Join(quoted, " ")
}

// ShellQuoted quotes a word for a POSIX shell in single quotes.
func ShellQuoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

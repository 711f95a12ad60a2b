package approval

import (
	"strconv"
	"strings"

	"attestd/internal/lazyregexp"
)

// MaxQuorum is the most people that a policy may demand.
const MaxQuorum = 100

// Tokens of Cedar that matter to annotations; everything between them is skipped. All checkers have
// the same expression.
var cedarTokens = lazyregexp.New(`//[^\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/|"(?:\\[^\n]|[^"\\\n])*"|[0-9A-Za-z_]+|[@();]`)

// Quorums returns how many people must approve what each policy of a text in Cedar permits, in the
// order of the policies: the annotation @quorum, and 1 without. A quorum that nobody can read is
// MaxQuorum+1, which no approval meets. What is no policy gives some list.
func Quorums(cedar string) (quorums []int) {
	quorum, tokens := 1, cedarTokens().FindAllString(cedar, -1)
	tokens = removeComments(tokens)
	for i, token := range tokens {
		switch {
		case token == ";":
			quorums = append(quorums, quorum)
			quorum = 1
		case token == "@" && at(tokens, i+1) == "quorum":
			quorum = MaxQuorum + 1
			text := at(tokens, i+3)
			n, err := strconv.Atoi(strings.Trim(text, `"`))
			if err == nil && 1 <= n && n <= MaxQuorum && text == `"`+strconv.Itoa(n)+`"` && at(tokens, i+2) == "(" && at(tokens, i+4) == ")" {
				quorum = n
			}
		}
	}
	return quorums
}

func removeComments(tokens []string) (rest []string) {
	for _, token := range tokens {
		if !strings.HasPrefix(token, "//") && !strings.HasPrefix(token, "/*") {
			rest = append(rest, token)
		}
	}
	return rest
}

func at(tokens []string, i int) string {
	if i < len(tokens) {
		return tokens[i]
	}
	return ""
}

// Quorum returns how many people must approve what some policies permit, by the texts of a set:
// the most that any of them demands. by names policies as decisions do, ID or ID#n; one that the
// set does not have demands MaxQuorum+1.
func Quorum(texts map[string]string, by []string) int {
	most := 1
	for _, name := range by {
		id, n, isPart := strings.Cut(name, "#")
		quorums := Quorums(texts[id])
		place, err := 0, error(nil)
		if isPart {
			place, err = strconv.Atoi(n)
		}
		if err != nil || place < 0 || place >= len(quorums) || strconv.Itoa(place) != n && isPart {
			return MaxQuorum + 1
		}
		most = max(most, quorums[place])
	}
	return most
}

package mask

import "strings"

// classes counts what a value consists of.
type classes struct {
	lower, upper, digit, sign, space int
	// between letters and digits, and of case but for one capital at the beginning of a word
	changes int
	hex     bool
}

func classesOf(s string) (c classes) {
	c.hex = true
	kind, word := 0, 0
	for i := range len(s) {
		b := s[i]
		before := kind
		switch {
		case isLower(b):
			c.lower++
			kind = 1
		case isUpper(b):
			c.upper++
			kind = 2
		case isDigit(b):
			c.digit++
			kind = 3
		case b == ' ' || b == '\t':
			c.space++
			kind = 0
		default:
			c.sign++
			kind = 0
		}
		if !isDigit(b) && (b < 'a' || b > 'f') && (b < 'A' || b > 'F') {
			c.hex = false
		}
		if kind == 0 || before == 0 {
			word = i
		}
		if before != kind && before != 0 && kind != 0 && (before != 2 || kind != 1 || i-word != 1) {
			c.changes++
		}
	}
	return c
}

// words are values in documentation and code that are no secrets.
var plainWords = map[string]bool{}

func init() {
	for _, word := range strings.Fields(`null nil none undefined true false yes no on off required optional disabled enabled string str text
		bytes int number bool boolean object any unknown changeme change-me redacted hidden masked removed secret password passwd token
		example placeholder dummy todo tbd varchar include omit same-origin basic bearer digest default value void self this string;
		here your the a an of for from to is in and or not must see use with what when where which stored stdin prompt env file empty
		invalid missing expired deleted created updated configured Opaque rotated revoked refreshed`) {
		plainWords[word] = true
	}
}

// placeholder reports whether a value is a placeholder: a variable, a template, a word of
// documentation, or what something else has masked.
func placeholder(v string) bool {
	if v == "" {
		return true
	}
	switch v[0] {
	case '$':
		// a password may begin so too, but a variable is a name
		if len(v) > 1 && (v[1] == '{' || v[1] == '(' || isVariable(v[1:])) {
			return true
		}
		if len(v) == 1 {
			return true
		}
	case '<', '{', '[', '(', '%':
		if v[0] != '%' || len(v) < 2 || v[1] == 's' || v[1] == '(' || v[1] == 'v' || v[1] == '{' ||
			strings.HasSuffix(v, "%") {
			return true
		}
	}
	lower := strings.ToLower(v)
	if plainWords[strings.Trim(lower, "[]<>*.,:;!?'\"`")] || plainWords[v] {
		return true
	}
	if strings.HasPrefix(lower, "your") || strings.HasPrefix(lower, "my-") || strings.HasPrefix(lower, "example") ||
		strings.Contains(lower, "_here") || strings.Contains(lower, "-here") ||
		strings.HasPrefix(lower, "https://") || strings.HasPrefix(lower, "http://") || strings.Contains(v, "${") ||
		strings.Contains(v, "{{") || strings.Contains(v, "...") ||
		strings.HasPrefix(lower, "xxx") || strings.Contains(v, "****") || strings.HasPrefix(lower, "@@") ||
		strings.HasPrefix(v, "[masked") {
		return true
	}
	for i := 1; i < len(v); i++ {
		if v[i] != v[0] {
			return false
		}
	}
	return len(v) > 2 || !isAlnum(v[0])
}

// isVariable reports whether a text is the name of a variable of a shell.
func isVariable(s string) bool {
	if s == "" || isDigit(s[0]) {
		return false
	}
	upper := true
	for i := range len(s) {
		if !isWord(s[i]) {
			return i > 0 && (s[i] == ':' || s[i] == '/' || s[i] == '.')
		}
		upper = upper && !isLower(s[i])
	}
	return upper || !strings.ContainsAny(s, "0123456789")
}

// isCode reports whether an unquoted value is an expression or a path rather than a literal.
func isCode(v string) bool {
	if strings.ContainsAny(v, "([{") || strings.HasPrefix(v, "/") || strings.HasPrefix(v, "./") ||
		strings.HasPrefix(v, "~/") || strings.HasPrefix(v, "../") ||
		strings.HasPrefix(v, "*") || strings.HasPrefix(v, "&") || strings.HasPrefix(v, "-") ||
		strings.HasPrefix(v, "=") || strings.HasPrefix(v, "!") || strings.HasPrefix(v, "@") {
		return true
	}
	if fileName(v) {
		return true
	}
	// settings.API_KEY, process.env.X, a.b
	if first, rest, found := strings.Cut(v, "."); found && isVariable(first) && rest != "" &&
		!strings.ContainsAny(v, "0123456789-!+#") && !strings.Contains(rest, "..") {
		return true
	}
	if first, rest, found := strings.Cut(v, "."); found && rest != "" && isUpper(rest[0]) && first != "" &&
		isLower(first[0]) && run(rest, charsets["word"], len(rest)) == len(rest) &&
		// crypto.SHA256
		len(v) < 40 && len(first) < 12 && run(first, charsets["word"], len(first)) == len(first) {
		return true
	}
	return strings.HasSuffix(v, "?") && !strings.ContainsAny(v, "0123456789")
}

var extensions = map[string]bool{
	"go": true, "js": true, "ts": true, "py": true, "rb": true, "rs": true, "java": true, "txt": true, "md": true,
	"json": true, "yaml": true, "yml": true, "toml": true, "pem": true, "key": true, "crt": true, "gpg": true,
	"env": true, "html": true, "css": true, "sh": true, "log": true, "cfg": true, "conf": true, "xml": true,
	"tfvars": true, "sql": true, "csv": true, "mjs": true, "tsx": true, "jwk": true, "so": true, "exe": true,
	"zip": true, "tgz": true, "gz": true, "pub": true, "tar": true, "lock": true, "ini": true, "internal": true,
	"com": true, "org": true, "net": true, "local": true,
}

// fileName reports whether a value ends as names of files and hosts do.
func fileName(v string) bool {
	dot := strings.LastIndexByte(v, '.')
	return dot > 0 && extensions[v[dot+1:]]
}

// wordy reports whether a value consists of words, as names of code do: NewPublicKey44. Only one
// that has capitals or signs between its words is judged.
func wordy(v string) bool {
	const shortest = 3
	in, joined := 0, false
	for i := 0; i < len(v); {
		start := i
		if isUpper(v[i]) {
			i++
			joined = joined || start > 0
		}
		for i < len(v) && isLower(v[i]) {
			i++
		}
		if i-start >= shortest {
			in += i - start
		}
		if i == start {
			joined = joined || strings.IndexByte("._-", v[i]) >= 0
			i++
		}
	}
	return joined && in*4 > len(v)*3
}

// random reports whether a value looks as if no person had chosen it: long enough, and letters and
// digits without an order of words.
func random(v string, least int) bool {
	if len(v) < least || placeholder(v) || wordy(v) {
		return false
	}
	c := classesOf(v)
	letters := c.lower + c.upper
	switch {
	case c.space > 0, c.sign*3 > len(v), strings.Contains(v, "://"), strings.HasPrefix(v, "/"), strings.HasPrefix(v,
		"./"), fileName(v):
		return false
	case c.digit > 0 && letters > 0:
		// v1.2.3, node18, 10.0.0.1/prod and 2026-01-01T10 have few changes
		return c.changes >= 3 || c.changes >= 2 && len(v) < 24 && (c.upper > 0 && c.lower > 0 || c.sign > 0) ||
			c.changes >= 1 && c.upper > 1 && c.lower > 1 && c.sign <= 2 && len(v) < 24
	case c.digit == 0 && c.upper > 1 && c.lower > 1:
		return len(v) >= 16 && c.changes*3 >= len(v)
	case letters == 0:
		return c.hex && len(v) >= 16
	}
	return false
}

// tokenLike reports whether the value of a name such as token is one rather than a word.
func tokenLike(v string, quoted bool) bool {
	if placeholder(v) || len(v) < 6 || strings.ContainsAny(v, " \t") {
		return false
	}
	c := classesOf(v)
	switch {
	case !quoted && isCode(v), strings.Contains(v, "://"), fileName(v), strings.HasPrefix(v, "/"),
		strings.HasPrefix(v, "./"):
		return false
	case c.upper > 0 && c.lower > 0 && wordy(v) && (!quoted || c.sign == 0):
		return false
	case c.digit > 0 && c.lower+c.upper > 0:
		return true
	case c.digit == 0:
		return len(v) >= 16 && c.changes*4 >= len(v) && c.upper > 1 || longestWord(v) >= 18
	}
	return len(v) >= 8 // digits and signs
}

// longestWord returns the length of the longest word of a value.
func longestWord(v string) (longest int) {
	n := 0
	for i := range len(v) {
		if n++; !isLower(v[i]) && !isUpper(v[i]) || i > 0 && isUpper(v[i]) && isLower(v[i-1]) {
			n = 0
		}
		longest = max(longest, n)
	}
	return longest
}

// passwordLike reports whether the value of a name such as password is one.
func passwordLike(v string, quoted, bare bool) bool {
	if placeholder(v) || len(v) < 3 {
		return false
	}
	c := classesOf(v)
	if quoted {
		if c.space > 0 { // words, but no command, sentence or list
			return c.sign <= 2 && !strings.Contains(v, "://") && !strings.Contains(v, " -") &&
				!strings.Contains(v, " /") && !strings.ContainsAny(v, ",:?%{") && !strings.HasPrefix(v, "/") &&
				c.space <= 12 && !strings.HasSuffix(v, ".") && v[0] != ' '
		}
		return !strings.ContainsAny(v[:1], "),:]}/=.") && !fileName(v) && !strings.HasSuffix(v, ":")
	}
	if isCode(v) || !isAlnum(v[0]) && !strings.ContainsAny(v[:1], "_.#+^~!@*") {
		return false
	}
	if c.digit > 0 && c.lower+c.upper > 0 || c.digit >= 4 {
		return true
	}
	if c.sign > 0 && strings.ContainsAny(v, "!#+^~@%=") {
		return true
	}
	return bare && len(v) >= 5 && nameStrength(v) == notSecret && !strings.ContainsAny(v, ".:/")
}

// isSecret reports whether the value of a name of some strength is a secret. bare says that an
// unquoted value is all that the name has, as in a file of variables.
func isSecret(s strength, v string, quoted, bare bool) bool {
	switch s {
	case isPassword:
		return passwordLike(v, quoted, bare)
	case isToken:
		return tokenLike(v, quoted)
	case mayBe:
		return random(v, 8) && (quoted || !isCode(v)) && !strings.Contains(v, "/..")
	}
	return false
}

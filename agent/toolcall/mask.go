package toolcall

import (
	"regexp"
	"strings"

	"attestd/internal/lazyregexp"
)

// masked replaces a secret.
const masked = "[masked]"

// pattern is one form of a secret. Every text that it matches contains one of the hints in lower
// case. The search for hints comes first, so most texts need no regular expression.
type pattern struct {
	hints  []string
	secret func() *regexp.Regexp // the first group is the secret; without a group, the whole match
}

// names matches the ends of names whose values are secrets.
const names = `(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|signing[_-]?key|authorization|credentials?)`

// secretName matches the name of a JSON member whose value is secret, with all strings and numbers
// below it.
var secretName = regexp.MustCompile(`(?i)(?:` + names + `|cookie|secrets|passw(?:or)?ds)$`)

// secretOption matches a command-line option whose value is a secret.
var secretOption = regexp.MustCompile(`(?i)^--?[a-z0-9-]*(?:` + names + `|cookie)$`)

// quotation matches an optional quotation mark, also inside a text that is itself quoted.
const quotation = `(?:\\*["'])?`

// privateKey matches a PEM private key, also one without its end.
var privateKey = pattern{
	[]string{"private key"},
	lazyregexp.New(`(?s)-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|$)`),
}

// patterns are the other forms of secrets, each within a line; docs/agents.md lists them for users.
// Go's regular expressions take linear time.
var patterns = []pattern{
	// Keys and tokens of well-known forms.
	// AWS
	{[]string{"a3t", "akia", "asia", "abia", "acca", "agpa", "aida", "aipa", "anpa", "anva", "aroa"},
		lazyregexp.New(`\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AIPA|ANPA|ANVA|AROA)[A-Z0-9]{16}`)},
	{[]string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"},
		lazyregexp.New(`(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_.-]{20,})`)},
	{[]string{"sk-", "sk_", "rk_", "whsec_"}, // Anthropic, OpenAI, Stripe, Standard Webhooks
		lazyregexp.New(`\b(?:sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=_-]{16,})`)},
	{[]string{"xox", "xapp-", "hooks.slack.com/"}, // Slack
		lazyregexp.New(`\b(?:xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}|hooks\.slack\.com/services/[A-Za-z0-9/]+)`)},
	{[]string{"aiza", "ya29.", "gocspx-"}, // Google
		lazyregexp.New(`\b(?:AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,})`)},
	{[]string{"npm_", "pypi-", "hf_", "sg.", "dop_v1_", "age-secret-key-"},
		lazyregexp.New(`\b(?:npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}|hf_[A-Za-z0-9]{30,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|dop_v1_[a-f0-9]{64}|AGE-SECRET-KEY-1[A-Z0-9]{50,})`)},
	{[]string{"eyj"}, // signed tokens: JWTs, ours among them
		lazyregexp.New(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)},
	// attestd's own; the names below cover keys with another --service-name
	{[]string{"svc_", "cs_", "oauth_", "whpk_"},
		lazyregexp.New(`(?:svc|cs|oauth)_[A-Za-z0-9_-]{43,48}`)},

	// Places of secrets: headers, URLs, command-line options, assignments.
	{[]string{"bearer", "basic"}, lazyregexp.New(`(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,})`)},
	{[]string{"authorization"}, lazyregexp.New(`(?i)authorization` + quotation + `\s*[:=]\s*` + quotation + `((?:[a-z]+[ \t]+)?[^\s"'\\,;]+)`)},
	{[]string{"cookie"}, lazyregexp.New(`(?i)cookie` + quotation + `\s*:\s*` + quotation + `([^\r\n"'\\]+)`)},
	{[]string{"://"}, lazyregexp.New(`://[^\s/:@"'\\]*:([^\s/@"'\\]+)@`)},
	{[]string{"curl"}, lazyregexp.New(`\bcurl\b[^|;&]*?\s(?:-[A-Za-z]{0,8}[uU]\s*|--(?:proxy-)?user[\s=]+)("[^"]*"?|'[^']*'?|[^\s"']+)`)},
	{[]string{"curl"}, lazyregexp.New(`\bcurl\b[^|;&]*?\s(?:-[A-Za-z]{0,8}b\s*)("[^"]*"?|'[^']*'?|[^\s"']+)`)},
	{[]string{"--cookie"}, lazyregexp.New(`(?i)--cookie[\s=]+("[^"]*"?|'[^']*'?|[^\s"']+)`)},
	{[]string{"passw", "passphrase", "secret", "token", "key", "authorization", "credential"},
		lazyregexp.New(`(?i)(?:` + names + `\\*["']?\s*(?::=|[:=])\s*|(?:^|\s)--?[a-z0-9-]*` + names + `[\s\\]+)` +
			`(\\+"[^"\\]*|"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"'\\,;&)}\]=][^\s"'\\,;&)}\]]*)`)},
}

// mask replaces each secret in the text with [masked].
func mask(text string) string {
	const shortest = 8 // no match of a pattern is shorter
	if len(text) < shortest {
		return text
	}
	text = privateKey.mask(text)
	var b strings.Builder
	for text != "" {
		n := lineLength(text)
		line, lower := text[:n], strings.ToLower(text[:n])
		for _, p := range patterns {
			if containsAny(lower, p.hints) {
				line = p.mask(line)
			}
		}
		b.WriteString(line)
		text = text[n:]
	}
	return b.String()
}

// lineLength returns the length of a text's first line with its end. As in a shell, a line that
// ends in a backslash continues in the next.
func lineLength(text string) int {
	for n := 0; ; {
		end := strings.IndexByte(text[n:], '\n')
		if end < 0 {
			return len(text)
		}
		if n += end + 1; !strings.HasSuffix(text[:n-1], `\`) {
			return n
		}
	}
}

func (p pattern) mask(text string) string {
	found := p.secret().FindAllStringSubmatchIndex(text, -1)
	if found == nil {
		return text
	}
	var b strings.Builder
	done := 0
	for _, at := range found {
		start, end := at[len(at)-2], at[len(at)-1]   // of the group, or of the whole match
		if strings.HasPrefix(text[start:], masked) { // another pattern has masked it
			continue
		}
		b.WriteString(text[done:start])
		b.WriteString(masked)
		done = end
	}
	b.WriteString(text[done:])
	return b.String()
}

func containsAny(text string, hints []string) bool {
	for _, hint := range hints {
		if strings.Contains(text, hint) {
			return true
		}
	}
	return false
}

// endsInKey reports whether a text ends inside a PEM private key. before says whether the preceding
// text did.
func endsInKey(text string, before bool) bool {
	begins, ends := strings.LastIndex(text, "-----BEGIN "), strings.LastIndex(text, "-----END ")
	if begins >= 0 && strings.Contains(text[begins:], "PRIVATE KEY") {
		return begins > ends
	}
	return before && ends < 0
}

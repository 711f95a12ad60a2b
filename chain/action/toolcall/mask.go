package toolcall

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// maskedID replaces a secret in an ID. Package action knows such an ID by it.
const maskedID = "[masked]"

// maxValue is the maximum size in bytes of a secret that a name or an option announces. The rest of
// a longer value stays in the text.
const maxValue = 8 << 10

// span is the place of a secret in a text.
type span struct {
	start, end int
	quote      bool // a JSON number, whose mask needs quotation marks
}

// MaskText returns a text with its secrets masked.
func (p Policy) MaskText(text string) string { return p.mask(text) }

// mask replaces each secret in a text.
func (p Policy) mask(text string) string { return replace(text, find(text), p.masked) }

// masked returns what stands for a secret: its length in bytes and, with a key, its HMAC-SHA-256,
// of which 128 bits are enough to find the value and too many to make another one for it.
func (p Policy) masked(secret string) string {
	text := "[masked " + strconv.Itoa(len(secret))
	if len(p.MaskKey) > 0 {
		mac := hmac.New(sha256.New, p.MaskKey)
		mac.Write([]byte(secret))
		text += " h:" + hex.EncodeToString(mac.Sum(nil)[:16])
	}
	return text + "]"
}

// replace replaces the spans of a text. They come in any order and may overlap.
func replace(text string, spans []span, form func(string) string) string {
	if len(spans) == 0 {
		return text
	}
	sortSpans(spans)
	var b strings.Builder
	done := 0
	for i := 0; i < len(spans); {
		s := spans[i]
		for i++; i < len(spans) && spans[i].start < s.end; i++ {
			s.end = max(s.end, spans[i].end)
			s.quote = s.quote && spans[i].quote
		}
		b.WriteString(text[done:s.start])
		if s.quote {
			b.WriteByte('"')
		}
		b.WriteString(form(text[s.start:s.end]))
		if s.quote {
			b.WriteByte('"')
		}
		done = s.end
	}
	b.WriteString(text[done:])
	return b.String()
}

func sortSpans(spans []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(a.start-b.start, a.end-b.end) })
}

// shellEnd returns where in a text something begins that no secret has and with which a shell ends
// a word or begins a command: a line feed, one of ; | & < > and `, or $(. It is the length of the
// text if there is nothing of this kind.
func shellEnd(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\n', '\r', ';', '|', '&', '<', '>', '`':
			return i
		case '$':
			if i+1 < len(text) && text[i+1] == '(' {
				return i
			}
		}
	}
	return len(text)
}

// finder collects the secrets of a text. Its methods are the places where secrets stand; each reads
// the text once, and looks back and ahead by a bounded number of bytes.
type finder struct {
	text  string
	spans []span
	read  int // bytes of values, of which some were read more than once
}

// find returns the places of the secrets in a text. None of them holds a line feed or anything else
// that ends a word of a shell, so no command is masked with what stands before it.
func find(text string) []span {
	const shortest = 6 // a name and its value
	if len(text) < shortest {
		return nil
	}
	f := finder{text: text}
	f.privateKeys()
	f.tokens()
	f.urls()
	f.assignments()
	f.headers()
	f.commands()
	f.mentions()
	f.markup()
	f.tables()
	f.manifests()
	f.json()
	return f.spans
}

// add adds a secret from start to end, as far as it is one by the grammar of a shell.
func (f *finder) add(start, end int) {
	if end = start + shellEnd(f.text[start:end]); end > start {
		f.spans = append(f.spans, span{start: start, end: end})
	}
}

// lines calls do with the start and the end of each line, without its line feed. As in a shell, a
// line that ends in a backslash goes on in the next.
func (f *finder) lines(do func(start, end int)) {
	for start := 0; start < len(f.text); {
		end := start
		for {
			n := strings.IndexByte(f.text[end:], '\n')
			if n < 0 {
				end = len(f.text)
				break
			}
			if end += n; end == start || f.text[end-1] != '\\' {
				break
			}
			end++
		}
		do(start, end)
		start = end + 1
	}
}

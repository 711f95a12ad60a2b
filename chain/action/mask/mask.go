// Package mask replaces the secrets in what an agent sends with masks: in texts, commands, URIs and
// JSON values. It is pure.
//
// A mask is [masked N], where N is the length of the secret in bytes, or with a [Key]
// [masked N h:D], where D is the first 32 hex digits of the secret's HMAC-SHA-256.
//
// A secret is a token of a known form, or the value that a name, an option or a header announces.
// It ends where its grammar ends: none holds a line feed, a backtick, $( or one of ; | & < and >,
// so that a mask hides no command. Masking is incomplete: it knows forms of secrets, not the
// secrets themselves.
package mask

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Key is the key of the digests in masks. It stays on the agent's machine, so only its owner can
// show later which value a mask replaces, and no one else can guess it. Without a key a mask has
// the length alone.
type Key []byte

// Text returns a text with its secrets masked.
func (k Key) Text(text string) string { return replace(text, find(text), k.Replacement) }

// Replacement returns the replacement of a secret: its length in bytes and, with a key, its
// HMAC-SHA-256, of which 128 bits are enough to find the value and too many to make another one for
// it.
func (k Key) Replacement(secret string) string {
	text := "[masked " + strconv.Itoa(len(secret))
	if len(k) > 0 {
		mac := hmac.New(sha256.New, k)
		mac.Write([]byte(secret))
		text += " h:" + hex.EncodeToString(mac.Sum(nil)[:16])
	}
	return text + "]"
}

// In reports whether a text has a mask, or what looks like one.
func In(text string) bool { return strings.Contains(text, "[masked") }

// InID replaces a secret in an ID. It has no length, because it only marks the ID as one that names
// nothing: IDs that differ may be equal once they are masked.
const InID = "[masked]"

// ID returns an ID with its secrets masked.
func ID(id string) string { return replace(id, find(id), func(string) string { return InID }) }

// maxValue is the maximum size in bytes of a secret that a name or an option announces. The rest of
// a longer value stays in the text.
const maxValue = 8 << 10

// span is the place of a secret in a text.
type span struct {
	start, end int
	quote      bool // a JSON number, whose mask needs quotation marks
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

// finder collects the secrets of a text. Its methods are the places where secrets occur; each reads
// the text once, and looks back and ahead by a bounded number of bytes.
type finder struct {
	text  string
	spans []span
	read  int // bytes of values, of which some were read more than once
}

// find returns the places of the secrets in a text. None of them holds a line feed or anything else
// that ends a word of a shell, so no command is masked together with what precedes it.
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

// URI returns the recorded form of a URI: its query and fragment, which often hold a token, are
// masked in full, and secrets elsewhere as in any text.
func (k Key) URI(uri string) string {
	uri = strings.ToValidUTF8(uri, "\ufffd")
	at := strings.IndexAny(uri, "?#")
	if at < 0 || at == len(uri)-1 {
		return k.Text(uri)
	}
	return k.Text(uri[:at]) + uri[at:at+1] + k.Replacement(uri[at+1:])
}

// Package printable makes untrusted text safe to print: on terminals, where it must not move,
// colour, reverse or add lines, and in shell commands.
//
// The rule for terminals, which check.py and check.mjs share (cases.json has its cases): these
// characters are replaced with \u and four lower-case hex digits, and all others are unchanged.
//
//	U+0000–U+001F, U+007F–U+009F   C0, DEL and C1: ends of lines, tabs, terminal sequences
//	U+061C, U+200E, U+200F, U+202A–U+202E, U+2066–U+2069   bidirectional controls
//	U+2028, U+2029   line and paragraph separators
//
// A byte that is not UTF-8 or a lone surrogate becomes U+FFFD. A backslash is unchanged, so
// escaping is idempotent.
package printable

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Text escapes unprintable characters.
func Text(s string) string {
	at := strings.IndexFunc(s, hidden)
	if at < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r) // U+FFFD for a byte that is not UTF-8
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	return r < 0x20 || 0x7f <= r && r <= 0x9f || r == 0x061c || r == 0x200e || r == 0x200f || 0x2028 <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069
}

// Fprintf is fmt.Fprintf with escaped arguments: only the format and errors.Join can end lines.
func Fprintf(w io.Writer, format string, args ...any) {
	// Package cli remembers an error of the standard output.
	_, _ = fmt.Fprintf(w, format, texts(args)...)
}

// Sprintf is fmt.Sprintf with escaped arguments.
func Sprintf(format string, args ...any) string { return fmt.Sprintf(format, texts(args)...) }

func texts(args []any) []any {
	escaped := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case error:
			escaped[i] = Error(arg)
		case fmt.Stringer:
			escaped[i] = Text(arg.String())
		default:
			if kind := reflect.ValueOf(arg).Kind(); reflect.Bool <= kind && kind <= reflect.Float64 {
				escaped[i] = arg // a number keeps its verb
			} else {
				escaped[i] = Text(fmt.Sprint(arg))
			}
		}
	}
	return escaped
}

// Error returns the escaped text of an error. Only errors.Join can end lines.
func Error(err error) string {
	text := err.Error()
	var causes []error
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if cause := e.Unwrap(); cause != nil {
			causes = []error{cause}
		}
	case interface{ Unwrap() []error }:
		causes = e.Unwrap()
	}
	var b strings.Builder
	for i, cause := range causes {
		before, after, found := strings.Cut(text, cause.Error())
		if !found {
			break // it has a text of its own
		}
		if before == "\n" && i > 0 {
			b.WriteByte('\n')
		} else {
			b.WriteString(Text(before))
		}
		b.WriteString(Error(cause))
		text = after
	}
	return b.String() + Text(text)
}

// Count returns a number with the name of what is counted, in the plural unless it is one.
func Count[N ~int | ~int64](n N, name string) string {
	if n != 1 {
		if stem, ok := strings.CutSuffix(name, "y"); ok {
			name = stem + "ie"
		}
		name += "s"
	}
	return fmt.Sprintf("%d %s", n, name)
}

// JSON writes a value as one line of JSON, with < and > unescaped. Unprintable characters occur
// only in strings, where their escapes have the same value.
func JSON(w io.Writer, value any) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(w, Text(string(bytes.TrimSuffix(line.Bytes(), []byte("\n"))))+"\n")
	return err
}

// CopyTable copies comma-separated values (RFC 4180) and escapes unprintable characters in cells.
// Only ends of rows remain line ends.
func CopyTable(w io.Writer, table io.Reader) error {
	in, out := bufio.NewReader(table), bufio.NewWriter(w)
	quoted := false
	for {
		r, _, err := in.ReadRune()
		if errors.Is(err, io.EOF) {
			return out.Flush()
		}
		if err != nil {
			return errors.Join(err, out.Flush()) // complete rows are written
		}
		switch {
		case r == '"':
			quoted = !quoted
			_ = out.WriteByte('"')
		case !quoted && (r == '\r' && next(in) == '\n' || r == '\n'):
			_ = out.WriteByte(byte(r))
		case hidden(r):
			fmt.Fprintf(out, `\u%04x`, r)
		default:
			_, _ = out.WriteRune(r) // U+FFFD for a byte that is not UTF-8
		}
	}
}

// next peeks at the next byte; 0 at the end.
func next(in *bufio.Reader) byte {
	if b, err := in.Peek(1); err == nil {
		return b[0]
	}
	return 0
}

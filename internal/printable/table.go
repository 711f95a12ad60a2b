package printable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

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

package mcpproxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// errLineTooLong ends a session, because the proxy does not know the content of such a line.
var errLineTooLong = errors.New("a message is too long")

// lines reads complete lines from a stream.
type lines struct {
	in    *bufio.Reader
	limit int // bytes of a line
}

func newLines(in io.Reader, most int) *lines { return &lines{bufio.NewReaderSize(in, 32<<10), most} }

// next returns a copy of the next line with its end. The last line may have none. After it, next
// returns io.EOF.
func (l *lines) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.in.ReadSlice('\n')
		if len(line)+len(part) > l.limit {
			return nil, fmt.Errorf("%w: over %d bytes", errLineTooLong, l.limit)
		}
		line = append(line, part...)
		switch {
		case err == nil, err == io.EOF && len(line) > 0:
			return escapeSeparators(line, l.limit)
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

// separators are characters that some readers treat as the end of a line, such as Node's readline
// and Java's Scanner, and their JSON escapes. In JSON they occur only in strings.
var separators = []struct{ raw, escaped []byte }{
	{[]byte("\u0085"), []byte(`\u0085`)}, {[]byte("\u2028"), []byte(`\u2028`)}, {[]byte("\u2029"), []byte(`\u2029`)},
}

// escapeSeparators escapes the separators in a line, so that all readers see one line.
func escapeSeparators(line []byte, limit int) ([]byte, error) {
	size := len(line)
	for _, s := range separators {
		size += bytes.Count(line, s.raw) * (len(s.escaped) - len(s.raw))
	}
	if size == len(line) {
		return line, nil
	}
	if size > limit {
		return nil, fmt.Errorf("%w: over %d bytes", errLineTooLong, limit)
	}
	for _, s := range separators {
		line = bytes.ReplaceAll(line, s.raw, s.escaped)
	}
	return line, nil
}

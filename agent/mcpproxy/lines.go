package mcpproxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// errLineTooLong ends a session: what is in such a line cannot be known, so it must not go on.
var errLineTooLong = errors.New("a message is longer than the proxy takes")

// lines reads the lines of a stream, each whole.
type lines struct {
	in   *bufio.Reader
	most int // bytes of a line
}

func newLines(in io.Reader, most int) *lines { return &lines{bufio.NewReaderSize(in, 32<<10), most} }

// next returns a line with its end, in memory of its own. The last may have no end. After the last
// it returns io.EOF.
func (l *lines) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.in.ReadSlice('\n')
		if len(line)+len(part) > l.most {
			return nil, fmt.Errorf("%w: over %d bytes", errLineTooLong, l.most)
		}
		line = append(line, part...)
		switch {
		case err == nil, err == io.EOF && len(line) > 0:
			return l.escape(line)
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

// separators are characters that some readers take for the end of a line, Node's readline and
// Java's Scanner among them, and how JSON writes them so that none does. In JSON they stand in
// strings alone.
var separators = []struct{ raw, escaped []byte }{
	{[]byte("\u0085"), []byte(`\u0085`)}, {[]byte("\u2028"), []byte(`\u2028`)}, {[]byte("\u2029"), []byte(`\u2029`)},
}

// escape writes a line so that all readers see one line. Nothing else of it changes.
func (l *lines) escape(line []byte) ([]byte, error) {
	size := len(line)
	for _, s := range separators {
		size += bytes.Count(line, s.raw) * (len(s.escaped) - len(s.raw))
	}
	if size == len(line) {
		return line, nil
	}
	if size > l.most {
		return nil, fmt.Errorf("%w: over %d bytes", errLineTooLong, l.most)
	}
	for _, s := range separators {
		line = bytes.ReplaceAll(line, s.raw, s.escaped)
	}
	return line, nil
}

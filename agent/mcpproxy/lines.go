package mcpproxy

import (
	"bufio"
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

// next returns a line with its end, byte for byte, in memory of its own. The last may have no end. After the last it returns io.EOF.
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
			return line, nil
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

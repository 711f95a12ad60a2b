package evidence

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// lines reads lines that end in a line feed and are no longer than maxLine.
type lines struct {
	src  *bufio.Reader
	long []byte // a line that is longer than the buffer of src
}

func newLines(src io.Reader) *lines { return &lines{src: bufio.NewReaderSize(src, 64<<10)} }

// next returns the next line without its line feed, until the next call. Its error is io.EOF in the
// end, and where the text ends within a line another one.
func (l *lines) next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		part, err := l.src.ReadSlice('\n')
		if err == nil && len(l.long) == 0 {
			return part[:len(part)-1], nil
		}
		l.long = append(l.long, part...)
		switch {
		case len(l.long) > maxLine:
			return nil, fmt.Errorf("it is longer than %d bytes", maxLine)
		case err == nil:
			return l.long[:len(l.long)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(l.long) == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, errors.New("it does not end in a line feed")
		default:
			return nil, err
		}
	}
}

// Package linereader reads lines of bounded length that end in a line feed.
package linereader

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// ErrCut is the error of a text that ends within a line.
var ErrCut = errors.New("it does not end in a line feed")

// TooLongError is the error of a line that has more bytes than Most, with its line feed.
type TooLongError struct{ Most int }

func (e *TooLongError) Error() string { return fmt.Sprintf("it is longer than %d bytes", e.Most) }

// Reader reads lines.
type Reader struct {
	src  *bufio.Reader
	most int
	long []byte // a line that is longer than the buffer of src
}

// New returns a reader of lines that have at most so many bytes, with their line feed.
func New(src io.Reader, most int) *Reader {
	return &Reader{src: bufio.NewReaderSize(src, 64<<10), most: most}
}

// Next returns the next line without its line feed, until the next call. In the end its error is
// io.EOF, or ErrCut with the rest.
func (r *Reader) Next() ([]byte, error) {
	r.long = r.long[:0]
	for {
		part, err := r.src.ReadSlice('\n')
		if len(r.long)+len(part) > r.most {
			return nil, &TooLongError{r.most}
		}
		if err == nil && len(r.long) == 0 {
			return part[:len(part)-1], nil
		}
		r.long = append(r.long, part...)
		switch {
		case err == nil:
			return r.long[:len(r.long)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(r.long) == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return r.long, ErrCut
		default:
			return nil, err
		}
	}
}

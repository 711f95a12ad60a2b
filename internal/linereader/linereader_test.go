package linereader_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"attestd/internal/linereader"
)

// Lines shorter and longer than the buffer are read up to the bound, and a cut one is returned with
// its error.
func TestLinesAreReadToTheBound(t *testing.T) {
	t.Parallel()
	const most = 200 << 10
	whole := strings.Repeat("a", most-1)
	lines := linereader.New(strings.NewReader("\nshort\n"+whole+"\nshort\nrest"), most)
	for _, want := range []string{"", "short", whole, "short"} {
		if got, err := lines.Next(); err != nil || string(got) != want {
			t.Fatalf("%d bytes, %v, for a line of %d", len(got), err, len(want))
		}
	}
	if got, err := lines.Next(); string(got) != "rest" || !errors.Is(err, linereader.ErrCut) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := lines.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	for _, line := range []string{whole + "a\n", whole + "aa", "\n" + whole + whole} {
		lines := linereader.New(strings.NewReader(line), most)
		_, err := lines.Next()
		if line[0] == '\n' && err == nil {
			_, err = lines.Next()
		}
		if long := (*linereader.TooLongError)(nil); !errors.As(err, &long) || long.Most != most {
			t.Errorf("a line of %d bytes: %v", len(line), err)
		}
	}
}

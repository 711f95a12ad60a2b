package service

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A text is parsed once, an error never stays, and what is remembered is bounded.
func TestTextsAreParsedOnce(t *testing.T) {
	t.Parallel()
	var parses atomic.Int64
	p := newParsed(func(text []byte) (int, error) {
		parses.Add(1)
		if string(text) == "bad" {
			return 0, errors.New("bad")
		}
		return len(text), nil
	})
	for range 3 {
		for _, text := range []string{"", "a", "bb"} {
			if n, err := p.of(text); err != nil || n != len(text) {
				t.Errorf("%q: %d, %v", text, n, err)
			}
		}
	}
	if n := parses.Load(); n != 3 {
		t.Errorf("3 texts were parsed %d times", n)
	}
	for n := range int64(2) {
		if _, err := p.of("bad"); err == nil || parses.Load() != 4+n {
			t.Errorf("an error: %v after %d", err, parses.Load())
		}
	}
	long := strings.Repeat("x", maxParsed/8)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			if n, err := p.of(long[i%32:]); err != nil || n != len(long)-i%32 {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
	all.Wait()
	size := 0
	for text := range p.known.Clone() {
		size += len(text)
	}
	if size > maxParsed || size == 0 {
		t.Errorf("%d bytes are remembered", size)
	}
}

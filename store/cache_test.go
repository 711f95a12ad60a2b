package store_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"attestd/internal/testenv"
)

// What is remembered of companies and agents is small, whatever was registered with them: no
// company can fill the memory of all.
func TestCacheEntriesAreBounded(t *testing.T) { // not in parallel: it weighs the heap
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	s, _ := fresh(t)
	metadata := raw(`{"a":"` + strings.Repeat("x", 16<<10) + `"}`)
	const n = 1000
	first, _ := company(t, s, "first")
	for i := range n {
		_, _, err := s.Companies.Create(ctx, fmt.Sprint("c", i), metadata, now)
		must(t, err)
		_, err = s.Agents.Register(ctx, by(first, now), fmt.Sprint("a", i), metadata, many)
		must(t, err)
	}
	before := heap()
	for i := range n {
		got(s.Companies.Get(ctx, fmt.Sprint("c", i)))(t)
		must(t, s.Agents.Check(ctx, by(first, now), fmt.Sprint("a", i)))
	}
	if grown := heap() - before; grown > n*6<<10 { // the metadata are 16 KiB for each of both
		t.Errorf("%d bytes for %d companies and as many agents", grown, n)
	}
	runtime.KeepAlive(s)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

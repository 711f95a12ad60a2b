package store_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// Cache entries of companies and agents are small, however large the registered metadata is: no
// company can fill the memory that all share.
func TestCacheEntriesAreBounded(t *testing.T) { // not in parallel, because it measures the heap
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	s, _ := fresh(t)
	metadata := raw(`{"a":"` + strings.Repeat("x", 16<<10) + `"}`)
	const n = 1000
	first, _ := company(t, s, "first")
	for i := range n {
		_, _, err := s.Companies.Create(ctx, fmt.Sprint("c", i), metadata, now)
		must.OK(t, err)
		_, err = s.Agents.Register(ctx, by(first, now), fmt.Sprint("a", i), metadata, many)
		must.OK(t, err)
	}
	before := heap()
	for i := range n {
		got(s.Companies.Get(ctx, fmt.Sprint("c", i)))(t)
		must.OK(t, s.Agents.Check(ctx, by(first, now), fmt.Sprint("a", i)))
	}
	// a company and an agent have 16 KiB of metadata each
	if grown := heap() - before; grown > n*6<<10 {
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

package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// If the server finds the same damage again and again, it stops all writes, also those of other
// companies, and is not ready. Undamaged data can still be read.
func TestDamageThatAReadMeetsStopsWrites(t *testing.T) {
	testenv.Concurrent(t)
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	damaged := draft(c)
	damaged.Payload = fmt.Appendf(nil, `{"x":"%s"}`, bytes.Repeat([]byte("damaged "), 4000))
	damaged.Canonical = damaged.Payload
	got(s.Append(ctx, damaged))(t)
	attest(t, s, c, 5)
	must.OK(t, s.Close())
	content := got(os.ReadFile(path))(t)
	const page = 4096
	leaf := bytes.Index(content, []byte(`{"x":"damaged `)) / page * page
	overwrite(t, path, int64(leaf), page)

	s = open(t, path)
	attest(t, s, c, 1)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var err error
	for !errors.Is(err, store.ErrDamaged) && ctx.Err() == nil {
		err = s.Records(ctx, c.Chain, 0, 1, nil)
		if !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("a read of what is damaged: %v", err)
		}
		err = s.Ready(ctx)
	}
	if !errors.Is(err, store.ErrDamaged) {
		t.Fatalf("ready: %v", err)
	}
	if _, err := s.Append(ctx, draft(c)); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a write: %v", err)
	}
	if err := s.Records(ctx, c.Chain, 0, 1, nil); errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a read of what is known to be damaged: %v", err)
	}
	if n := length(t, s, c); n != 7 {
		t.Errorf("%d records", n)
	}
}

package store_test

import (
	"path/filepath"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// Comparing a database with its head file while a server appends gives no false alarm.
func TestHeadFileComparedBesideServer(t *testing.T) {
	testenv.Concurrent(t)
	storetest.AboutFile(t)
	t.Parallel()
	path, heads := storetest.New(t), filepath.Join(t.TempDir(), "heads")
	s, err := store.Open(ctx, path, schema(t), store.Options{Master: master(), Heads: heads})
	must.OK(t, err)
	go s.Run(ctx, store.RunOptions{})
	t.Cleanup(func() { s.Close() })
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		company(t, s, id)
	}
	c, _ := company(t, s, "acme")
	beside, err := store.OpenReadOnly(ctx, path)
	must.OK(t, err)
	defer beside.Close()
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-end:
				ended <- nil
				return
			default:
			}
			if _, err := s.Append(ctx, draft(c)); err != nil {
				ended <- err
				return
			}
		}
	}()
	for range testenv.Rounds(300, 3000) {
		if err := beside.Rollback.Check(ctx, heads); err != nil {
			t.Error(err)
			break
		}
	}
	close(end)
	must.OK(t, <-ended)
}

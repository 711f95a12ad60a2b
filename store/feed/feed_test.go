package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
)

// disk holds chains of which only the indices matter.
type disk struct {
	mu      sync.Mutex
	length  map[int64]int64
	missing []int64 // indices
	fails   error
	largest int64 // the largest range that was requested
}

func (d *disk) Tip(_ context.Context, number int64) (chain.Head, int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return chain.Head{Length: d.length[number]}, d.length[number], d.fails
}

func (d *disk) Records(_ context.Context, number, from, to int64, yield func(*chain.Record) error) error {
	d.mu.Lock()
	length, fails, missing := d.length[number], d.fails, d.missing
	d.largest = max(d.largest, to-from)
	d.mu.Unlock()
	if fails != nil {
		return fails
	}
	for i := from; i < min(to, length); i++ {
		if slices.Contains(missing, i) {
			continue
		}
		if err := yield(&chain.Record{Index: i}); err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) grow(f *Feed, number, n int64) {
	d.mu.Lock()
	d.length[number] += n
	d.mu.Unlock()
	f.Grown(number)
}

// all accepts every record.
func all(into *[]int64) func(*chain.Record) bool {
	return func(r *chain.Record) bool {
		*into = append(*into, r.Index)
		return true
	}
}

// A cursor delivers every record once and in order, in short ranges, while the chain grows; records
// of other chains do not wake it.
func TestCursor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{length: map[int64]int64{1: 1000, 2: 5}}
		f := New(d)
		var got []int64
		wakes := 0
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			c, idle := f.Follow(1, 300), f.Follow(3, 0)
			for {
				if _, err := Either(ctx, idle, c); err != nil {
					ended <- err
					return
				}
				wakes++
				if err := c.Read(ctx, all(&got)); err != nil {
					t.Error(err)
				}
			}
		}()
		synctest.Wait()
		for i := range int64(50) {
			d.grow(f, 2, 1)
			d.grow(f, 1, i)
			if i%7 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		before := wakes
		d.grow(f, 2, 1)
		synctest.Wait()
		if wakes != before {
			t.Error("the growth of another chain has woken it")
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if int64(len(got)) != d.length[1]-300 || d.largest != readAtOnce {
			t.Errorf("%d records of %d, %d at once", len(got), d.length[1]-300, d.largest)
		}
		for i, index := range got {
			if index != int64(300+i) {
				t.Fatalf("record %d comes as number %d", index, i)
			}
		}
		if len(f.grown) > 2 {
			t.Errorf("%d chains are remembered", len(f.grown))
		}
	})
}

// Who waits for two chains is woken by either, and by no other. If both have records, the first
// cursor comes first.
func TestEither(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{length: map[int64]int64{1: 4, -1: 2}}
		f := New(d)
		a, b := f.Follow(-1, 2), f.Follow(1, 4)
		var got []int64
		for _, grows := range [][]int64{{1}, {-1}, {1, -1}, {2, 1}} {
			woken := make(chan *Cursor)
			go func() {
				c, err := Either(t.Context(), a, b)
				if err != nil {
					t.Error(err)
				}
				woken <- c
			}()
			synctest.Wait()
			d.mu.Lock()
			for _, number := range grows {
				d.length[number]++
			}
			d.mu.Unlock()
			for _, number := range grows {
				select {
				case <-woken:
					t.Fatalf("woken before chain %d has grown", number)
				default:
				}
				f.Grown(number)
				synctest.Wait()
				if number != 2 {
					break
				}
			}
			c := <-woken
			got = append(got, c.Chain())
			for _, c := range []*Cursor{a, b} {
				if err := c.Read(t.Context(), func(*chain.Record) bool { return true }); err != nil {
					t.Error(err)
				}
			}
		}
		if want := []int64{1, -1, -1, 1}; !slices.Equal(got, want) {
			t.Errorf("read first: %v, want %v", got, want)
		}
	})
}

// A receiver that has enough gets the rest later. Records that are missing on disk are skipped, and
// a read that fails moves no cursor.
func TestCursorReads(t *testing.T) {
	t.Parallel()
	d := &disk{length: map[int64]int64{1: 400}, missing: []int64{2, 3, 128, 129, 130}}
	for i := range int64(140) {
		d.missing = append(d.missing, 200+i) // more than one range
	}
	c := New(d).Follow(1, 0)
	var got []int64
	for c.Next() < 400 {
		d.fails = errors.New("disk")
		at := c.Next()
		if err := c.Read(t.Context(), all(&got)); !errors.Is(err, d.fails) || c.Next() != at {
			t.Fatalf("at %d: %v, then at %d", at, err, c.Next())
		}
		d.fails = nil
		n := 0
		err := c.Read(t.Context(), func(r *chain.Record) bool {
			got = append(got, r.Index)
			n++
			return n < 10
		})
		if err != nil || n > 10 {
			t.Fatalf("%d records, %v", n, err)
		}
	}
	if len(got) != 400-145 || !slices.IsSorted(got) || slices.Contains(got, 129) {
		t.Errorf("%d records: %v", len(got), got)
	}
	if err := c.Read(t.Context(), all(&got)); err != nil || len(got) != 400-145 {
		t.Errorf("at the end: %v", err)
	}
	for _, from := range []int64{401, 1 << 50} {
		beyond := New(d).Follow(1, from)
		if err := beyond.Read(t.Context(), all(&got)); !errors.Is(err, ErrBeyond) {
			t.Errorf("from %d: %v", from, err)
		}
		f := beyond.feed
		for _, pair := range [][2]*Cursor{{beyond, f.Follow(1, 0)}, {f.Follow(1, 400), beyond}} {
			if at, err := Either(t.Context(), pair[0], pair[1]); !errors.Is(err, ErrBeyond) || at != beyond {
				t.Errorf("waiting from %d: %v", from, err)
			}
		}
	}
}

// Moved positions are saved together at intervals. A position that cannot be saved is saved later,
// and a newer one replaces it.
func TestKeeper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var saved []string
		var failing atomic.Bool
		k := NewKeeper(time.Second, func(_ context.Context, moved map[string]int) error {
			if failing.Load() {
				return errors.New("disk full")
			}
			line := time.Now().Format("05.000")
			for _, key := range slices.Sorted(maps.Keys(moved)) {
				line += fmt.Sprint(" ", key, moved[key])
			}
			saved = append(saved, line)
			return nil
		}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.Run(ctx) }()
		for i := range 150 {
			k.Note("a", i)
			if i%100 == 0 {
				k.Note("b", i)
			}
			time.Sleep(7 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		failing.Store(true)
		k.Note("a", 200)
		k.Note("b", 200)
		time.Sleep(5500 * time.Millisecond)
		k.Note("a", 201)
		failing.Store(false)
		time.Sleep(5 * time.Second)
		k.Note("c", 1)
		if err := k.Flush(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		<-ended
		if want := []string{"01.000 a142 b100", "02.000 a149", "07.050 a201 b200", "11.550 c1"}; !slices.Equal(saved, want) {
			t.Errorf("saved %q, want %q", saved, want)
		}
	})
}

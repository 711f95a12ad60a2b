package chain_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"attestd/chain"
)

// BenchmarkEd25519Verify is the baseline for the first verification of a chain.
func BenchmarkEd25519Verify(b *testing.B) {
	hash := sha256Sum("x")
	signature := ed25519.Sign(key, hash[:])
	for b.Loop() {
		ed25519.Verify(public, hash[:], signature)
	}
}

// BenchmarkLog appends from many goroutines to storage without cost. It measures hash, signature,
// tree and queue.
func BenchmarkLog(b *testing.B) {
	for _, clients := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("%d clients", clients), func(b *testing.B) {
			l := chain.NewLog(nowhere{})
			stop := run(b, l)
			defer stop()
			appendN(b, l, clients, b.N)
		})
	}
}

// BenchmarkLogDuringVerification is BenchmarkLog during a background verification of a long chain.
func BenchmarkLogDuringVerification(b *testing.B) {
	d := newDisk(1)
	grow(b, d, 1, 0, 5000)
	for _, busy := range []bool{false, true} {
		b.Run(fmt.Sprintf("verifying=%v", busy), func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			var background sync.WaitGroup
			if busy {
				background.Go(func() {
					for ctx.Err() == nil { // a new monitor knows nothing
						m := chain.NewMonitor(d, chain.NewVerifier(d, 2), false)
						once, delivered := context.WithCancel(ctx)
						m.Listen(true)
						head, _, _ := d.Tip(ctx, 1)
						m.Publish([]chain.Extension{{Chain: 1, From: chain.EmptyHead(), Head: head}}, false)
						m.Run(once, func(chain.Event) { delivered() })
						delivered()
					}
				})
			}
			l := chain.NewLog(nowhere{200 * time.Microsecond})
			stop := run(b, l)
			appendN(b, l, 64, b.N)
			b.StopTimer()
			cancel()
			background.Wait()
			stop()
		})
	}
}

func appendN(b *testing.B, l *chain.Log, clients, n int) {
	d := draft(1, 0)
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for range n/clients + min(1, max(0, n%clients-c)) {
				l.Append(context.Background(), d)
			}
		})
	}
	all.Wait()
}

// nowhere is storage that discards everything after the duration of a sync.
type nowhere struct{ sync time.Duration }

func (n nowhere) Begin(time.Time) (chain.Transaction, bool, error) { return n, false, nil }

func (nowhere) Bases(chains []int64) []chain.Base {
	return slices.Repeat([]chain.Base{{Head: chain.EmptyHead(), Key: key}}, len(chains))
}
func (nowhere) Free(int64, []chain.Key) error { return nil }
func (nowhere) Rekeyed() ([]int64, bool)      { return nil, false }
func (nowhere) Room() chain.Room              { return chain.Room{} }
func (nowhere) KeyEntries(map[int64][]chain.Hash, func(int64, chain.Hash, chain.KeyEntry)) (int64, error) {
	return 0, nil
}
func (nowhere) Record(int64, int64) (*chain.Record, error) { return nil, chain.ErrMissing }
func (nowhere) Extend(*chain.Extension) error              { return nil }
func (nowhere) Savepoint(rows func() error) error          { return rows() }
func (nowhere) Err() error                                 { return nil }
func (nowhere) Rollback()                                  {}

func (n nowhere) Commit() ([]int64, error) {
	if n.sync > 0 {
		time.Sleep(n.sync)
	}
	return nil, nil
}

// BenchmarkVerify reports the time a record.
func BenchmarkVerify(b *testing.B) {
	const n = 20_000
	d := newDisk(1)
	grow(b, d, 1, 0, n)
	check := func(b *testing.B, v *chain.Verifier) {
		if verdict := mustVerify(b, v, 1); !verdict.Valid || verdict.Length != n {
			b.Fatalf("%+v", verdict)
		}
	}
	perRecord := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
	}
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("first, %d workers", workers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				check(b, chain.NewVerifier(d, workers))
			}
			perRecord(b)
		})
	}
	b.Run("repeated", func(b *testing.B) {
		v := chain.NewVerifier(d, 2)
		check(b, v)
		b.ReportAllocs()
		for b.Loop() {
			check(b, v)
		}
		perRecord(b)
	})
}

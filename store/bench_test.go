package store_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/store"
)

// BenchmarkExtend commits batches of typical records; ns/record includes its share of the sync.
func BenchmarkExtend(b *testing.B) {
	for _, n := range []int{1, 32, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _ := fresh(b)
			c, _ := company(b, s, "acme")
			e := typical(c, chain.EmptyHead(), n)
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Extend(e); err != nil {
					b.Fatal(err)
				}
				e.From = e.Head
				e.Head.Length += int64(n)
				for i := range e.Records {
					e.Records[i].Index += int64(n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(e.From.Length), "ns/record")
		})
	}
}

// typical returns an extension by n records with payloads of about 300 bytes.
func typical(c *store.Company, from chain.Head, n int) chain.Extension {
	e := extension(c.Chain, from, n)
	for i := range e.Records {
		e.Records[i].Payload = fmt.Appendf(nil, `{"agentId":"bot","companyId":"acme","actionType":"build","payload":{"text":"%0250d"}}`, i)
		e.Records[i].Delegation = nil
	}
	return e
}

// BenchmarkRecords reads a chain in ranges of the size that the service reads.
func BenchmarkRecords(b *testing.B) {
	const n, step = 100_000, 500
	s, _ := fresh(b)
	c, _ := company(b, s, "acme")
	for head := chain.EmptyHead(); head.Length < n; {
		e := typical(c, head, 10_000)
		if err := s.Extend(e); err != nil {
			b.Fatal(err)
		}
		head = e.Head
	}
	var bytes, rows int64
	b.ReportAllocs()
	for b.Loop() {
		for from := int64(0); from < n; from += step {
			must.OK(b, s.Records(ctx, c.Chain, from, from+step, func(r *chain.Record) error {
				bytes += int64(len(r.Payload))
				rows++
				return nil
			}))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/record")
}

// BenchmarkHashes reads the hashes that a proof needs of each level.
func BenchmarkHashes(b *testing.B) {
	s, _ := fresh(b)
	c, _ := company(b, s, "acme")
	must.OK(b, s.Extend(typical(c, chain.EmptyHead(), 10_000)))
	for b.Loop() {
		if _, err := s.Hashes(ctx, c.Chain, 0, 5000, 5256); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	s, _ := fresh(b)
	_, key := company(b, s, "acme")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(key.Key), now); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppend appends for several numbers of callers, each of whom waits for its record.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			s, _ := fresh(b)
			c, _ := company(b, s, "acme")
			b.ReportAllocs()
			b.ResetTimer()
			each(b, callers, b.N, func(int) error { _, err := s.Append(ctx, draft(c)); return err })
		})
	}
}

// BenchmarkManyChains appends for 64 callers, in turns to one chain and to 10,000 chains of 20 or
// more records in a scattered order. It reports the medians of both and of their ratio, because
// other work on the machine slows neighbouring rounds alike.
func BenchmarkManyChains(b *testing.B) {
	const chains, before, round = 10_000, 20, 5_000
	s, _ := fresh(b)
	drafts := make([]chain.Draft, chains)
	each(b, 64, chains, func(i int) error {
		c, _, err := s.Companies.Create(ctx, fmt.Sprint("c", i), nil, now)
		if err == nil {
			payload := typical(c, chain.EmptyHead(), 1).Records[0].Payload
			drafts[i] = chain.Draft{Chain: c.Chain, Payload: payload, Canonical: payload}
			_, err = s.AppendAll(ctx, slices.Repeat(drafts[i:i+1], before))
		}
		return err
	})
	perRecord := func(to []chain.Draft, from int) float64 {
		start := time.Now()
		each(b, 64, round, func(i int) error { _, err := s.Append(ctx, to[(from+i)*7919%len(to)]); return err })
		return float64(time.Since(start).Nanoseconds()) / round
	}
	var one, many, ratios []float64
	for b.Loop() {
		one = append(one, perRecord(drafts[:1], 0))
		many = append(many, perRecord(drafts, round*len(many)))
		ratios = append(ratios, one[len(one)-1]/many[len(many)-1])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(one), "ns/record-of-1")
	b.ReportMetric(median(many), "ns/record-of-10k")
	b.ReportMetric(median(ratios), "ratio")
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// BenchmarkCreateKey measures the same for writing a row.
func BenchmarkCreateKey(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			s, _ := fresh(b)
			c, _ := company(b, s, "acme")
			b.ReportAllocs()
			b.ResetTimer()
			each(b, callers, b.N, func(int) error { _, err := s.Credentials.CreateKey(ctx, by(c, now), nil, full, 1<<30); return err })
		})
	}
}

// each calls do for every i in [0, n) from the given number of callers.
func each(b *testing.B, callers, n int, do func(i int) error) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkRecordPassport commits for 64 callers at once, as the service does under load.
func BenchmarkRecordPassport(b *testing.B) {
	s, _ := fresh(b)
	c, _ := company(b, s, "acme")
	var n atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			if err := s.Passports.Record(ctx, by(c, now), passport(fmt.Sprintf("%036d", i), i)); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkOpen measures the restart of a server with 1,000 companies.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "attestd.db")
	s := open(b, path)
	for i := range 1000 {
		company(b, s, fmt.Sprint("c", i))
	}
	must.OK(b, s.Close())
	for b.Loop() {
		must.OK(b, open(b, path).Close())
	}
}

// BenchmarkReplay replays a control log of passports and compares the result with their rows;
// records/s counts control records.
func BenchmarkReplay(b *testing.B) {
	s, _ := fresh(b)
	c, _ := company(b, s, "acme")
	who := by(c, now)
	const passports = 50_000
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for n := i; n < passports; n += 64 {
				must.OK(b, s.Passports.Record(ctx, who, store.Passport{JTI: fmt.Sprintf("%036d", n), AgentID: fmt.Sprintf("agent-%d", n%100),
					Scopes: []string{"tool:*", "attest:write"}, IssuedAt: now.Unix() + int64(n/500), ExpiresAt: now.Unix() + 3600}))
			}
		})
	}
	group.Wait()
	for b.Loop() {
		must.OK(b, s.Tables.Check(ctx, c.Chain))
	}
	b.ReportMetric(float64(passports)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

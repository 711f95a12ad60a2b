package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"attestd/chain"
	"attestd/internal/harness"
	"attestd/store"
)

const postgresSection = "PostgreSQL, 64 callers in process"

// storeCallers is the number of concurrent callers, as on SQLite.
const storeCallers = 64

// postgres measures both engines in turns: servers over HTTP, and the stores without it. --db names
// the server; the data is in new databases there, which are dropped at the end.
func (b *bench) postgres(ctx context.Context) (err error) {
	if b.db == "" {
		b.say("skipped: --db names no PostgreSQL server")
		return nil
	}
	if err := b.postgresHTTP(ctx); err != nil {
		return err
	}
	address, drop, err := harness.CreateDatabase(ctx, b.db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	tenants := pick(b.quick, 20, 100)
	file, err := b.openStores(ctx, filepath.Join(b.dir, "engines.db"), 1, tenants)
	if err != nil {
		return err
	}
	defer file.close()
	server, err := b.openStores(ctx, address, 3, tenants)
	if err != nil {
		return err
	}
	defer server.close()
	lock, err := newRowLock(ctx, address)
	if err != nil {
		return err
	}
	defer lock.close()

	var fileOne, fileMany, one, many, three, threeMany, locked []load
	d := pick(b.quick, 400*time.Millisecond, 2*time.Second)
	for range pick(b.quick, 3, 7) {
		for _, m := range []struct {
			into *[]load
			run  func() load
		}{
			{&fileOne, func() load { return file.append(ctx, 1, 1, d) }},
			{&one, func() load { return server.append(ctx, 1, 1, d) }},
			{&three, func() load { return server.append(ctx, 3, 1, d) }},
			{&fileMany, func() load { return file.append(ctx, 1, tenants, d) }},
			{&many, func() load { return server.append(ctx, 1, tenants, d) }},
			{&threeMany, func() load { return server.append(ctx, 3, tenants, d) }},
			{&locked, func() load { return lock.append(ctx, d) }},
		} {
			l := m.run()
			if l.err != nil {
				return l.err
			}
			*m.into = append(*m.into, l)
		}
	}
	hundred := fmt.Sprintf("%d tenants", tenants)
	for _, column := range []struct {
		name                string
		file, server, three []load
		least               float64
		threeLeast          *target
		p99                 *target
	}{
		{"one tenant", fileOne, one, three, 0.6, atLeast(0.5), atMost(25)},
		{hundred, fileMany, many, threeMany, 1.2, nil, nil},
	} {
		b.report.add(postgresSection, column.name, "SQLite, records/s", medianOf(column.file, load.rate), perSecond, nil)
		b.report.add(postgresSection, column.name, "one server, records/s", medianOf(column.server, load.rate), perSecond,
			nil)
		b.report.add(postgresSection, column.name, "  ÷ SQLite", medianRatio(column.server, column.file), ratio,
			atLeast(column.least))
		b.report.add(postgresSection, column.name, "  99th percentile of one server", medianOf(column.server, load.slow),
			milli, nil)
		b.report.add(postgresSection, column.name, "three servers, records/s", medianOf(column.three, load.rate), perSecond,
			nil)
		b.report.add(postgresSection, column.name, "  ÷ one server", medianRatio(column.three, column.server), ratio,
			column.threeLeast)
		b.report.add(postgresSection, column.name, "  99th percentile of three servers", medianOf(column.three, load.slow),
			milli, column.p99)
	}
	delays, err := server.delays(ctx, pick(b.quick, 40, 400))
	if err != nil {
		return err
	}
	b.report.add(postgresSection, "one tenant", "until another server hears of a record, median", delays[len(delays)/2],
		milli, nil)
	b.report.add(postgresSection, "one tenant", "  99th percentile", delays[len(delays)*99/100], milli, atMost(250))
	b.report.add(postgresSection, "one tenant", "a row lock for each request, records/s", medianOf(locked, load.rate),
		perSecond, nil)
	b.report.add(postgresSection, "one tenant", "  one server ÷ that", medianRatio(one, locked), ratio, atLeast(10))
	return nil
}

// postgresHTTP measures appends over HTTP to a server on PostgreSQL, in turns with one on a file.
func (b *bench) postgresHTTP(ctx context.Context) (err error) {
	const section = "PostgreSQL, one server over HTTP, one tenant"
	address, drop, err := harness.CreateDatabase(ctx, b.db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	var sides [2]*side
	for i, db := range []string{address, filepath.Join(b.dir, "engines-http.db")} {
		server, failed := b.serve(ctx, db)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, server.stop()) }()
		t, failed := register(ctx, server.addr, "acme")
		if failed != nil {
			return failed
		}
		plain := attestRequest(t)
		sides[i] = &side{child: server, status: 201, request: func(int) []byte { return plain }}
	}
	for _, clients := range []int{1, 16, 64} {
		column := fmt.Sprintf("%d clients", clients)
		b.say("over HTTP, %s", column)
		c, err := inTurns(ctx, sides[0], sides[1], clients, pick(b.quick, 3, 15), pick(b.quick, 150*time.Millisecond, 500*time.Millisecond))
		if err != nil {
			return err
		}
		b.report.add(section, column, "records/s", c.perSecond, perSecond, nil)
		b.report.addRounds(section, column, "  ÷ SQLite", c.ratios, nil)
		b.report.add(section, column, "server CPU each", micros(c.cpu), micro, nil)
		b.report.add(section, column, "  on SQLite", micros(c.bareCPU), micro, nil)
	}
	return nil
}

// load is the result of one round.
type load struct {
	records int
	took    time.Duration
	p99     time.Duration
	err     error
}

func (l load) rate() float64 { return float64(l.records) / l.took.Seconds() }
func (l load) slow() float64 { return millis(l.p99) }

func medianOf(list []load, of func(load) float64) float64 {
	values := make([]float64, len(list))
	for i, l := range list {
		values[i] = of(l)
	}
	return median(values)
}

// medianRatio returns the median of the ratios of adjacent rounds.
func medianRatio(list, to []load) float64 {
	values := make([]float64, len(list))
	for i := range list {
		values[i] = list[i].rate() / to[i].rate()
	}
	return median(values)
}

// callFor lets all callers call do repeatedly, each with its own numbers, until the time is over.
func callFor(ctx context.Context, d time.Duration, do func(ctx context.Context, caller, n int) error) load {
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	var wait sync.WaitGroup
	start := time.Now()
	for caller := range storeCallers {
		wait.Go(func() {
			var took []time.Duration
			var err error
			for n := 0; err == nil && time.Since(start) < d; n++ {
				began := time.Now()
				err = do(ctx, caller, n)
				took = append(took, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			all, failed = append(all, took...), errors.Join(failed, err)
		})
	}
	wait.Wait()
	l := load{records: len(all), took: time.Since(start), err: failed}
	if slices.Sort(all); len(all) > 0 {
		l.p99 = all[len(all)*99/100]
	}
	return l
}

// stores are servers of one database in this process.
type stores struct {
	list   []*store.Store
	drafts []chain.Draft // one for each tenant
	heard  chan [2]int64 // receives what the last server learns of others: a chain and its length
}

func (b *bench) openStores(ctx context.Context, name string, n, tenants int) (_ *stores, err error) {
	s := &stores{heard: make(chan [2]int64, 1024)}
	for i := range n {
		one, err := store.Open(ctx, name, b.schema, store.Options{})
		if err != nil {
			s.close()
			return nil, err
		}
		o := store.RunOptions{}
		if i == n-1 {
			o.Others = func(number, _, to int64) {
				select {
				case s.heard <- [2]int64{number, to}:
				default: // no measurement runs
				}
			}
		}
		go one.Run(context.WithoutCancel(ctx), o) // until Close
		s.list = append(s.list, one)
	}
	for i := range tenants {
		c, _, err := s.list[0].Companies.Create(ctx, fmt.Sprintf("company-%d", i), nil, time.Now())
		if err == nil {
			var d chain.Draft
			d, err = draft(c)
			s.drafts = append(s.drafts, d)
		}
		if err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *stores) close() {
	for _, one := range s.list {
		_ = one.Close()
	}
}

// append lets the callers append through some servers to some tenants.
func (s *stores) append(ctx context.Context, servers, tenants int, d time.Duration) load {
	return callFor(ctx, d, func(ctx context.Context, caller, n int) error {
		_, err := s.list[caller%servers].Append(ctx, s.drafts[(caller+n*storeCallers)%tenants])
		return err
	})
}

// delays returns, in milliseconds and sorted, the time from the first server's acknowledgement of a
// record until the last server learns of it.
func (s *stores) delays(ctx context.Context, n int) (took []float64, err error) {
	for range n {
		for len(s.heard) > 0 {
			<-s.heard
		}
		r, err := s.list[0].Append(ctx, s.drafts[0])
		if err != nil {
			return nil, err
		}
		start := time.Now()
		for heard := [2]int64{}; heard != [2]int64{s.drafts[0].Chain, r.Index + 1}; {
			select {
			case heard = <-s.heard:
			case <-time.After(10 * time.Second):
				return nil, errors.New("a record was not heard of by another server")
			}
		}
		took = append(took, millis(time.Since(start)))
	}
	slices.Sort(took)
	return took, nil
}

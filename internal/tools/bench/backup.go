package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// backups measures how much the 99th percentile of appends rises while backups are made, one after
// the other, and verified, in turns with rounds without any. A server's schedule runs the same
// command.
func (b *bench) backups(ctx context.Context) (err error) {
	path, place := filepath.Join(b.dir, "backup.db"), filepath.Join(b.dir, "backups")
	if err := os.Mkdir(place, 0o700); err != nil {
		return err
	}
	tenants, err := b.seed(ctx, path, 1, pick(b.quick, 2_000, 50_000))
	if err != nil {
		return err
	}
	server, err := b.serve(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	for _, clients := range pick(b.quick, []int{64}, []int{16, 64}) {
		if err := b.appendDuringBackups(ctx, server, path, place, tenants[0], clients); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) appendDuringBackups(ctx context.Context, server *child, path, place string, t tenant, clients int) (err error) {
	req := attestRequest(t)
	load := &side{child: server, status: 201, request: func(int) []byte { return req }}
	if load.clients, err = connect(ctx, server.addr, clients); err != nil {
		return err
	}
	defer hangUp(load.clients)
	rounds, each := pick(b.quick, 2, 5), pick(b.quick, 500*time.Millisecond, 6*time.Second)
	if _, err := load.load(ctx, each, 0); err != nil { // not counted
		return err
	}
	var latencies [2][]time.Duration // without and with backups
	var ratios []float64
	made := 0
	for i := range rounds {
		var rate [2]float64
		for n := range 2 {
			with := (i + n) % 2 // the order alternates
			end := func() (int, error) { return 0, nil }
			if with == 1 {
				end = b.loopBackups(ctx, path, place)
			}
			r, err := load.load(ctx, each, 0)
			done, failed := end()
			if err := errors.Join(err, failed); err != nil {
				return err
			}
			made += done
			rate[with] = r.perSecond()
			latencies[with] = append(latencies[with], r.latencies...)
		}
		ratios = append(ratios, rate[1]/rate[0])
	}
	column := fmt.Sprintf("%d clients", clients)
	var p99 [2]float64
	for i := range latencies {
		slices.Sort(latencies[i])
		p99[i] = millis(percentile(latencies[i], 99))
	}
	b.report.add("backup", column, "append p99 while backed up ÷ alone", p99[1]/p99[0], ratio,
		&target{atMost: true, bound: 1.2, unsteady: true})
	b.report.add("backup", column, "  p99 alone", p99[0], milli, nil)
	b.report.add("backup", column, "  append rate while backed up ÷ alone", median(ratios), ratio, nil)
	b.report.add("backup", column, "  backups made", float64(made), "", nil)
	return nil
}

// loopBackups makes backups until end is called, which returns how many it has made.
func (b *bench) loopBackups(ctx context.Context, path, place string) (end func() (int, error)) {
	ctx, cancel := context.WithCancel(ctx)
	type outcome struct {
		made int
		err  error
	}
	ended := make(chan outcome, 1)
	go func() {
		var o outcome
		for ctx.Err() == nil && o.err == nil {
			out, err := exec.CommandContext(ctx, b.binary(), "backup", "--backup-to", place, "--backup-keep", "1",
				"--db", path).CombinedOutput()
			if err == nil {
				o.made++
			} else if ctx.Err() == nil {
				o.err = fmt.Errorf("backup: %w\n%s", err, out)
			}
		}
		ended <- o
	}()
	return func() (int, error) {
		cancel()
		o := <-ended
		return o.made, o.err
	}
}

package jobs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/internal/sleep"
	"attestd/internal/wake"
	"attestd/server/export"
	"attestd/service"
	"attestd/store"
	"attestd/store/db"
)

// Export says where copies of the logs are sent.
type Export struct {
	Destination export.Destination
	OCSF        bool
	Linger      time.Duration
	Companies   []string     // whose logs; nil for all
	From        export.Start // of logs that were not exported yet
	// how long records may wait before /readyz says so; 0 is 10 minutes
	BehindAfter time.Duration
}

// name is that of its positions. Another destination begins with the first record.
func (x *Export) name() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s ocsf=%t", x.Destination.ID(), x.OCSF))
	return fmt.Sprintf("%x", sum[:8])
}

// String describes it for the control logs, without secrets and the names of other companies.
func (x *Export) String() string {
	text := x.Destination.String() + ", the logs of all companies"
	if x.Companies != nil {
		text = fmt.Sprintf("%s, the logs of %d companies", x.Destination, len(x.Companies))
	}
	if at := x.From.At; !at.IsZero() {
		text += ", from " + chain.FormatTime(at)
	}
	return text
}

const (
	exportScanEvery = time.Minute     // for logs whose growth was not announced
	exportRetry     = 5 * time.Second // after an exporter has ended with an error
	exportSteady    = time.Minute     // after which an exporter that runs is no failure any more
	exportBehind    = 10 * time.Minute
	exportRange     = 1024 // records that are read at once
	// During many appends, the export works one part of its time in exportShare.
	exportShare   = 25
	longestExport = time.Second // between two batches then
)

// Exporter exports the logs of this database. Of several servers, one at a time has this duty.
type Exporter struct {
	*Export
	store       *store.Store
	checkpoints *service.Checkpoints
	appends     *Pace
	log         *slog.Logger
	saver       *progress[int64, string] // by chain

	wake     wake.Signal // set when changed may have entries
	stopping chan struct{}
	ended    chan struct{}

	mu      sync.Mutex
	changed map[int64]bool // chains
	running *export.Exporter
	began   time.Time    // running
	failing exportFailed // zero after a run that was no failure
}

// NewExporter exports the logs of a store. The export yields to appends.
func NewExporter(x *Export, s *store.Store, checkpoints *service.Checkpoints, appends *Pace, log *slog.Logger) *Exporter {
	e := &Exporter{Export: x, store: s, checkpoints: checkpoints, appends: appends, log: log, wake: wake.NewSignal(), changed: make(map[int64]bool),
		stopping: make(chan struct{}), ended: make(chan struct{})}
	e.saver = newProgress(func(ctx context.Context, duty *db.Held, moved map[int64]string) error {
		return s.SaveExportPositions(ctx, duty, x.name(), moved)
	}, log)
	return e
}

// Grown records that a chain has grown. It never blocks.
func (e *Exporter) Grown(number int64) {
	e.mu.Lock()
	e.changed[number] = true
	e.mu.Unlock()
	e.wake.Set()
}

// Run exports while this server has the duty, until Close is called or ctx is done.
func (e *Exporter) Run(ctx context.Context) error {
	defer close(e.ended)
	work, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	saving, stopSaving := context.WithCancel(ctx)
	running.Go(func() { _ = e.saver.Run(saving) })
	onDuty, leave := context.WithCancel(ctx)
	var exporting sync.WaitGroup
	lose := context.CancelFunc(func() {})
	running.Go(func() {
		e.store.Duty(onDuty, "export", func(held *db.Held) {
			mine, end := context.WithCancel(work)
			lose = end
			exporting.Wait() // the one before has ended, or is about to
			e.saver.begin(held)
			exporting.Go(func() { e.export(mine, held, end) })
		}, func() { lose() })
	})
	select {
	case <-ctx.Done():
	case <-e.stopping:
	}
	stop()
	exporting.Wait()
	stopSaving()
	leave()
	running.Wait()
	exporting.Wait() // one that began while the duty was given up
	return ctx.Err()
}

// Close ends the export and saves its positions. It is called once, while the store is writable.
func (e *Exporter) Close() {
	close(e.stopping)
	<-e.ended
}

// export exports until ctx is done, or until held is found to be lost, which ends ctx.
func (e *Exporter) export(ctx context.Context, held *db.Held, lose context.CancelFunc) {
	may := func(ctx context.Context) error {
		err := held.Check(ctx)
		if errors.Is(err, db.ErrDutyLost) {
			lose()
		}
		return err
	}
	for ctx.Err() == nil {
		running := export.New(export.Config{Source: &exportSource{Exporter: e, chains: make(map[export.Log]int64)},
			Cursors: exportCursors{e}, Destination: e.Destination, OCSF: e.OCSF, From: e.From, Follow: true, CheckpointAtEnd: true,
			Linger: e.Linger, Pace: e.pace, RunName: held.Run(), May: may, Log: e.log})
		e.mu.Lock()
		e.running, e.began = running, time.Now()
		e.mu.Unlock()
		err := running.Run(ctx)
		var failed error
		if ctx.Err() == nil {
			failed = cmp.Or(err, errors.New("it has ended"))
		}
		e.recordEnd(failed, !running.Status().LastDelivered.IsZero())
		// of no effect once another server has the duty
		if err := e.flush(ctx); err != nil {
			e.log.Warn("the positions of the export were not saved; some lines will come again", "error", err)
		}
		if ctx.Err() == nil {
			e.log.Error("the export has ended; it begins again", "error", err)
			_ = sleep.For(ctx, exportRetry) // the loop handles ctx
		}
	}
	e.recordEnd(nil, false)
}

// flush saves positions, also when ctx is done.
func (e *Exporter) flush(ctx context.Context) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return e.saver.Flush(limited)
}

// pace waits before a batch while appends have priority.
func (e *Exporter) pace(ctx context.Context, took time.Duration) error {
	if !e.appends.IsBusy(time.Now()) {
		return nil
	}
	return sleep.For(ctx, min(exportShare*took, longestExport))
}

// exportCursors store positions in the database. Nothing is lost when they are some time behind:
// lines come again.
type exportCursors struct{ *Exporter }

func (c exportCursors) Load(ctx context.Context, l export.Log) (at export.Position, err error) {
	number, err := c.chainOf(ctx, l)
	if err != nil {
		return at, err
	}
	text, err := c.store.ExportPosition(ctx, c.name(), number)
	if err != nil {
		return at, err
	}
	return export.ReadPosition(text)
}

// Acknowledged returns how many of the first actions of a company the receiver of the export has
// acknowledged, whichever server has the duty. It is false where this server exports none of them,
// as without an export.
func (e *Exporter) Acknowledged(ctx context.Context, c *store.Company) (acknowledged int64, is bool, err error) {
	if e == nil || !e.wants(c.ID) {
		return 0, false, nil
	}
	if err := e.flush(ctx); err != nil {
		return 0, true, err
	}
	text, err := e.store.ExportPosition(ctx, e.name(), c.Actions.Chain)
	if err != nil {
		return 0, true, err
	}
	at, err := export.ReadPosition(text)
	return at.Frontier.Size, true, err
}

func (c exportCursors) Save(at map[export.Log]export.Position) error {
	for l, p := range at {
		number, err := c.chainOf(context.Background(), l)
		if err != nil {
			return err
		}
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		c.saver.Note(number, string(text))
	}
	return nil
}

func (e *Exporter) chainOf(ctx context.Context, l export.Log) (int64, error) {
	c, err := e.store.Companies.Get(ctx, l.CompanyID)
	if err != nil {
		return 0, err
	}
	return c.Log(store.LogName(l.Name)).Chain, nil
}

// exportSource reads the logs from the database.
type exportSource struct {
	*Exporter
	scanned time.Time // at all chains; zero before the first time
	chains  map[export.Log]int64
}

// Grown implements export.Source.
func (s *exportSource) Grown(ctx context.Context, until time.Time) ([]export.Log, error) {
	for {
		again := s.scanned.Add(exportScanEvery)
		if !time.Now().Before(again) {
			s.scanned = time.Now()
			numbers, err := s.store.Chains(ctx)
			if err != nil {
				s.scanned = time.Time{}
				return nil, err
			}
			return s.logs(ctx, numbers)
		}
		s.mu.Lock()
		numbers := make([]int64, 0, len(s.changed))
		for number := range s.changed {
			numbers = append(numbers, number)
		}
		clear(s.changed)
		s.mu.Unlock()
		if len(numbers) > 0 {
			return s.logs(ctx, numbers)
		}
		end := again
		if !until.IsZero() && until.Before(end) {
			end = until
		}
		wait := time.NewTimer(time.Until(end))
		select {
		case <-s.wake:
		case <-wait.C:
			if end.Equal(until) {
				return nil, nil
			}
		case <-ctx.Done():
			wait.Stop()
			return nil, ctx.Err()
		}
		wait.Stop()
	}
}

// logs returns the logs of chains that are exported.
func (s *exportSource) logs(ctx context.Context, numbers []int64) (list []export.Log, err error) {
	for _, number := range numbers {
		c, l, err := s.store.Companies.LogOfChain(ctx, number)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			for _, number := range numbers {
				s.Exporter.Grown(number)
			}
			return nil, err
		}
		if !s.wants(c.ID) {
			continue
		}
		for _, l := range c.Logs() {
			s.chains[export.Log{CompanyID: c.ID, Name: string(l.Name)}] = l.Chain
		}
		list = append(list, export.Log{CompanyID: c.ID, Name: string(l.Name)})
	}
	return list, nil
}

// wants reports whether the logs of a company are exported. That of the companies itself is no
// tenant's.
func (e *Exporter) wants(companyID string) bool {
	if strings.HasPrefix(companyID, "@") {
		return false
	}
	for _, id := range e.Companies {
		if id == companyID {
			return true
		}
	}
	return e.Companies == nil
}

// Size implements export.Source.
func (s *exportSource) Size(ctx context.Context, l export.Log) (int64, error) {
	head, _, err := s.store.Tip(ctx, s.chains[l])
	return head.Length, err
}

// Records implements export.Source.
func (s *exportSource) Records(ctx context.Context, l export.Log, from, to int64, yield func(*chain.Record) error) error {
	var pruned *chain.Record
	unlessPruned := func(r *chain.Record) error {
		if r.IsPruned() {
			pruned = &chain.Record{Index: r.Index}
			return errPruned
		}
		return yield(r)
	}
	for ; from < to; from += exportRange {
		// a long read transaction would block WAL checkpoints
		err := s.store.Records(ctx, s.chains[l], from, min(from+exportRange, to), unlessPruned)
		if errors.Is(err, errPruned) {
			return s.pruned(ctx, l, pruned)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var errPruned = errors.New("the payload was pruned")

// pruned returns the error of a record that cannot be exported, because its payload was pruned.
func (s *exportSource) pruned(ctx context.Context, l export.Log, r *chain.Record) error {
	c, err := s.store.Companies.Get(ctx, l.CompanyID)
	if err == nil {
		err = service.PrunedError(ctx, &s.store.View, c, r)
	}
	return err
}

// Keys implements export.Source.
func (s *exportSource) Keys(ctx context.Context, companyID string) (f *evidence.File, err error) {
	c, err := s.store.Companies.Get(ctx, companyID)
	if err != nil {
		return nil, err
	}
	err = s.store.Snapshot(ctx, func(v *store.View) (err error) {
		f, err = service.FileOf(ctx, v, c)
		return err
	})
	return f, err
}

// Frontier implements export.Source.
func (s *exportSource) Frontier(ctx context.Context, l export.Log, size int64) (tlog.Frontier, error) {
	c, err := s.store.Companies.Get(ctx, l.CompanyID)
	if err != nil {
		return tlog.Frontier{}, err
	}
	return tlog.FrontierAt(ctx, s.store.LogTree(c.Log(store.LogName(l.Name))), size)
}

// Consistency implements export.Source.
func (s *exportSource) Consistency(ctx context.Context, l export.Log, from int64) ([]byte, error) {
	c, err := s.store.Companies.Get(ctx, l.CompanyID)
	if err != nil {
		return nil, err
	}
	by := store.Caller{Company: c, At: time.Now()}
	return s.checkpoints.NewestAfter(ctx, by, c.Log(store.LogName(l.Name)), from)
}

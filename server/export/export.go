// Package export sends the lines of logs (package lines) to a destination outside the service: a
// file, a syslog receiver or an HTTPS receiver.
//
// An [Exporter] reads records from where they are stored, and holds at most one batch of them. So a
// destination that is slow, or accepts nothing, delays no append and loses nothing. A position is
// saved only after the destination has acknowledged everything before it. After a failure, a kill
// or a restart the lines since then come again, after an opening line that says so. Each line names
// the run of the export that has sent it, because two of them may send at once for a moment.
package export

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/internal/sleep"
)

// Log is a log that is exported.
type Log struct {
	CompanyID string
	Name      string // actions or control
}

// Source has the logs.
type Source interface {
	// Grown waits until there may be more records, or until a time if that is not zero, and returns
	// the logs that may have grown. Each log with records is returned once at first. Then the other
	// methods know both logs of its company.
	Grown(ctx context.Context, until time.Time) ([]Log, error)
	// Size returns how many records of a log can be read.
	Size(ctx context.Context, l Log) (int64, error)
	// Records calls yield for the records [from, to). They are valid only during the call. An error
	// of yield ends the read and is returned. A record whose payload was pruned ends the export of
	// its log; the source may return an error that says where the payload is.
	Records(ctx context.Context, l Log, from, to int64, yield func(*chain.Record) error) error
	// Keys returns both logs of a company and all of its keys, among them those of every record
	// that Size counted before.
	Keys(ctx context.Context, companyID string) (*evidence.File, error)
	// Consistency returns what GET /v1/log/{logId}/consistency?from= does, with a checkpoint that
	// covers from.
	Consistency(ctx context.Context, l Log, from int64) ([]byte, error)
	// Frontier returns the frontier of the first size records of a log.
	Frontier(ctx context.Context, l Log, size int64) (tlog.Frontier, error)
}

// Position is how far an export has come in a log.
type Position struct {
	Frontier tlog.Frontier // of the acknowledged records
	Previous int64         // index of the last acknowledged checkpoint or opening line
}

// ReadPosition returns the position that was stored as a text; "" is the beginning.
func ReadPosition(text string) (at Position, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &at)
	}
	return at, err
}

// Cursors store positions. Save returns before they are durable.
type Cursors interface {
	Load(ctx context.Context, l Log) (Position, error)
	Save(at map[Log]Position) error
}

// Destination is where lines go.
type Destination interface {
	// Prepare is called before each Deliver. It reports whether the next line begins a new file, so
	// that the lines begin with keys and openings again.
	Prepare() (isNew bool, err error)
	// Deliver returns nil when the destination has acknowledged all of the batch. After an error it
	// may have received any part of it. It MUST call MayLeave of the batch before each attempt.
	Deliver(ctx context.Context, b *Batch) error
	Close() error
	String() string // without secrets
	// ID tells destinations apart. It may have secrets.
	ID() string
}

// RetryAfter is an error of a destination that says when to try again.
type RetryAfter struct {
	Delay time.Duration
	Err   error
}

func (r *RetryAfter) Error() string { return r.Err.Error() }
func (r *RetryAfter) Unwrap() error { return r.Err }

// The defaults of a Config.
const (
	CheckpointLines = 10_000
	CheckpointEvery = 10 * time.Second
)

const (
	deliveryTime  = 3 * time.Minute  // for one delivery, with the wait for an acknowledgement
	attemptTime   = 30 * time.Second // for one request or connection of it
	firstPause    = time.Second      // after a failed delivery
	longestPause  = time.Minute
	longestAsked  = 5 * time.Minute // of Retry-After
	sayEvery      = 10 * time.Minute
	endTime       = 5 * time.Second // for the last checkpoints
	waitForErrors = 2 * time.Second // between two looks at logs that cannot be read
)

// Config configures an Exporter.
type Config struct {
	Source      Source
	Cursors     Cursors
	Destination Destination
	OCSF        bool
	From        Start
	Follow      bool // do not end with the records that there are
	// with the last line, write checkpoints of what has none yet
	CheckpointAtEnd bool
	// a checkpoint line comes after so many records of a log, or so long after the first without
	// one
	CheckpointLines int64
	CheckpointEvery time.Duration
	// the least time between two deliveries, so that lines go together
	Linger time.Duration
	// names the run of the export in its lines; "" makes a name
	RunName string
	// returns an error if another process may have continued the export, regardless of the context:
	// this one may have been halted. nil is where there is no other one.
	May func(ctx context.Context) error
	// waits before a batch is read, where others have priority; nil does not wait
	Pace func(ctx context.Context, took time.Duration) error
	Log  *slog.Logger
}

// Exporter exports logs. Run is called once.
type Exporter struct {
	Config
	logs    map[Log]*state
	queue   []*state
	keys    map[string]sentKeys // by company
	session int                 // of opening lines; a new one begins with them
	// logs whose positions could not be read, and when to try again
	unread  []Log
	retryAt time.Time

	failures  int
	loggedAt  time.Time // when the failure was logged last
	delivered time.Time // begin of the last delivery
	took      time.Duration

	mu     sync.Mutex
	status Status
}

type sentKeys struct{ session, count int }

// New returns an exporter.
func New(c Config) *Exporter {
	if c.CheckpointLines == 0 {
		c.CheckpointLines = CheckpointLines
	}
	if c.CheckpointEvery == 0 {
		c.CheckpointEvery = CheckpointEvery
	}
	if c.RunName == "" {
		c.RunName = rand.Text()
	}
	return &Exporter{Config: c, logs: make(map[Log]*state), keys: make(map[string]sentKeys), session: 1,
		status: Status{Destination: c.Destination.String(), Stopped: map[Log]string{}}}
}

// Run exports until ctx is done or, without Follow, until all records that there are were
// acknowledged. It closes the destination.
func (e *Exporter) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, e.Destination.Close()) }()
	for {
		if err := e.waitForWork(ctx); err != nil {
			return e.end(ctx, err)
		}
		if err := e.wait(ctx); err != nil {
			return e.end(ctx, err)
		}
		done, err := e.round(ctx, false)
		switch {
		case ctx.Err() != nil:
			return e.end(ctx, ctx.Err())
		case err != nil && !e.Follow:
			return err
		case err != nil:
			if err := e.pause(ctx, err); err != nil {
				return e.end(ctx, err)
			}
		case done && !e.Follow:
			if err := e.stopped(); err != nil {
				return err
			}
			_, err := e.round(ctx, true)
			return err
		}
	}
}

// end writes the last checkpoints, if ctx is done.
func (e *Exporter) end(ctx context.Context, err error) error {
	if ctx.Err() == nil || !e.CheckpointAtEnd || e.failures > 0 {
		return err
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if e.May != nil && e.May(last) != nil {
		return err // the next exporter writes them
	}
	if _, failed := e.round(last, true); failed != nil {
		e.Log.Warn("the last checkpoint lines were not exported; the next start writes them", "error", failed)
	}
	return err
}

// stopped returns an error if a log cannot be exported.
func (e *Exporter) stopped() error {
	for l, why := range e.Status().Stopped {
		return fmt.Errorf("log %s of %s: %s", l.Name, l.CompanyID, why)
	}
	return nil
}

// waitForWork waits for work: logs that have grown, and checkpoints that are due.
func (e *Exporter) waitForWork(ctx context.Context) error {
	until := time.Now() // do not wait while there is work
	if len(e.queue) == 0 {
		until = e.nextDue()
	}
	grown, err := e.Source.Grown(ctx, until)
	if err != nil {
		if ctx.Err() != nil || !e.Follow {
			return err
		}
		e.Log.Error("the logs cannot be read for the export; retrying", "error", err)
		return sleep.For(ctx, waitForErrors)
	}
	if !time.Now().Before(e.retryAt) {
		grown, e.unread, e.retryAt = append(grown, e.unread...), nil, time.Time{}
	}
	for _, l := range grown {
		s, err := e.load(ctx, l)
		if err == nil {
			_, err = e.load(ctx, s.other())
		}
		switch {
		case err != nil && (ctx.Err() != nil || !e.Follow):
			return err
		case err != nil: // the other companies continue
			e.stop(&state{Log: l}, err)
			if !slices.Contains(e.unread, l) {
				e.unread = append(e.unread, l)
			}
			e.retryAt = time.Now().Add(waitForErrors)
		default:
			e.enqueue(s)
		}
	}
	now := time.Now()
	for _, s := range e.logs {
		if due := s.due(e); !due.IsZero() && !due.After(now) {
			e.enqueue(s)
		}
	}
	return nil
}

// load returns the state of a log, from where it was exported last.
func (e *Exporter) load(ctx context.Context, l Log) (*state, error) {
	if s := e.logs[l]; s != nil {
		return s, nil
	}
	at, err := e.Cursors.Load(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("the position of the export in the log %s of %s cannot be read: %w", l.Name, l.CompanyID, err)
	}
	s := &state{Log: l, at: at}
	if at.isNew() && e.From != (Start{}) {
		if s.at, err = e.begin(ctx, l); err != nil {
			return nil, fmt.Errorf("where the export of the log %s of %s begins: %w", l.Name, l.CompanyID, err)
		}
		s.resign = s.at.Frontier.Size > 0 // for the opening line, though there are no new records
		e.logs[l] = s
		return s, nil
	}
	if at.Previous < at.Frontier.Size { // its end has no checkpoint
		s.since = time.Now()
	}
	e.logs[l] = s
	return s, nil
}

func (e *Exporter) enqueue(s *state) {
	if !s.queued {
		s.queued = true
		e.queue = append(e.queue, s)
	}
}

// nextDue returns when the next checkpoint is due, or when to look at a log again; zero for never.
func (e *Exporter) nextDue() (next time.Time) {
	next = e.retryAt
	for _, s := range e.logs {
		if due := s.due(e); !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return next
}

// wait lets other work go first, and lines accumulate.
func (e *Exporter) wait(ctx context.Context) error {
	if e.Pace != nil {
		if err := e.Pace(ctx, e.took); err != nil {
			return err
		}
	}
	return sleep.For(ctx, e.Linger-time.Since(e.delivered))
}

// pause waits after a failed delivery, longer each time.
func (e *Exporter) pause(ctx context.Context, failed error) error {
	delay := min(firstPause<<min(e.failures-1, 10), longestPause)
	if asked := (*RetryAfter)(nil); errors.As(failed, &asked) && asked.Delay > delay {
		delay = min(asked.Delay, longestAsked)
	}
	return sleep.For(ctx, delay/2+time.Duration(mathrand.Int64N(int64(delay/2)+1)))
}

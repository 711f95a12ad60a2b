package cmd

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

// logBuffer takes log lines from requests and writes them in a goroutine of its own, so that no
// request ever waits for whoever reads the log. It gathers them, for a system call a line is a
// tenth of what a small request costs: a line is written a moment after it came, or sooner when
// many come or one of them is urgent. Lines that find the queue full, or whose write failed, are
// dropped, and the next batch that is written ends with their number. A process that is killed
// loses the lines of its last moment.
type logBuffer struct {
	out    io.Writer
	notice func(dropped int) string // a line that says so
	wake   chan struct{}            // a batch is due
	ended  chan struct{}            // the goroutine has written its last

	mu      sync.Mutex
	lines   []byte // the queue
	full    bool   // lines are dropped until the queue is taken
	dropped int
	closed  bool
	timer   *time.Timer // runs while lines wait
}

const (
	logDelay    = 50 * time.Millisecond
	logSize     = 32 << 10    // bytes that are written without more delay
	logCapacity = 1 << 20     // bytes that wait for a reader at most
	logPatience = time.Second // for a reader, at the end
)

// startLog starts the goroutine that writes to out; stop ends it.
func startLog(out io.Writer, notice func(dropped int) string) *logBuffer {
	b := &logBuffer{out: out, notice: notice, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	b.timer = time.AfterFunc(time.Hour, b.hurry)
	b.timer.Stop()
	go b.run()
	return b
}

// Write queues one line or several. It never waits and never fails: there is nobody to tell that
// the log cannot be written.
func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full = b.full || len(b.lines)+len(line) > logCapacity; b.full {
		b.dropped += bytes.Count(line, newline)
		b.hurry()
		return len(line), nil
	}
	if len(b.lines) == 0 {
		b.timer.Reset(logDelay)
	}
	b.lines = append(b.lines, line...)
	if len(b.lines) >= logSize {
		b.hurry()
	}
	return len(line), nil
}

var newline = []byte("\n")

// hurry has what waits written now.
func (b *logBuffer) hurry() {
	select {
	case b.wake <- struct{}{}:
	default: // it is due already
	}
}

// stop has what waits written, and returns when it is or when that takes too long. Lines that come
// later are not written.
func (b *logBuffer) stop() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.hurry()
	select {
	case <-b.ended:
	case <-time.After(logPatience):
	}
}

// run writes batches until stop. It alone may wait for the reader.
func (b *logBuffer) run() {
	defer close(b.ended)
	var batch []byte
	torn := false // the last byte written was in the midst of a line
	for last := false; !last; {
		<-b.wake
		var said int
		batch, said, last = b.take(batch[:0])
		if len(batch) == 0 {
			continue
		}
		if torn {
			_, err := b.out.Write(newline)
			torn = err != nil
		}
		n, err := b.out.Write(batch)
		if n > 0 {
			torn = batch[n-1] != '\n'
		}
		if err != nil {
			b.lost(batch[n:], said)
		}
	}
}

// take empties the queue, whose memory spare becomes. The batch ends with the notice of said lines,
// where there are any.
func (b *logBuffer) take(spare []byte) (batch []byte, said int, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer.Stop()
	batch, said = b.lines, b.dropped
	if said > 0 {
		batch = append(batch, b.notice(said)...)
	}
	b.lines, b.full, b.dropped = spare, false, 0
	return batch, said, b.closed
}

// lost counts the lines of the end of a batch that was not written, and those that its notice spoke
// of.
func (b *logBuffer) lost(unwritten []byte, said int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropped += bytes.Count(unwritten, newline) + said
	if said > 0 {
		b.dropped-- // the notice itself, which is the last line
	}
}

// urgentHandler hands records on to a handler that writes to log, and has warnings and errors
// written at once, with what waited before them.
type urgentHandler struct {
	slog.Handler
	log *logBuffer
}

func (h urgentHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		h.log.hurry()
	}
	return err
}

func (h urgentHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return urgentHandler{h.Handler.WithAttrs(attrs), h.log}
}

func (h urgentHandler) WithGroup(name string) slog.Handler {
	return urgentHandler{h.Handler.WithGroup(name), h.log}
}

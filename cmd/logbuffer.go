package cmd

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"attestd/internal/wake"
)

// logBuffer queues log lines and writes them in its own goroutine, so that no request waits for the
// reader of the log. It writes lines in batches, because a system call for each line would cost a
// tenth of a small request. A batch is written after logDelay, or sooner when it is large or
// urgent. A line is dropped when the queue is full or its write fails; the next batch ends with the
// number of dropped lines. A killed process loses the lines of its last logDelay.
type logBuffer struct {
	out    io.Writer
	notice func(dropped int) string // returns the line about dropped ones
	wake   wake.Signal              // set when a batch is due
	ended  chan struct{}            // closed when the goroutine returns

	mu      sync.Mutex
	lines   []byte // the queue
	full    bool   // lines are dropped until the queue is drained
	dropped int
	closed  bool
	timer   *time.Timer // runs while lines wait
}

const (
	logDelay    = 50 * time.Millisecond
	logSize     = 32 << 10    // bytes in the queue from which on a batch is due at once
	logCapacity = 1 << 20     // largest number of bytes in the queue
	logPatience = time.Second // time limit for the last batch
)

// startLog starts the goroutine that writes to out; stop ends it.
func startLog(out io.Writer, notice func(dropped int) string) *logBuffer {
	b := &logBuffer{out: out, notice: notice, wake: wake.NewSignal(), ended: make(chan struct{})}
	b.timer = time.AfterFunc(time.Hour, b.flush)
	b.timer.Stop()
	go b.run()
	return b
}

// Write queues one or more lines. It never blocks and never fails, since an error of the log could
// be reported to no one.
func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full = b.full || len(b.lines)+len(line) > logCapacity; b.full {
		b.dropped += bytes.Count(line, newline)
		b.flush()
		return len(line), nil
	}
	if len(b.lines) == 0 {
		b.timer.Reset(logDelay)
	}
	b.lines = append(b.lines, line...)
	if len(b.lines) >= logSize {
		b.flush()
	}
	return len(line), nil
}

var newline = []byte("\n")

// flush makes the goroutine write the queue now. It does not wait for that.
func (b *logBuffer) flush() { b.wake.Set() }

// stop writes the queue and returns when that is done, or after logPatience. Later lines are lost.
func (b *logBuffer) stop() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.flush()
	select {
	case <-b.ended:
	case <-time.After(logPatience):
	}
}

// run writes batches until stop. It alone may wait for the reader.
func (b *logBuffer) run() {
	defer close(b.ended)
	var batch []byte
	torn := false // the last write ended within a line
	for last := false; !last; {
		<-b.wake
		var dropped int
		batch, dropped, last = b.drain(batch[:0])
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
			b.countLost(batch[n:], dropped)
		}
	}
}

// drain empties the queue and reuses spare for it. The batch ends with the notice about dropped
// lines, if there are any.
func (b *logBuffer) drain(spare []byte) (batch []byte, dropped int, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer.Stop()
	batch, dropped = b.lines, b.dropped
	if dropped > 0 {
		batch = append(batch, b.notice(dropped)...)
	}
	b.lines, b.full, b.dropped = spare, false, 0
	return batch, dropped, b.closed
}

// countLost counts the lines in the unwritten end of a batch, and again the dropped lines that its
// notice reported.
func (b *logBuffer) countLost(unwritten []byte, dropped int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropped += bytes.Count(unwritten, newline) + dropped
	if dropped > 0 {
		b.dropped-- // the notice itself, which is the last line
	}
}

// urgentHandler passes records to a handler that writes to log. Warnings and errors are written at
// once, with the lines queued before them.
type urgentHandler struct {
	slog.Handler
	log *logBuffer
}

func (h urgentHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		h.log.flush()
	}
	return err
}

func (h urgentHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return urgentHandler{h.Handler.WithAttrs(attrs), h.log}
}

func (h urgentHandler) WithGroup(name string) slog.Handler {
	return urgentHandler{h.Handler.WithGroup(name), h.log}
}

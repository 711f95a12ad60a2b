package cmd

import (
	"io"
	"sync"
	"time"
)

// logBuffer gathers log lines, for a system call a line is a tenth of what a small request costs. A line is written a moment
// after it came, or sooner when many come; flush writes what waits. A process that is killed loses the lines of that moment.
type logBuffer struct {
	out io.Writer

	mu    sync.Mutex
	lines []byte
	timer *time.Timer // runs while lines wait
}

const (
	logDelay = 50 * time.Millisecond
	logSize  = 32 << 10
)

func newLogBuffer(out io.Writer) *logBuffer {
	b := &logBuffer{out: out}
	b.timer = time.AfterFunc(time.Hour, b.flush)
	b.timer.Stop()
	return b
}

// Write never fails: there is nobody to tell that the log cannot be written.
func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) == 0 {
		b.timer.Reset(logDelay)
	}
	b.lines = append(b.lines, line...)
	if len(b.lines) >= logSize {
		b.empty()
	}
	return len(line), nil
}

// flush writes what waits.
func (b *logBuffer) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.empty()
}

func (b *logBuffer) empty() {
	b.timer.Stop()
	if len(b.lines) > 0 {
		_, _ = b.out.Write(b.lines)
		b.lines = b.lines[:0]
	}
}

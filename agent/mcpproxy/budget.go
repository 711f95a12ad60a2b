package mcpproxy

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/semaphore"
)

const (
	maxHeld    = 256 << 20 // bytes of messages that are being read or forwarded at the same time
	freeBytes  = 64 << 10  // of each message, which are not charged
	chargeStep = 1 << 20   // bytes charged at a time
)

var errNoMemory = errors.New("too many bytes are on their way")

// budget is what one message takes of the bytes that all may hold.
type budget struct {
	of   *semaphore.Weighted
	held int64
}

// cover charges for a message of that size, and reports whether there was enough.
func (b *budget) cover(size int) bool {
	if b == nil {
		return true
	}
	for int64(size) > b.held+freeBytes {
		if !b.of.TryAcquire(chargeStep) {
			return false
		}
		b.held += chargeStep
	}
	return true
}

// release returns everything.
func (b *budget) release() {
	if b.held > 0 {
		b.of.Release(b.held)
		b.held = 0
	}
}

// readAll reads a message of at most limit bytes.
func readAll(in io.Reader, limit int, b *budget) (body []byte, err error) {
	body = make([]byte, 0, 4<<10)
	for {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		if !b.cover(cap(body)) {
			return nil, errNoMemory
		}
		n, err := in.Read(body[len(body):cap(body)])
		if body = body[:len(body)+n]; len(body) > limit {
			return nil, fmt.Errorf("%w: over %d bytes", errLineTooLong, limit)
		}
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

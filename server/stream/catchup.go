package stream

import (
	"context"
	"errors"

	"github.com/gorilla/websocket"

	"attestd/chain"
)

// Backlog returns the next events of committed records from an index on, in order, and none if
// there are no more for now.
type Backlog func(ctx context.Context, from int64) ([]chain.Event, error)

// catchUp is the state of a client that has asked for records from an index on, until it has caught
// up and receives broadcasts like others. It is guarded by Hub.mu. A client that has caught up has
// none, until it falls behind; then it is at the first record for which its queue had no room.
//
// Its records are read from disk at its own pace, and broadcasts are not queued for it, so that its
// memory is bounded however far it is behind. When the disk has no more, it changes to waiting and
// reads once more. That read finds what was committed before the change, and later commits are
// broadcast after it. So the first broadcast that it accepts is the record after its last.
type catchUp struct {
	next  int64 // index of the next record
	state catchUpState
}

type catchUpState int

const (
	reading catchUpState = iota // reads from disk
	waiting                     // has found no records, and reads once more
	through                     // has found no records twice: all others will be broadcast
)

// takes reports whether a broadcast record is the first that the client receives as a broadcast. A
// record after a gap is, only if the record in the gap cannot come any more, because it is missing
// on disk.
func (u *catchUp) takes(index int64) bool {
	return u.state == waiting && index == u.next || u.state == through && index >= u.next
}

// The maximum content of a client's queue for reading more. The rest of the queue is for broadcasts
// after it has caught up.
const (
	maxReadAhead      = maxQueued / 4
	maxReadAheadBytes = maxQueuedBytes / 4
)

// follow makes a client catch up, and again after it has fallen behind, until it is gone.
func (h *Hub) follow(ctx context.Context, c *client) {
	for h.catchUp(ctx, c) {
		select {
		case <-c.fell:
		case <-ctx.Done():
			return
		}
	}
}

// catchUp returns true when the client receives broadcasts, and false when it is gone.
func (h *Hub) catchUp(ctx context.Context, c *client) bool {
	for {
		from, left := h.nextFor(c)
		if !left {
			return true
		}
		events, err := c.Backlog(ctx, from)
		if err != nil {
			if ctx.Err() == nil {
				h.log.Error("records cannot be read for a client of the stream", "error", err)
				c.end(websocket.CloseTryAgainLater, "records cannot be read now")
			}
			return false
		}
		if !h.advance(c, events) {
			return true
		}
		for i := range events {
			if err := c.offerWhenRoom(ctx, &events[i]); err != nil {
				if ctx.Err() == nil {
					h.log.Error("stream message", "error", err)
					c.end(websocket.CloseInternalServerErr, "a message cannot be made")
				}
				return false
			}
		}
	}
}

// nextFor returns the index of the next record to read for a client, if there is one.
func (h *Hub) nextFor(c *client) (index int64, left bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.behind == nil {
		return 0, false
	}
	return c.behind.next, true
}

// fallBehind makes a client with a Backlog read from a record on for which its queue had no room.
// The caller MUST hold Hub.mu.
func (c *client) fallBehind(index int64) bool {
	if c.Backlog == nil {
		return false
	}
	c.behind = &catchUp{next: index}
	c.fell.Set()
	return true
}

// advance updates the state of a client after a read. It returns false if the client has caught up.
func (h *Hub) advance(c *client, read []chain.Event) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case c.behind == nil:
		// a broadcast was the next record, and the records just read are broadcast too
		return false
	case len(read) > 0:
		c.behind.next, c.behind.state = read[len(read)-1].Record.Index+1, reading
		return true
	case c.behind.state == reading:
		c.behind.state = waiting
		return true
	default:
		c.behind.state = through
		return false
	}
}

// offerWhenRoom queues an event when the queue has enough room. Nothing is broadcast to the client
// meanwhile.
func (c *client) offerWhenRoom(ctx context.Context, e *chain.Event) error {
	text := appendEvent(nil, e)
	frame, err := websocket.NewPreparedMessage(websocket.TextMessage, text)
	if err != nil {
		return err
	}
	for len(c.queue) >= maxReadAhead || c.bytes.Load() > maxReadAheadBytes {
		select {
		case <-c.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if !c.offer(message{frame, int64(len(text))}) {
		return errors.New("stream: no room, where there was some")
	}
	return nil
}

package stream

import (
	"context"
	"errors"

	"github.com/gorilla/websocket"

	"attestd/chain"
)

// Backlog gives the events of records that were committed before, from an index on and in order, a
// few at a time; none when there are none left for now.
type Backlog func(ctx context.Context, from int64) ([]chain.Event, error)

// catchUp is where a client stands that asked for records from an index on, until it has all and
// gets those that are appended like others do. Hub.mu guards it; the client has none from then on,
// until it falls behind: then it stands before the first record that found no room.
//
// Its records come from disk, at its own pace: none of those that are broadcast is queued for it,
// so however far behind it is, it takes a few records of memory. When there are none left on disk
// it says that it waits, and looks once more: what was committed before it said so is found then,
// and what comes after is broadcast after. So the first broadcast that it takes is the record
// behind its last.
type catchUp struct {
	next  int64 // the index of the record that it gets next
	state catchUpState
}

type catchUpState int

const (
	reading catchUpState = iota // from disk
	waiting                     // has found nothing, and looks once more
	through                     // has found nothing twice: what was not broadcast by then will be
)

// takes says whether the broadcast of a record is the first that the client gets in this way. One
// behind a gap is so only when the record in the gap cannot come any more, for it is gone from
// disk.
func (u *catchUp) takes(index int64) bool {
	return u.state == waiting && index == u.next || u.state == through && index >= u.next
}

// most of what a client has in its queue before more is read for it: room is left for what is
// broadcast once it is through.
const (
	maxReadAhead      = maxQueued / 4
	maxReadAheadBytes = maxQueuedBytes / 4
)

// follow brings a client up to date, and again when it has fallen behind, until it is gone.
func (h *Hub) follow(ctx context.Context, c *client) {
	for h.catchUp(ctx, c) {
		select {
		case <-c.fell:
		case <-ctx.Done():
			return
		}
	}
}

// catchUp returns true when the client gets what is broadcast, and false when it is gone.
func (h *Hub) catchUp(ctx context.Context, c *client) bool {
	for {
		from, left := h.standsBefore(c)
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

// standsBefore returns the index of the record that is read next for a client, if one is.
func (h *Hub) standsBefore(c *client) (index int64, left bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.behind == nil {
		return 0, false
	}
	return c.behind.next, true
}

// fallBehind makes a client that can be read for be so, from a record on that found no room. Hub.mu
// is held.
func (c *client) fallBehind(index int64) bool {
	if c.Backlog == nil {
		return false
	}
	c.behind = &catchUp{next: index}
	select {
	case c.fell <- struct{}{}:
	default:
	}
	return true
}

// advance notes what was read for a client. It reports false when nothing more is to be read, for
// the client is through.
func (h *Hub) advance(c *client, read []chain.Event) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case c.behind == nil:
		// a broadcast was the next record: whatever else was read is broadcast too
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

// offerWhenRoom queues an event when the client has taken enough of what is queued. Nothing is
// broadcast to the client meanwhile.
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

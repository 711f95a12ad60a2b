package server

import (
	"context"
	"net/http"

	"attestd/chain"
	"attestd/server/stream"
	"attestd/store"
)

// resumeBytes is how much of the payloads of a stream's past records is read at once.
const resumeBytes = 1 << 20

// resume makes a subscriber get the records of its company from the index that it asks for, where
// it asks for one. What cannot be given is said before the stream begins: then its client has
// missed records for good, or belongs to another chain.
func (s *Server) resume(c *call, who *stream.Subscriber) error {
	if !c.query.Has("from") {
		return nil
	}
	by := c.caller
	if by.Company == nil {
		return fail(http.StatusBadRequest, "Invalid query parameter: from needs a credential, for each company counts its own records")
	}
	from, ok := decimal(c.query.Get("from"))
	if !ok {
		return fail(http.StatusBadRequest, "Invalid query parameter: from must be a whole number, the index of a record")
	}
	head, _, err := s.Store.Tip(c.Context(), by.Company.Actions.Chain)
	if err != nil {
		return err
	}
	if from > head.Length {
		return &apiError{Status: http.StatusConflict, Code: "CURSOR_BEYOND_LOG",
			Message: "The chain has fewer records than that: the database is older than it was, or the index is another chain's. Read the chain, and begin anew"}
	}
	who.From, who.Backlog = from, s.backlog(by.Company, from)
	return nil
}

// backlog reads the records of a company's actions from an index on, with what the monitor says of
// them.
func (s *Server) backlog(company *store.Company, from int64) stream.Backlog {
	number := company.Actions.Chain
	voucher := s.monitor.Vouch(number, from)
	began := false
	return func(ctx context.Context, from int64) ([]chain.Event, error) {
		if from != voucher.Next() { // what lies between was broadcast
			voucher = s.monitor.Vouch(number, from)
		}
		if !began {
			began = true
			// That somebody else has written the file shows at the next write: at this one. Where
			// nothing can be written it would not show. In a database that others write too it
			// shows nowhere, and each record is verified when it is read.
			if !s.Store.MultiWriter() && s.Store.Ready(ctx) != nil {
				s.monitor.Invalidate(number)
			}
		}
		for {
			at := voucher.Next()
			events, err := voucher.Events(ctx, func(from int64) ([]chain.Record, int64, error) { return s.readFrom(ctx, number, from) })
			if err != nil || len(events) > 0 || voucher.Next() == at {
				return events, err
			} // else all of a range is missing on disk
		}
	}
}

// readFrom reads the next few records of a chain, and returns the index behind them.
func (s *Server) readFrom(ctx context.Context, number, from int64) (records []chain.Record, next int64, err error) {
	cursor, size := s.feed.Follow(number, from), 0
	err = cursor.Read(ctx, func(r *chain.Record) bool {
		records = append(records, r.Clone())
		size += len(r.Payload)
		return size < resumeBytes
	})
	return records, cursor.Next(), err
}

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"attestd/chain"
	"attestd/server/httpapi"
	"attestd/server/stream"
	"attestd/store"
)

// resumeBytes bounds the payloads of past records that are read at once for a stream.
const resumeBytes = 1 << 20

// resume makes a subscriber receive the records of its company from the requested index on. An
// impossible index is refused before the stream begins, because the client has lost records
// permanently, or uses another chain. So is one whose payload was pruned: a record that is read
// again is verified by itself where several servers write, and without its payload it cannot be.
func (s *Streams) resume(c *httpapi.Call, by store.Caller, who *stream.Subscriber) error {
	if !c.Query.Has("from") {
		return nil
	}
	if by.Company == nil {
		return httpapi.Fail(http.StatusBadRequest, "Invalid query parameter: from needs a credential, for each company counts its own records")
	}
	from, ok := httpapi.Decimal(c.Query.Get("from"))
	if !ok {
		return httpapi.Fail(http.StatusBadRequest, "Invalid query parameter: from must be a whole number, the index of a record")
	}
	head, _, err := s.Store.Tip(c.Context(), by.Company.Actions.Chain)
	if err != nil {
		return err
	}
	if from > head.Length {
		return &httpapi.Error{Status: http.StatusConflict, Code: "CURSOR_BEYOND_LOG",
			Message: "The chain has fewer records than that: the database is older than it was, or the index is another chain's. Read the chain, and begin anew"}
	}
	pruned, err := s.Store.PrunedRecords(c.Context(), by.Company.Actions.Chain)
	switch {
	case errors.Is(err, chain.ErrUnproven): // each message says that the chain does not verify
	case err != nil:
		return err
	case from < pruned.Records:
		return &httpapi.Error{Status: http.StatusGone, Code: "PAYLOAD_PRUNED", Message: fmt.Sprintf(
			"The payloads of the first %[1]d records were pruned: resume at %[1]d or later. GET /v1/chain has what is left of those records, "+
				"and archives have the payloads, the last one with the SHA-256 %[2]s", pruned.Records, pruned.Archive)}
	}
	who.From, who.Backlog = from, s.backlog(by.Company, from)
	return nil
}

// backlog returns a function that reads the records of a company's actions from an index on, with
// the monitor's verdicts.
func (s *Streams) backlog(company *store.Company, from int64) stream.Backlog {
	number := company.Actions.Chain
	reader := s.Monitor.EventReader(number, from)
	began := false
	return func(ctx context.Context, from int64) ([]chain.Event, error) {
		if from != reader.Next() { // the records in between were broadcast
			reader = s.Monitor.EventReader(number, from)
		}
		if !began {
			began = true
			// External writes to the file are detected by the next write, which is this one, so
			// without writes they could remain undetected. On a database with several writers
			// nothing detects them, and each record is verified when it is read.
			if !s.Store.MultiWriter() && s.Store.Ready(ctx) != nil {
				s.Monitor.Invalidate(number)
			}
		}
		for {
			at := reader.Next()
			events, err := reader.Events(ctx, func(from int64) ([]chain.Record, int64, error) {
				return s.readFrom(ctx, number, from)
			})
			if err != nil || len(events) > 0 || reader.Next() == at {
				return events, err
			} // otherwise all records of a range are missing on disk
		}
	}
}

// readFrom reads the next few records of a chain, and returns the index after them.
func (s *Streams) readFrom(ctx context.Context, number, from int64) (records []chain.Record, next int64, err error) {
	cursor, size := s.Feed.Follow(number, from), 0
	err = cursor.Read(ctx, func(r *chain.Record) bool {
		records = append(records, r.Clone())
		size += len(r.Payload)
		return size < resumeBytes
	})
	return records, cursor.Next(), err
}

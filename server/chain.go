package server

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"attestd/chain"
)

const (
	rangeRecords = 1024      // of one read: a long read transaction would stop WAL checkpoints
	rangeBytes   = 256 << 10 // after which what was read is written out, so that memory stays constant
	maxPage      = 10_000
	writeTimeout = 30 * time.Second // for one write: a client that takes nothing for so long is cut off
)

// readChain streams the chain as it stands on disk: verbatim bytes, nothing parsed, constant memory at any length.
func (s *Server) readChain(c *call) error {
	from, err := c.number("from", 0, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	limit, err := c.number("limit", math.MaxInt64, 1, maxPage)
	if err != nil {
		return err
	}
	head, _, err := s.Store.Tip(c.Context(), c.company.Chain)
	if err != nil {
		return err
	}
	to := head.Length
	if from < to && limit < to-from {
		to = from + limit
	}
	form := jsonArray
	if strings.Contains(c.Header.Get("Accept"), "application/x-ndjson") {
		form = jsonLines
	}
	c.w.Header().Set("Content-Type", form.contentType)
	c.w.WriteHeader(http.StatusOK)
	if err := s.writeRecords(c, form, from, to); err != nil {
		s.Log.Error("chain read broken off", "id", c.id, "company", c.company.ID, "error", err)
		panic(http.ErrAbortHandler) // the only way left to say that this answer is not whole
	}
	return nil
}

// listForm is how a list of records is written.
type listForm struct{ contentType, before, between, after string }

var (
	jsonArray = listForm{"application/json", `{"records":[`, ",", "]}\n"}
	jsonLines = listForm{"application/x-ndjson", "", "\n", "\n"}
)

var errRangeFull = errors.New("enough was read for one write")

func (s *Server) writeRecords(c *call, form listForm, from, to int64) error {
	control := http.NewResponseController(c.w)
	defer control.SetWriteDeadline(time.Time{}) // for the next request on the connection
	buf := bytes.NewBuffer(make([]byte, 0, rangeBytes+rangeBytes/4))
	buf.WriteString(form.before)
	write := func() error {
		if err := control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		_, err := buf.WriteTo(c.w)
		buf.Reset()
		return err
	}
	wrote := false
	for next := from; next < to; {
		end := min(next+rangeRecords, to)
		err := s.Store.Records(c.Context(), c.company.Chain, next, end, func(r *chain.Record) error {
			if wrote {
				buf.WriteString(form.between)
			}
			wrote = true
			buf.Write(r.AppendJSON(buf.AvailableBuffer()))
			next = r.Index + 1
			if buf.Len() >= rangeBytes {
				return errRangeFull
			}
			return nil
		})
		switch {
		case err == nil:
			next = end // records missing from the disk are for verify to find
		case !errors.Is(err, errRangeFull):
			return err
		}
		if err := write(); err != nil {
			return err
		}
	}
	if wrote || form == jsonArray {
		buf.WriteString(form.after)
	}
	return write()
}

// verifyChain recomputes the whole chain from disk.
func (s *Server) verifyChain(c *call) error {
	select {
	case s.verifies <- struct{}{}:
		defer func() { <-s.verifies }()
	case <-c.Context().Done():
		return c.Context().Err()
	}
	verdict, err := s.verifier.Verify(c.Context(), c.company.Chain, c.company.Issuer.Public.Key, nil)
	if err != nil {
		return err
	}
	if !verdict.Valid {
		return c.json(http.StatusOK, struct {
			Valid         bool   `json:"valid"`
			FailedAtIndex int64  `json:"failedAtIndex"`
			Error         string `json:"error"`
		}{false, verdict.FailedAt, verdict.Reason})
	}
	return c.json(http.StatusOK, struct {
		Valid      bool   `json:"valid"`
		MerkleRoot string `json:"merkleRoot"`
	}{true, verdict.Root.String()})
}

// prove answers with a record and its inclusion proof.
func (s *Server) prove(c *call) error {
	index, ok := decimal(c.PathValue("index"))
	if !ok {
		return fail(http.StatusBadRequest, "index must be a non-negative integer")
	}
	head, _, err := s.Store.Tip(c.Context(), c.company.Chain)
	if err != nil {
		return err
	}
	if index >= head.Length {
		return fail(http.StatusNotFound, fmt.Sprintf("Index out of bounds: the chain has %d records", head.Length))
	}
	body := []byte(`{"record":`)
	found := false
	err = s.Store.Records(c.Context(), c.company.Chain, index, index+1, func(r *chain.Record) error {
		found = true
		body = r.AppendJSON(body)
		return nil
	})
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("chain %s: record %d is missing on disk", c.company.ID, index)
	}
	proof, err := chain.Prove(c.Context(), s.Store, c.company.Chain, index, head)
	if err != nil {
		return err
	}
	body = append(body, `,"proof":[`...)
	for i, step := range proof {
		if i > 0 {
			body = append(body, ',')
		}
		position := "right"
		if step.Left {
			position = "left"
		}
		body = fmt.Appendf(body, `{"sibling":"%s","position":"%s"}`, step.Sibling, position)
	}
	body = fmt.Appendf(body, "],\"root\":\"%s\"}\n", head.Root)
	return c.bytes(http.StatusOK, body)
}

// companyKey is the door through which the monitor finds the key of a chain.
func (s *Server) companyKey(ctx context.Context, id int64) (ed25519.PublicKey, error) {
	company, err := s.Store.CompanyOfChain(ctx, id)
	if err != nil {
		return nil, err
	}
	return company.Issuer.Public.Key, nil
}

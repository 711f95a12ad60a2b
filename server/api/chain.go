package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"attestd/chain"
	"attestd/server/httpapi"
	"attestd/store"
)

// Chains are the records of a company, their proofs and their verification.
type Chains struct {
	Store         *store.Store
	Verifications *Verifications
}

const (
	rangeRecords = 1024 // per read, because a long read transaction would block WAL checkpoints
	// after this size the output is written, so that memory stays constant
	rangeBytes = 256 << 10
)

type readChainRequest struct {
	From   int64         `query:"from" must:"number 0..9223372036854775807" default:"0"`
	Limit  int64         `query:"limit" must:"number 1..10000"` // 0 for all
	Accept string        `header:"Accept"`
	Log    store.LogName `query:"log" must:"log"`
}

// records is a response with the records [from, to) of a chain as stored. It is verbatim, without
// parsing, and uses constant memory.
type records struct {
	store    *store.Store
	chain    int64
	from, to int64
	form     listForm
}

func (s *Chains) Read(ctx context.Context, by store.Caller, r readChainRequest) (records, error) {
	number := by.Company.Log(r.Log).Chain
	head, _, err := s.Store.Tip(ctx, number)
	if err != nil {
		return records{}, err
	}
	answer := records{s.Store, number, r.From, head.Length, jsonArray}
	if r.Limit > 0 && r.From < answer.to && r.Limit < answer.to-r.From {
		answer.to = r.From + r.Limit
	}
	if strings.Contains(r.Accept, "application/x-ndjson") {
		answer.form = jsonLines
	}
	return answer, nil
}

// listForm is the format of a list of records.
type listForm struct{ contentType, before, between, after string }

var (
	jsonArray = listForm{"application/json", `{"records":[`, ",", "]}\n"}
	jsonLines = listForm{"application/x-ndjson", "", "\n", "\n"}
)

var errRangeFull = errors.New("enough was read for one write")

func (a records) WriteTo(c *httpapi.Call, status int) error {
	c.W.Header().Set("Content-Type", a.form.contentType)
	c.W.WriteHeader(status)
	if c.Method == http.MethodHead {
		return nil
	}
	form := a.form
	buf := bytes.NewBuffer(make([]byte, 0, rangeBytes+rangeBytes/4))
	buf.WriteString(form.before)
	wrote := false
	err := eachRecord(c, a.store, buf, a.chain, a.from, a.to, func(r *chain.Record) {
		if wrote {
			buf.WriteString(form.between)
		}
		wrote = true
		if form == jsonLines {
			buf.Write(r.AppendLine(buf.AvailableBuffer()))
		} else {
			buf.Write(r.AppendJSON(buf.AvailableBuffer()))
		}
	})
	if err != nil {
		return err
	}
	if wrote || form == jsonArray {
		buf.WriteString(form.after)
	}
	_, err = buf.WriteTo(c.W)
	return err
}

// eachRecord calls add, which writes to buf, for the records [start, end) of a chain, and sends buf
// regularly.
func eachRecord(c *httpapi.Call, from *store.Store, buf *bytes.Buffer, number, start, end int64, add func(r *chain.Record)) error {
	for next := start; next < end; {
		until := min(next+rangeRecords, end)
		err := from.Records(c.Context(), number, next, until, func(r *chain.Record) error {
			add(r)
			next = r.Index + 1
			if buf.Len() >= rangeBytes {
				return errRangeFull
			}
			return nil
		})
		switch {
		case err == nil:
			next = until // verification reports records that are missing on disk
		case !errors.Is(err, errRangeFull):
			return err
		}
		if _, err := buf.WriteTo(c.W); err != nil {
			return err
		}
	}
	return nil
}

type verifyRequest struct {
	Log store.LogName `query:"log" must:"log"`
}

// Verify verifies the whole chain from disk.
func (s *Chains) Verify(_ context.Context, by store.Caller, r verifyRequest) (verdict, error) {
	return verdict{s.Verifications, by.Company, by.Company.Log(r.Log)}, nil
}

// verdict is a response about the whole chain of a company's log. The chain is verified when the
// response is written, so that HEAD costs nothing.
type verdict struct {
	by  *Verifications
	of  *store.Company
	log store.Log
}

func (a verdict) WriteTo(c *httpapi.Call, status int) error {
	if c.Method == http.MethodHead {
		return c.Bytes(status, nil)
	}
	v, err := a.by.verify(c.Context(), a.of, a.log)
	if err != nil {
		return err
	}
	body := struct {
		Valid         bool   `json:"valid"`
		MerkleRoot    string `json:"merkleRoot,omitempty"`
		FailedAtIndex *int64 `json:"failedAtIndex,omitempty"`
		Error         string `json:"error,omitempty"`
		Pruned        int64  `json:"pruned,omitempty"`
	}{Valid: v.Valid, Pruned: v.Pruned}
	if v.Valid {
		body.MerkleRoot = v.Root.String()
	} else {
		body.FailedAtIndex, body.Error = &v.FailedAt, v.Reason
	}
	return c.JSON(status, body)
}

type proveRequest struct {
	Index string        `path:"index"`
	Log   store.LogName `query:"log" must:"log"`
}

// Prove returns a record with its inclusion proof.
func (s *Chains) Prove(ctx context.Context, by store.Caller, r proveRequest) (httpapi.Verbatim, error) {
	number := by.Company.Log(r.Log).Chain
	index, ok := httpapi.Decimal(r.Index)
	if !ok {
		return nil, httpapi.Fail(http.StatusBadRequest, "index must be a non-negative integer")
	}
	head, _, err := s.Store.Tip(ctx, number)
	if err != nil {
		return nil, err
	}
	if index >= head.Length {
		return nil, httpapi.Fail(http.StatusNotFound, fmt.Sprintf("Index out of bounds: the chain has %d records", head.Length))
	}
	body := []byte(`{"record":`)
	found := false
	err = s.Store.Records(ctx, number, index, index+1, func(r *chain.Record) error {
		found = true
		body = r.AppendJSON(body)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("chain %s: record %d is missing on disk", by.Company.ID, index)
	}
	proof, err := chain.Prove(ctx, s.Store, number, index, head)
	if err != nil {
		return nil, err
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
	return fmt.Appendf(body, "],\"root\":\"%s\"}\n", head.Root), nil
}

package attestd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"attestd/internal/linereader"
)

// Log is one of a company's two chains.
type Log string

const (
	Actions Log = "actions" // what agents did; also ""
	Control Log = "control" // changes of rights
)

func (l Log) query() url.Values {
	q := url.Values{}
	if l != "" && l != Actions {
		q.Set("log", string(l))
	}
	return q
}

// Range is a part of a chain.
type Range struct {
	Log   Log
	From  int64 // the first index
	Limit int64 // the largest number of records; 0 is all
}

// Records returns records in index order as they arrive. After a lost connection it reconnects and
// continues after the last record. The client's Retry limits consecutive attempts without a record.
// An error ends the sequence.
func (c *Client) Records(ctx context.Context, part Range) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		next, left := part.From, part.Limit
		for lost := 0; ; {
			more, err := c.records(ctx, part.Log, &next, &left, yield)
			switch {
			case !more:
				return
			case err == nil:
				return
			case ctx.Err() != nil:
				yield(Record{}, err)
				return
			}
			var broken *brokenOff
			if !errors.As(err, &broken) {
				yield(Record{}, err)
				return
			}
			if broken.read > 0 {
				lost = 0
			}
			wait, again := c.retry.wait(lost, err, true)
			if !again || rest(ctx, wait) != nil {
				yield(Record{}, err)
				return
			}
			lost++
		}
	}
}

// brokenOff is the error of a response that ended early, after a number of records.
type brokenOff struct {
	read int
	error
}

func (b *brokenOff) Unwrap() error { return b.error }

// records yields the records of one response and updates next and left. more is false when the
// caller has stopped.
func (c *Client) records(ctx context.Context, log Log, next, left *int64, yield func(Record, error) bool) (more bool, err error) {
	const most = 10000 // of one request
	for {
		query, ask := log.query(), int64(most)
		if *left > 0 {
			ask = min(ask, *left)
		}
		query.Set("from", strconv.FormatInt(*next, 10))
		query.Set("limit", strconv.FormatInt(ask, 10))
		body, err := c.open(ctx, request{
			method: http.MethodGet, route: "/v1/chain", query: query, status: http.StatusOK, header: http.Header{"Accept": {"application/x-ndjson"}},
		})
		if err != nil {
			return true, err
		}
		read := int64(0)
		err = eachLine(body, func(line []byte) error {
			var r Record
			if err := json.Unmarshal(line, &r); err != nil {
				return fmt.Errorf("record %d: %w", *next, err)
			}
			if r.Index != *next {
				return fmt.Errorf("record %d comes where %d is due", r.Index, *next)
			}
			*next, read = *next+1, read+1
			if !yield(r, nil) {
				more = false
				return errStop
			}
			return nil
		})
		body.Close()
		if errors.Is(err, errStop) {
			return false, nil
		}
		if *left > 0 {
			if *left -= read; *left == 0 {
				return true, nil
			}
		}
		if err != nil {
			return true, &brokenOff{int(read), err}
		}
		if read < ask {
			return true, nil
		}
	}
}

var errStop = errors.New("nobody wants more")

// eachLine calls yield for the lines of r. Each line must end with a line feed.
func eachLine(r io.Reader, yield func(line []byte) error) error {
	lines := linereader.New(r, maxAnswer)
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the answer ends early: %w", err)
		}
		if len(line) > 0 {
			if err := yield(line); err != nil {
				return err
			}
		}
	}
}

// Verdict is the service's verdict on a whole chain. An invalid chain is not an error of the call.
type Verdict struct {
	Valid         bool   `json:"valid"`
	MerkleRoot    string `json:"merkleRoot,omitempty"`
	FailedAtIndex int64  `json:"failedAtIndex,omitempty"`
	Error         string `json:"error,omitempty"`
}

// VerifyChain makes the service verify a chain from disk.
func (c *Client) VerifyChain(ctx context.Context, l Log) (v Verdict, err error) {
	err = c.get(ctx, "/v1/verify", l.query(), &v)
	return v, err
}

// ProofNode is a sibling on the path from a record to the root.
type ProofNode struct {
	Sibling  string `json:"sibling"`
	Position string `json:"position"` // left or right
}

// Proof is a record with its inclusion proof.
type Proof struct {
	Record Record      `json:"record"`
	Proof  []ProofNode `json:"proof"` // from the leaf upward
	Root   string      `json:"root"`
}

// Proof returns the inclusion proof of a record.
func (c *Client) Proof(ctx context.Context, l Log, index int64) (p Proof, err error) {
	err = c.get(ctx, "/v1/proof/{index}", l.query(), &p, strconv.FormatInt(index, 10))
	return p, err
}

// Consistency proves that the first From records of a chain are a prefix of the first To.
type Consistency struct {
	From     int64    `json:"from"`
	To       int64    `json:"to"`
	FromRoot string   `json:"fromRoot"`
	ToRoot   string   `json:"toRoot"`
	Proof    []string `json:"proof"`
}

// Consistency returns the consistency proof between two lengths.
func (c *Client) Consistency(ctx context.Context, l Log, from, to int64) (p Consistency, err error) {
	query := l.query()
	query.Set("from", strconv.FormatInt(from, 10))
	query.Set("to", strconv.FormatInt(to, 10))
	err = c.get(ctx, "/v1/consistency", query, &p)
	return p, err
}

// Authority returns the control log's records about the authorization of an action at its time, and
// about a passport unless jti is "". The API reference specifies the format.
func (c *Client) Authority(ctx context.Context, index int64, jti string) (json.RawMessage, error) {
	var text []byte
	query := url.Values{}
	if jti != "" {
		query.Set("jti", jti)
	}
	err := c.get(ctx, "/v1/authority/{index}", query, &text, strconv.FormatInt(index, 10))
	return text, err
}

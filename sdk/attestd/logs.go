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
	"time"

	"attestd/chain"
	"attestd/internal/linereader"
)

// LogInfo describes a log for standard tools.
type LogInfo struct {
	Log        Log      `json:"log"`
	LogID      string   `json:"logId"`
	Origin     string   `json:"origin"`
	VKeys      []string `json:"vkeys"` // the current one first
	Size       int64    `json:"size"`
	MerkleRoot string   `json:"merkleRoot"` // of the tree of chain
	Root       string   `json:"root"`       // of the tree of RFC 6962
}

// Logs lists the company's logs.
func (c *Client) Logs(ctx context.Context) ([]LogInfo, error) {
	var answer struct{ Logs []LogInfo }
	err := c.get(ctx, "/v1/logs", nil, &answer)
	return answer.Logs, err
}

// Checkpoint returns the newest signed checkpoint of a log (c2sp.org/tlog-checkpoint).
func (c *Client) Checkpoint(ctx context.Context, logID string) (text []byte, err error) {
	err = c.get(ctx, "/v1/log/{logId}/checkpoint", nil, &text, logID)
	return text, err
}

// Tile returns a tile or an entry bundle by its path without "tile/" (c2sp.org/tlog-tiles):
// 0/000.p/2.
func (c *Client) Tile(ctx context.Context, logID, path string) (data []byte, err error) {
	err = c.get(ctx, "/v1/log/{logId}/tile/{path}", nil, &data, logID, path)
	return data, err
}

// LogProof returns the inclusion proof of a record, with the checkpoint (c2sp.org/tlog-proof).
func (c *Client) LogProof(ctx context.Context, logID string, index int64) (text []byte, err error) {
	err = c.get(ctx, "/v1/log/{logId}/proof/{index}", nil, &text, logID, strconv.FormatInt(index, 10))
	return text, err
}

// LogConsistency returns the newest checkpoint of a log, and its consistency proof from the first
// from records.
func (c *Client) LogConsistency(ctx context.Context, logID string, from int64) (text []byte, err error) {
	err = c.get(ctx, "/v1/log/{logId}/consistency", url.Values{"from": {strconv.FormatInt(from, 10)}}, &text, logID)
	return text, err
}

// Witness describes a service as a witness.
type Witness struct {
	Name string `json:"name"`
	VKey string `json:"vkey"`
}

// Witness returns the name and key of the service as a witness.
func (c *Client) Witness(ctx context.Context) (w Witness, err error) {
	err = c.get(ctx, "/v1/witness", nil, &w)
	return w, err
}

// AddCheckpoint requests a cosignature from the service as a witness. c2sp.org/tlog-witness
// specifies the body.
func (c *Client) AddCheckpoint(ctx context.Context, body []byte) (cosignature []byte, err error) {
	err = c.do(ctx, request{
		method: http.MethodPost, route: "/v1/witness/add-checkpoint", body: body, contentType: "text/plain", status: http.StatusOK,
	}, &cosignature)
	return cosignature, err
}

// CosignedCheckpoint returns the last checkpoint of another's log that the service has cosigned.
// originHash is the SHA-256 of the log's origin in hex.
func (c *Client) CosignedCheckpoint(ctx context.Context, originHash string) (text []byte, err error) {
	err = c.get(ctx, "/v1/witness/{originHash}/checkpoint", nil, &text, originHash)
	return text, err
}

// Log is one of a company's two chains.
type Log string

const (
	Actions Log = "actions" // what agents did; also ""
	Control Log = "control" // permission changes
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
			wait, retry := c.retry.wait(lost, err, true)
			if !retry || rest(ctx, wait) != nil {
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

var errStop = errors.New("the caller has stopped")

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

// Evidence returns the evidence file of a record, with a passport unless jti is "". CheckEvidence
// checks it, and so does `attestd check`.
func (c *Client) Evidence(ctx context.Context, l Log, index int64, jti string) (json.RawMessage, error) {
	query := l.query()
	if jti != "" {
		query.Set("jti", jti)
	}
	var text []byte
	err := c.get(ctx, "/v1/evidence/{index}", query, &text, strconv.FormatInt(index, 10))
	return text, err
}

// Report returns the report of a period: all records of both logs, as JSON lines for `attestd
// report`. A zero time means the beginning of the logs, or now. The caller MUST close it. A
// truncated report does not verify.
func (c *Client) Report(ctx context.Context, from, to time.Time) (io.ReadCloser, error) {
	query := url.Values{}
	if !from.IsZero() {
		query.Set("from", chain.FormatTime(from))
	}
	if !to.IsZero() {
		query.Set("to", chain.FormatTime(to))
	}
	return c.open(ctx, request{method: http.MethodGet, route: "/v1/report", query: query, status: http.StatusOK})
}

package witness

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"attestd/chain/tlog"
)

const (
	maxAnswer = 16 << 10 // bytes
	maxReason = 200      // bytes of what a witness says that stand in an error
	maxLatest = 5 * time.Second
)

// Prover gives the proof that the first from leaves of a log are a prefix of a tree of it.
type Prover func(ctx context.Context, from int64, to tlog.Tree) ([]tlog.Hash, error)

// Client asks one witness to cosign the checkpoints of logs. It remembers which size the witness
// cosigned last of each. It is safe for concurrent use; of one log, checkpoints should be asked for
// one after the other.
type Client struct {
	url  string // submission prefix
	key  tlog.VKey
	http *http.Client

	mu    sync.Mutex
	sizes map[string]int64 // by origin
}

// AheadError says that a witness claims to have cosigned a larger tree than the one that it was
// asked for. Nobody has signed that: it is a question, and what Latest returns may answer it.
type AheadError struct {
	Witness, Origin string
	Known, Asked    int64 // sizes
}

func (e *AheadError) Error() string {
	return fmt.Sprintf("witness %s has cosigned size %d of log %s, and was asked for size %d", e.Witness, e.Known, e.Origin, e.Asked)
}

// ErrCosignature says that a witness answered with what is no cosignature of its own over what it
// was asked for.
var ErrCosignature = errors.New("no cosignature of the witness's key")

// StatusError is an answer that is neither a cosignature nor a size.
type StatusError struct {
	Witness string
	Status  int
	Reason  string // the beginning of what the witness says
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("witness %s answers %d %q", e.Witness, e.Status, e.Reason)
}

// NewClient returns the client of the witness with a key, a cosigner's, at a submission prefix. The
// prefix must be of https, unless it is one of this machine: who could change its answers could
// keep them from being asked for, and hide what it shows.
func NewClient(prefix string, key tlog.VKey) (*Client, error) {
	u, err := url.Parse(prefix)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the URL of a witness must look like https://witness.example.com/prefix, not %q", prefix)
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, fmt.Errorf("the URL of a witness elsewhere must be of https, not %q", prefix)
	case key.Type != tlog.TypeCosignature:
		return nil, fmt.Errorf("the key of witness %q is no cosigner's", key.Name)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // so that the bound of an answer is one of what comes in
	transport.MaxResponseHeaderBytes = maxAnswer
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{
		url: strings.TrimRight(prefix, "/"), key: key, sizes: make(map[string]int64),
		http: &http.Client{Transport: transport, CheckRedirect: noRedirect},
	}, nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// Key is the witness's verifier key.
func (c *Client) Key() tlog.VKey { return c.key }

// Close closes connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Cosign asks for a cosignature over a checkpoint that the log has signed, of which nothing but the
// log's own signatures is sent. Where the witness knows another size than was thought, it is asked
// once more from that. The cosignature has been verified. Errors are an *AheadError, a
// *StatusError, that of prove or one of the network.
func (c *Client) Cosign(ctx context.Context, signed []byte, prove Prover) (tlog.Cosignature, error) {
	checkpoint, own, err := ownSignatures(signed)
	if err != nil {
		return tlog.Cosignature{}, err
	}
	old := min(c.size(checkpoint.Origin), checkpoint.Size)
	for range 2 {
		proof, err := prove(ctx, old, checkpoint.Tree)
		if err != nil {
			return tlog.Cosignature{}, err
		}
		status, answer, err := c.post(ctx, Request{old, proof, own}.Format())
		if err != nil {
			return tlog.Cosignature{}, fmt.Errorf("witness %s: %w", c.key.Name, err)
		}
		switch status {
		case http.StatusOK:
			return c.accept(checkpoint, answer)
		case http.StatusConflict:
			known, ok := parseSize(strings.TrimSpace(string(answer)))
			if !ok {
				return tlog.Cosignature{}, c.unexpected(status, answer)
			}
			c.setSize(checkpoint.Origin, known)
			if known > checkpoint.Size {
				return tlog.Cosignature{}, &AheadError{c.key.Name, checkpoint.Origin, known, checkpoint.Size}
			}
			old = known
		default:
			return tlog.Cosignature{}, c.unexpected(status, answer)
		}
	}
	return tlog.Cosignature{}, c.unexpected(http.StatusConflict, fmt.Appendf(nil, "%d, twice", old))
}

// ownSignatures takes from a checkpoint what others have signed.
func ownSignatures(signed []byte) (tlog.Checkpoint, []byte, error) {
	checkpoint, n, err := tlog.ParseSignedCheckpoint(signed)
	if err != nil {
		return tlog.Checkpoint{}, nil, err
	}
	n.UnverifiedSigs = slices.DeleteFunc(n.UnverifiedSigs, func(s note.Signature) bool { return s.Name != checkpoint.Origin })
	own, err := note.Sign(n)
	return checkpoint, own, err
}

// accept takes the cosignature from an answer.
func (c *Client) accept(checkpoint tlog.Checkpoint, answer []byte) (tlog.Cosignature, error) {
	list, err := checkpoint.ParseCosignatures(answer, c.key)
	if len(list) == 0 {
		return tlog.Cosignature{}, fmt.Errorf("witness %s: %w", c.key.Name, errors.Join(ErrCosignature, err))
	}
	if list = slices.DeleteFunc(list, func(s tlog.Cosignature) bool { return s.Time > time.Now().Add(MaxAhead).Unix() }); len(list) == 0 {
		return tlog.Cosignature{}, fmt.Errorf("witness %s: its cosignature is dated more than %v ahead of the clock of this machine", c.key.Name, MaxAhead)
	}
	c.setSize(checkpoint.Origin, checkpoint.Size)
	return slices.MaxFunc(list, func(a, b tlog.Cosignature) int { return cmp.Compare(a.Time, b.Time) }), nil
}

// MaxAhead is how far the date of a cosignature may be ahead of our clock. One that is further
// ahead says nothing of when the checkpoint was seen, and is not kept.
const MaxAhead = 10 * time.Minute

// Latest returns the checkpoint that the witness shows as the last that it cosigned of a log: at
// most 16 KiB, in at most 5 seconds, over no redirect. Nothing of it was verified. A witness may
// have none to show; an answer but 200 is a *StatusError.
func (c *Client) Latest(ctx context.Context, origin string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxLatest)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/%x/checkpoint", c.url, sha256.Sum256([]byte(origin))), nil)
	if err != nil {
		return nil, err
	}
	status, answer, err := c.do(r)
	if err != nil {
		return nil, fmt.Errorf("witness %s: %w", c.key.Name, err)
	}
	if status != http.StatusOK {
		return nil, c.unexpected(status, answer)
	}
	return answer, nil
}

// post sends a request and returns the answer.
func (c *Client) post(ctx context.Context, body []byte) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/add-checkpoint", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", plainText)
	return c.do(r)
}

// do sends a request and returns the answer, which is read to a bound.
func (c *Client) do(r *http.Request) (status int, answer []byte, err error) {
	response, err := c.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		err = fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	return response.StatusCode, answer, err
}

func (c *Client) unexpected(status int, answer []byte) *StatusError {
	return &StatusError{c.key.Name, status, string(answer[:min(len(answer), maxReason)])}
}

func (c *Client) size(origin string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sizes[origin]
}

func (c *Client) setSize(origin string, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes[origin] = size
}

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
	maxAnswer     = 16 << 10 // bytes of a response
	maxReason     = 200      // bytes of a response that an error quotes
	latestTimeout = 5 * time.Second
)

// Prover returns the consistency proof that the first from leaves of a log are a prefix of its tree
// to.
type Prover func(ctx context.Context, from int64, to tlog.Tree) ([]tlog.Hash, error)

// Client requests cosignatures of one witness. It remembers the size that the witness cosigned last
// of each log. It is safe for concurrent use, but callers should request cosignatures for one log
// one after the other.
type Client struct {
	url  string // submission prefix
	key  tlog.VKey
	http *http.Client

	mu    sync.Mutex
	sizes map[string]int64 // by origin
}

// AheadError says that a witness claims to have cosigned a larger tree of the log than the
// requested one. The claim is not signed. What [Client.Latest] returns may prove it.
type AheadError struct {
	Witness, Origin string
	Known, Asked    int64 // sizes: claimed by the witness, and requested
}

func (e *AheadError) Error() string {
	return fmt.Sprintf("witness %s claims to have cosigned size %d of log %s, beyond the requested size %d", e.Witness, e.Known, e.Origin, e.Asked)
}

// ErrCosignature says that a response has no valid cosignature by the witness's key over the
// requested checkpoint.
var ErrCosignature = errors.New("no valid cosignature by the witness's key")

// StatusError is a response that is neither a cosignature nor a size.
type StatusError struct {
	Witness string
	Status  int    // of HTTP
	Reason  string // the first bytes of the body
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("witness %s answered %d: %q", e.Witness, e.Status, e.Reason)
}

// NewClient returns a client of the witness with a key, of type Cosignature, at a submission
// prefix. The prefix MUST be an https URL unless its host is loopback: anyone who can change a
// witness's responses can prevent cosignatures and hide what the witness shows.
func NewClient(prefix string, key tlog.VKey) (*Client, error) {
	u, err := url.Parse(prefix)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the URL of a witness must look like https://witness.example.com/prefix, not %q", prefix)
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, fmt.Errorf("the URL of a witness on another machine must use https, not %q", prefix)
	case key.Type != tlog.TypeCosignature:
		return nil, fmt.Errorf("the key of %q is not the key of a witness", key.Name)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // so that maxAnswer bounds the received bytes
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

// Key returns the witness's verifier key.
func (c *Client) Key() tlog.VKey { return c.key }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Cosign requests a cosignature on a signed checkpoint, and verifies it. It sends only the log's
// own signatures. When the witness cosigned another size last than the Client remembers, Cosign
// tries once more from that size. Errors are an *AheadError, a *StatusError, errors that wrap
// ErrCosignature, those of prove, and those of the network.
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

// ownSignatures removes the signatures of others from a checkpoint.
func ownSignatures(signed []byte) (tlog.Checkpoint, []byte, error) {
	checkpoint, n, err := tlog.ParseSignedCheckpoint(signed)
	if err != nil {
		return tlog.Checkpoint{}, nil, err
	}
	n.UnverifiedSigs = slices.DeleteFunc(n.UnverifiedSigs, func(s note.Signature) bool { return s.Name != checkpoint.Origin })
	own, err := note.Sign(n)
	return checkpoint, own, err
}

// accept returns the newest cosignature of a response.
func (c *Client) accept(checkpoint tlog.Checkpoint, answer []byte) (tlog.Cosignature, error) {
	list, err := checkpoint.ParseCosignatures(answer, c.key)
	if len(list) == 0 {
		return tlog.Cosignature{}, fmt.Errorf("witness %s: %w", c.key.Name, errors.Join(ErrCosignature, err))
	}
	limit := time.Now().Add(MaxAhead).Unix()
	list = slices.DeleteFunc(list, func(s tlog.Cosignature) bool { return s.Time > limit })
	if len(list) == 0 {
		return tlog.Cosignature{}, fmt.Errorf("witness %s: its cosignature is dated more than %v ahead of the clock of this machine", c.key.Name, MaxAhead)
	}
	c.setSize(checkpoint.Origin, checkpoint.Size)
	return slices.MaxFunc(list, func(a, b tlog.Cosignature) int { return cmp.Compare(a.Time, b.Time) }), nil
}

// MaxAhead is how far the date of a cosignature may be ahead of our clock. A cosignature further
// ahead does not say when the witness saw the checkpoint, and is an error.
const MaxAhead = 10 * time.Minute

// Latest returns the checkpoint that the witness shows as the last that it cosigned of a log. It
// reads at most 16 KiB, waits at most 5 seconds and follows no redirect. It verifies nothing. A
// witness may show none: a status other than 200 is a *StatusError.
func (c *Client) Latest(ctx context.Context, origin string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, latestTimeout)
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

// post sends an add-checkpoint request.
func (c *Client) post(ctx context.Context, body []byte) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/add-checkpoint", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", plainText)
	return c.do(r)
}

// do sends a request and returns status and body. A body of more than maxAnswer bytes is an error.
func (c *Client) do(r *http.Request) (status int, answer []byte, err error) {
	response, err := c.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		err = fmt.Errorf("the response has more than %d bytes", maxAnswer)
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

package witness

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/mod/sumdb/note"

	"attestd/chain/tlog"
)

// State stores the last tree of each log that a Cosigner has cosigned.
type State interface {
	// Latest returns the tree of the log with this origin that was cosigned last. When none was, it
	// MUST return the tree without leaves.
	Latest(ctx context.Context, origin string) (tlog.Tree, error)

	// Advance replaces the latest tree by to, and stores the cosigned checkpoint, if the latest
	// tree is still from. It MUST be atomic, and durable when it returns true. When it returns
	// false, the latest tree is another one, and Advance MUST have changed nothing.
	Advance(ctx context.Context, origin string, from, to tlog.Tree, checkpoint []byte) (bool, error)
}

// Cosigner cosigns the checkpoints of the logs that it knows, one growing history for each log. It
// is safe for concurrent use.
type Cosigner struct {
	name    string
	private ed25519.PrivateKey
	logs    map[string][]tlog.VKey // by origin
	state   State
}

// NewCosigner returns a cosigner with a name and a private key. The key MUST be used for nothing
// else, because a cosignature does not sign the name. It returns an error when name is no valid key
// name.
func NewCosigner(name string, private ed25519.PrivateKey, logs []tlog.PolicyLog, state State) (*Cosigner, error) {
	c := &Cosigner{name: name, private: private, logs: make(map[string][]tlog.VKey), state: state}
	if _, err := tlog.ParseVKey(c.VKey().String()); err != nil {
		return nil, fmt.Errorf("witness name %q: %w", name, err)
	}
	for _, l := range logs {
		c.logs[l.Key.Name] = append(c.logs[l.Key.Name], l.Key)
	}
	return c, nil
}

// VKey returns the cosigner's verifier key.
func (c *Cosigner) VKey() tlog.VKey {
	return tlog.VKey{Name: c.name, Type: tlog.TypeCosignature, Public: c.private.Public().(ed25519.PublicKey)}
}

// Answer is the HTTP response to a request: a cosignature, or the reason why there is none.
type Answer struct {
	Status      int
	ContentType string
	Body        string
}

const plainText = "text/plain; charset=utf-8"

func refuse(status int, reason string) Answer { return Answer{status, plainText, reason} }

// conflict answers with the size that was cosigned last.
func conflict(size int64) Answer {
	return Answer{http.StatusConflict, "text/x.tlog.size", strconv.FormatInt(size, 10) + "\n"}
}

// AddCheckpoint answers the body of a request by the rules of the package comment, in their order.
// A cosignature is dated at. Errors are those of the state; no cosignature has left the Cosigner
// then.
func (c *Cosigner) AddCheckpoint(ctx context.Context, body []byte, at time.Time) (Answer, error) {
	r, err := ParseRequest(body)
	if err != nil {
		return refuse(http.StatusBadRequest, "Malformed request"), nil
	}
	checkpoint, _, err := tlog.ParseSignedExtendedCheckpoint(r.Checkpoint)
	if err != nil || checkpoint.Size > tlog.MaxSize {
		return refuse(http.StatusBadRequest, "Malformed checkpoint"), nil
	}
	keys, known := c.logs[checkpoint.Origin]
	if !known {
		return refuse(http.StatusNotFound, "Unknown origin"), nil
	}
	_, signed, err := tlog.OpenExtendedCheckpoint(r.Checkpoint, keys...)
	switch {
	case errors.Is(err, tlog.ErrSignature):
		return refuse(http.StatusForbidden, "No valid signature of a trusted key"), nil
	case err != nil:
		return Answer{}, err
	case r.Old > checkpoint.Size:
		return refuse(http.StatusBadRequest, "The old size is above that of the checkpoint"), nil
	}
	latest, err := c.state.Latest(ctx, checkpoint.Origin)
	switch {
	case err != nil:
		return Answer{}, err
	case r.Old != latest.Size:
		return conflict(latest.Size), nil
	case tlog.CheckConsistency(r.Proof, latest, checkpoint.Tree) != nil:
		return refuse(http.StatusUnprocessableEntity, "The checkpoint is not shown to follow from the one that was cosigned last"), nil
	}
	return c.cosign(ctx, checkpoint, signed.Sigs, latest, at)
}

// cosign cosigns a checkpoint, stores it with the log's verified signatures, and then answers.
func (c *Cosigner) cosign(ctx context.Context, checkpoint tlog.ExtendedCheckpoint, verified []note.Signature, latest tlog.Tree, at time.Time) (Answer, error) {
	cosignature, err := checkpoint.Cosign(c.name, c.private, at)
	if err != nil {
		return Answer{}, err
	}
	signed, err := note.Sign(&note.Note{Text: checkpoint.Text(), Sigs: verified})
	if err != nil {
		return Answer{}, err
	}
	advanced, err := c.state.Advance(ctx, checkpoint.Origin, latest, checkpoint.Tree, append(signed, cosignature.Line...))
	if err != nil {
		return Answer{}, err
	}
	if !advanced { // a concurrent request was first
		if latest, err = c.state.Latest(ctx, checkpoint.Origin); err != nil {
			return Answer{}, err
		}
		return conflict(latest.Size), nil
	}
	return Answer{http.StatusOK, plainText, cosignature.Line}, nil
}

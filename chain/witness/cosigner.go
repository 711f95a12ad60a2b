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

// State is what a Cosigner remembers: of each log the last tree that it cosigned.
type State interface {
	// Latest returns the last tree that was cosigned of the log with this origin; the one without
	// leaves when none was.
	Latest(ctx context.Context, origin string) (tlog.Tree, error)

	// Advance makes a tree the latest, with the checkpoint as it was cosigned, if the latest is
	// still from. It MUST be atomic, and durable when it returns true. False says that the latest
	// is another, and that nothing was changed.
	Advance(ctx context.Context, origin string, from, to tlog.Tree, checkpoint []byte) (bool, error)
}

// Cosigner signs the checkpoints of logs that it knows, for each log one history. It is safe for
// concurrent use.
type Cosigner struct {
	name    string
	private ed25519.PrivateKey
	logs    map[string][]tlog.VKey // by origin
	state   State
}

// NewCosigner returns the cosigner of a name with a key, which must be used for nothing else: a
// cosignature does not say whose it is.
func NewCosigner(name string, private ed25519.PrivateKey, logs []tlog.PolicyLog, state State) (*Cosigner, error) {
	c := &Cosigner{name: name, private: private, logs: make(map[string][]tlog.VKey), state: state}
	if _, err := tlog.ParseVKey(c.VKey().String()); err != nil {
		return nil, fmt.Errorf("name of a witness %q: %w", name, err)
	}
	for _, l := range logs {
		c.logs[l.Key.Name] = append(c.logs[l.Key.Name], l.Key)
	}
	return c, nil
}

// VKey is the cosigner's verifier key.
func (c *Cosigner) VKey() tlog.VKey {
	return tlog.VKey{Name: c.name, Type: tlog.TypeCosignature, Public: c.private.Public().(ed25519.PublicKey)}
}

// Answer is what is answered to a request: a cosignature, or why there is none.
type Answer struct {
	Status      int // of HTTP
	ContentType string
	Body        string
}

const plainText = "text/plain; charset=utf-8"

func refuse(status int, why string) Answer { return Answer{status, plainText, why} }

// conflict says which size was cosigned last.
func conflict(size int64) Answer {
	return Answer{http.StatusConflict, "text/x.tlog.size", strconv.FormatInt(size, 10) + "\n"}
}

// AddCheckpoint answers a request by the rules of the package comment, in their order. An error is
// one of the state: then nothing was signed that anyone has seen.
func (c *Cosigner) AddCheckpoint(ctx context.Context, body []byte, at time.Time) (Answer, error) {
	r, err := ParseRequest(body)
	if err != nil {
		return refuse(http.StatusBadRequest, "Malformed request"), nil
	}
	checkpoint, _, err := tlog.ParseSignedCheckpoint(r.Checkpoint)
	if err != nil || checkpoint.Size > tlog.MaxSize {
		return refuse(http.StatusBadRequest, "Malformed checkpoint"), nil
	}
	keys, known := c.logs[checkpoint.Origin]
	if !known {
		return refuse(http.StatusNotFound, "Unknown origin"), nil
	}
	_, signed, err := tlog.OpenCheckpoint(r.Checkpoint, keys...)
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

// cosign keeps and signs a checkpoint with the log's signatures that verified, and answers when it
// is kept.
func (c *Cosigner) cosign(ctx context.Context, checkpoint tlog.Checkpoint, own []note.Signature, latest tlog.Tree, at time.Time) (Answer, error) {
	cosignature, err := checkpoint.Cosign(c.name, c.private, at)
	if err != nil {
		return Answer{}, err
	}
	kept, err := note.Sign(&note.Note{Text: checkpoint.Text(), Sigs: own})
	if err != nil {
		return Answer{}, err
	}
	advanced, err := c.state.Advance(ctx, checkpoint.Origin, latest, checkpoint.Tree, append(kept, cosignature.Line...))
	if err != nil {
		return Answer{}, err
	}
	if !advanced { // another request came first
		if latest, err = c.state.Latest(ctx, checkpoint.Origin); err != nil {
			return Answer{}, err
		}
		return conflict(latest.Size), nil
	}
	return Answer{http.StatusOK, plainText, cosignature.Line}, nil
}

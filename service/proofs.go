package service

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"attestd/crypto/dpop"
	"attestd/store"
)

// Nonces are what DPoP proofs have to repeat (RFC 9449 §8 and §9), so that a proof cannot be made
// ahead of its time. A nonce is a number of a window and an HMAC of that, under a key that all
// servers of the database have; so it is remembered nowhere, and each server takes those of the
// others.
type Nonces struct {
	Store    *store.Store
	Required bool // of each proof with a token and at the token endpoint
}

// nonceWindow is how long a nonce is handed out. It is taken for one window more.
const nonceWindow = 2 * time.Minute

// NonceError is the refusal of a proof without a nonce that counts.
type NonceError struct {
	Nonce string // that the next proof has to repeat
}

func (e *NonceError) Error() string { return "DPoP proof needs the nonce of the header DPoP-Nonce" }

// Check requires the nonce of a proof, if nonces are required; *NonceError.
func (n *Nonces) Check(ctx context.Context, nonce string, now time.Time) error {
	if !n.Required {
		return nil
	}
	key, err := n.Store.Credentials.NonceKey(ctx)
	if err != nil {
		return err
	}
	window := windowOf(now)
	for _, w := range []int64{window, window - 1} {
		if hmac.Equal([]byte(nonce), []byte(makeNonce(key, w))) {
			return nil
		}
	}
	return &NonceError{makeNonce(key, window)}
}

// ErrNoName reports what is for us if it is for the name in the request, which may be another's.
var ErrNoName = errors.New("this service does not know the name in the request's Host as its own: set --base-url to its public address, or come by a loopback name or the address that it listens on")

// CheckProof is dpop.Check for a request to this service. The URL is "" where the request came
// under a name that is not known to be ours: then no proof counts, and the error is ErrNoName.
func CheckProof(text string, of dpop.Request, jkt string, now time.Time) (dpop.Proof, error) {
	if of.URL == "" {
		return dpop.Proof{}, ErrNoName
	}
	return dpop.Check(text, of, jkt, now)
}

// checkProof checks a DPoP proof that comes to the token endpoint, with its nonce. jkt is the key
// that it must be of, "" for any. The caller MUST use the proof up. The error joins
// ErrInvalidProof, or is a *NonceError.
func (n *Nonces) checkProof(ctx context.Context, text string, of dpop.Request, jkt string, now time.Time) (dpop.Proof, error) {
	proof, err := CheckProof(text, of, jkt, now)
	if err != nil {
		return proof, errors.Join(ErrInvalidProof, err)
	}
	return proof, n.Check(ctx, proof.Nonce, now)
}

// Current is the nonce for the next proof, or "" where none is required.
func (n *Nonces) Current(ctx context.Context, now time.Time) (string, error) {
	if !n.Required {
		return "", nil
	}
	key, err := n.Store.Credentials.NonceKey(ctx)
	if err != nil {
		return "", err
	}
	return makeNonce(key, windowOf(now)), nil
}

func windowOf(now time.Time) int64 { return now.Unix() / int64(nonceWindow/time.Second) }

func makeNonce(key []byte, window int64) string {
	number := binary.BigEndian.AppendUint64(nil, uint64(window))
	mac := hmac.New(sha256.New, key)
	mac.Write(number)
	return base64.RawURLEncoding.EncodeToString(append(number[4:], mac.Sum(nil)[:20]...))
}

// UsedProof names a DPoP proof for as long as it would be accepted.
func UsedProof(p *dpop.Proof) store.UsedProof {
	return store.UsedProof{
		Name: sha256.Sum256([]byte("DPoP\n" + p.Key.Thumbprint + "\n" + p.ID)),
		Ends: p.IssuedAt.Add(dpop.Window + time.Second),
	}
}

// ErrInvalidProof reports that a DPoP proof is invalid; the reason is its text.
var ErrInvalidProof = errors.New("invalid_dpop_proof")

var errProofUsed = errors.Join(ErrInvalidProof, errors.New("DPoP proof was used before: make one for each request"))

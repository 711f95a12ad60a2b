// Package witness has both sides of c2sp.org/tlog-witness: the [Cosigner], which cosigns the
// checkpoints of others' logs, and the [Client], which requests cosignatures on ours. It stores
// nothing itself, and it speaks HTTP only as a client.
//
// # Request
//
// A log sends its newest checkpoint to <submission prefix>/add-checkpoint:
//
//	old <size>\n
//	<base64(hash)>\n             for each hash of the consistency proof from that size, at most 63
//	\n
//	<checkpoint>                 signed by the log
//
// The text of a checkpoint may go on after the root, with at most 16 KiB of extension lines. They
// mean nothing to a witness. It cosigns and stores the text as it is.
//
// # Answer
//
// The first of these conditions that holds decides:
//
//	malformed                                                      400
//	the origin is unknown                                          404
//	no signature of a trusted key, or one that does not verify     403
//	old is above the checkpoint's size                             400
//	old is not the size that was cosigned last                     409, text/x.tlog.size, <that size>\n
//	size 0 with a root that is not the empty tree's; proof lines
//	with old 0; a proof that does not hold; the same size with
//	another root                                                   422
//	none of these                                                  200, the cosignature's line
//
// A 200 is sent only after the checkpoint was stored durably, by compare-and-swap with the one
// before it. So a witness never cosigns a smaller tree after a larger one, nor two roots of one
// size, even when its process is killed.
package witness

import (
	"bytes"
	"fmt"
	"strings"

	"attestd/chain/tlog"
)

const (
	maxProof = 63 // hashes of a consistency proof

	// MaxRequest bounds a request, in bytes. It leaves room for a checkpoint with 16 signatures, as
	// many as signed-note demands, of post-quantum length.
	MaxRequest = 132 << 10
)

// Request is an add-checkpoint request.
type Request struct {
	Old        int64       // the size that the witness cosigned last, in leaves
	Proof      []tlog.Hash // consistency proof from Old to the checkpoint's size
	Checkpoint []byte      // signed by the log
}

// Format returns the body of the request.
func (r Request) Format() []byte {
	b := fmt.Appendf(nil, "old %d\n", r.Old)
	for _, hash := range r.Proof {
		b = append(b, hash.String()+"\n"...)
	}
	return append(append(b, '\n'), r.Checkpoint...)
}

// ParseRequest parses the body of a request, without parsing its checkpoint. Errors wrap
// tlog.ErrMalformed.
func ParseRequest(body []byte) (Request, error) {
	malformed := fmt.Errorf("%w add-checkpoint request", tlog.ErrMalformed)
	head, checkpoint, ok := bytes.Cut(body, []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	if !ok || len(body) > MaxRequest || len(lines)-1 > maxProof {
		return Request{}, malformed
	}
	r := Request{Checkpoint: checkpoint}
	old, ok := strings.CutPrefix(lines[0], "old ")
	if !ok {
		return Request{}, malformed
	}
	if r.Old, ok = parseSize(old); !ok {
		return Request{}, malformed
	}
	for _, line := range lines[1:] {
		hash, ok := tlog.ParseHash(line)
		if !ok {
			return Request{}, malformed
		}
		r.Proof = append(r.Proof, hash)
	}
	return r, nil
}

// parseSize parses the size of a tree, at most tlog.MaxSize.
func parseSize(s string) (int64, bool) {
	size, ok := tlog.ParseDecimal(s)
	return size, ok && size <= tlog.MaxSize
}

package chain

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Verdict is the answer of a verification.
type Verdict struct {
	Valid    bool
	Length   int64  // records covered: all, or those before the failure
	Root     Hash   // when Valid
	FailedAt int64  // when not Valid: first failing index
	Reason   string // when not Valid
}

// maxVerified bounds the chains of which a Verifier remembers something, about 120 bytes each.
const maxVerified = 1 << 15

// Verifier is the only code that verifies chains. It is safe for concurrent use.
//
// It remembers of each chain how many records it has verified, under which key, and one SHA-256 over all that it read of them.
// When it reads the same bytes again their signatures need no second check; the rows are read and the tree is built anew all the same.
type Verifier struct {
	reader  Reader
	workers int

	mu       sync.Mutex
	verified map[int64]prefix
}

// prefix is the part of a chain that has been verified.
type prefix struct {
	key    [ed25519.PublicKeySize]byte
	length int64
	digest Hash // over the frames of the records, see block.add
}

// NewVerifier returns a verifier over r that checks signatures on `workers` goroutines for each call of Verify.
func NewVerifier(r Reader, workers int) *Verifier {
	return &Verifier{reader: r, workers: max(1, workers), verified: make(map[int64]prefix)}
}

// Verify recomputes everything of a chain from what is on disk: that indices have no gap and timestamps never go back, the
// hash and signature of each record, each stored node, and the head. It covers the records that the head of one moment
// covers; those appended meanwhile are for the next call. FailedAt is the first index at which something is wrong: of a
// wrong node the last record below it, of a record cut off the end the first missing one, of a record that no head covers
// its own, of a wrong root the last record.
//
// An error says that the chain could not be read, never that it is not valid; when ctx ends it is ctx.Err().
// progress, if not nil, is called now and then, by the goroutine that called Verify. Memory does not grow with the chain.
func (v *Verifier) Verify(ctx context.Context, chain int64, key ed25519.PublicKey, progress func(done, total int64)) (Verdict, error) {
	p := pass{effort: foreground(v.workers), progress: progress, mark: -1}
	return v.verify(ctx, chain, key, &p)
}

// verifyInBackground is Verify on no more than one core, giving way to appends, of which it asks the number so far. It also returns the tree of the records before
// mark, when the chain is valid and has as many.
func (v *Verifier) verifyInBackground(ctx context.Context, chain int64, key ed25519.PublicKey, mark int64, appends func() int64) (Verdict, tree, error) {
	p := pass{effort: background(appends), mark: mark}
	verdict, err := v.verify(ctx, chain, key, &p)
	return verdict, p.marked, err
}

func (v *Verifier) verify(ctx context.Context, chain int64, key ed25519.PublicKey, p *pass) (Verdict, error) {
	if len(key) != ed25519.PublicKeySize {
		return Verdict{}, fmt.Errorf("chain: public key of %d bytes", len(key))
	}
	head, next, err := v.reader.Tip(ctx, chain)
	if err != nil {
		return Verdict{}, fmt.Errorf("chain: head of chain %d: %w", chain, err)
	}
	p.reader, p.chain, p.key, p.total = v.reader, chain, key, max(0, min(head.Length, next))
	err = v.readAll(ctx, p)
	if err == nil {
		err = p.compareHead(head, next)
	}
	var wrong *failure
	if err != nil && !errors.As(err, &wrong) {
		if ctx.Err() != nil {
			return Verdict{}, ctx.Err()
		}
		return Verdict{}, fmt.Errorf("chain: reading chain %d: %w", chain, err)
	}
	v.remember(chain, prefix{[ed25519.PublicKeySize]byte(key), p.tree.length, p.digestSoFar()})
	if wrong != nil {
		return Verdict{Length: min(p.tree.length, wrong.index), FailedAt: wrong.index, Reason: wrong.reason}, nil
	}
	return Verdict{Valid: true, Length: p.tree.length, Root: p.tree.root()}, nil
}

// readAll brings p to its total. What this verifier has verified before is first read without checks; only if that gives other
// bytes than it gave then, or anything looks wrong in it, it is checked in full from the start.
func (v *Verifier) readAll(ctx context.Context, p *pass) error {
	p.reset()
	if known, ok := v.recall(p.chain); ok && known.key == [ed25519.PublicKeySize]byte(p.key) && known.length <= p.total {
		err := p.readTo(ctx, known.length, false)
		var wrong *failure
		if err != nil && !errors.As(err, &wrong) {
			return err
		}
		if wrong != nil || p.digestSoFar() != known.digest {
			p.reset()
		}
	}
	return p.readTo(ctx, p.total, true)
}

// compareHead checks what is not about a single record: that the head covers all records and only them, and says of them what they say.
func (p *pass) compareHead(head Head, next int64) error {
	switch {
	case head.Length < 0:
		return &failure{0, "the stored length is negative"}
	case next < head.Length:
		return &failure{next, fmt.Sprintf("record %d is missing: the stored head covers %d records", next, head.Length)}
	case next > head.Length:
		return &failure{head.Length, fmt.Sprintf("record %d stands beyond the stored head, which covers %d records", head.Length, head.Length)}
	}
	last := max(0, head.Length-1)
	switch {
	case p.tree.root() != head.Root:
		return &failure{last, "the stored root is not the root of the records"}
	case !slices.Equal(p.tree.frontier, head.Frontier):
		return &failure{last, "the stored frontier is not that of the records"}
	case p.timestamp != head.Timestamp:
		return &failure{last, "the stored head has not the time of the last record"}
	}
	return nil
}

func (v *Verifier) recall(chain int64) (prefix, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known, ok := v.verified[chain]
	return known, ok
}

func (v *Verifier) remember(chain int64, known prefix) {
	v.mu.Lock()
	defer v.mu.Unlock()
	keep(v.verified, maxVerified, chain, known)
}

package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/store"
)

// checkpointEvery is how often a log's checkpoint is signed at most, however many ask.
const checkpointEvery = time.Second

// Checkpoints signs the checkpoints of logs when somebody asks for them, and only after a log has
// grown. A checkpoint is stored before it is given out: what was published once is known for ever,
// whatever becomes of the process.
type Checkpoints struct {
	store *store.Store
	turns [64]sync.Mutex // by company: one signs, the others take what it has signed

	mu sync.Mutex
	// when each chain's was signed last; those of more than checkpointEvery ago are dropped, which
	// bounds it
	signed map[int64]time.Time
}

func NewCheckpoints(s *store.Store) *Checkpoints {
	return &Checkpoints{store: s, signed: make(map[int64]time.Time)}
}

// Newest returns the checkpoint of the tree as it is, or one that was signed less than
// checkpointEvery ago.
func (p *Checkpoints) Newest(ctx context.Context, by store.Caller, l store.Log) ([]byte, error) {
	return p.Covering(ctx, by, l, -1)
}

// Compared is Newest after the log was compared with all stored checkpoints of it.
func (p *Checkpoints) Compared(ctx context.Context, by store.Caller, l store.Log) ([]byte, error) {
	if err := p.store.Checkpoints.Agree(ctx, l.Chain); err != nil {
		return nil, err
	}
	return p.Newest(ctx, by, l)
}

// Covering is Newest, but signs again, however short ago it has, for a record that the last
// checkpoint does not cover: a reader who has seen a record may have its proof.
func (p *Checkpoints) Covering(ctx context.Context, by store.Caller, l store.Log, index int64) ([]byte, error) {
	turn := &p.turns[by.Company.Chain%int64(len(p.turns))]
	turn.Lock()
	defer turn.Unlock()
	// its key may have ended since the caller was looked up
	c, err := p.store.Companies.OfChain(ctx, by.Company.Chain)
	if err != nil {
		return nil, err
	}
	// The head is read from what was committed, so that nothing is signed that may still be undone.
	head, _, err := p.store.Tip(ctx, l.Chain)
	if err != nil {
		return nil, err
	}
	size, stored, err := p.store.Checkpoint(ctx, l.ID)
	if err != nil {
		return nil, err
	}
	tree := tlog.Tree{Size: head.Length, Root: head.LogRoot}
	covered := index < size || index >= head.Length // a record that there is not yet is no reason
	isNewest := strings.HasPrefix(stored, tlog.Checkpoint{Origin: l.Origin, Tree: tree}.Text()+"\n")
	if stored != "" && (isNewest || size < head.Length && covered && p.recent(l.Chain, by.At)) && SignedBy(stored, l.VKey(c.Issuer.Public.Key)) {
		return []byte(stored), nil
	}
	// that the log went back is found before anything else is signed, unless it was accepted
	if stored != "" && size >= head.Length && !isNewest {
		if err := p.store.Checkpoints.Agree(ctx, l.Chain); err != nil {
			return nil, err
		}
		stored = ""
	}
	// A cached company may have had another key when the head was written: both are read at one
	// moment, so that no key signs a tree with records of the next one.
	err = p.store.Snapshot(ctx, func(v *store.View) error {
		if c, err = v.CompanyNow(ctx, by.Company.Chain); err == nil {
			head, _, err = v.Tip(ctx, l.Chain)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	note, err := c.SignCheckpoint(l, tlog.Tree{Size: head.Length, Root: head.LogRoot})
	if err != nil {
		return nil, err
	}
	if err := p.store.Checkpoints.Keep(ctx, l.ID, head.Length, string(note)); err != nil {
		// A disk that takes no more is no reason to hide what was published: it stays true when its
		// key has ended, unless that was stolen.
		if trusted, _ := VKeys(ctx, p.store, l); stored != "" && index < size && SignedBy(stored, trusted...) {
			return []byte(stored), nil
		}
		return nil, err
	}
	p.setSigned(l.Chain, by.At)
	return note, nil
}

// NewestAfter returns the newest checkpoint of a log, with a proof that its tree of the first from
// records is a prefix of it, in the format of a request to a witness.
func (p *Checkpoints) NewestAfter(ctx context.Context, by store.Caller, l store.Log, from int64) ([]byte, error) {
	note, err := p.Covering(ctx, by, l, from-1)
	if err == nil {
		note, err = p.WithCosignatures(ctx, l.ID, note)
	}
	if err != nil {
		return nil, err
	}
	checkpoint, _, err := tlog.ParseSignedCheckpoint(note)
	if err != nil {
		return nil, err
	}
	proof, err := tlog.ProveConsistency(ctx, p.store.LogTree(l), from, checkpoint.Tree)
	if err != nil {
		return nil, err
	}
	return witness.Request{Old: from, Proof: proof, Checkpoint: note}.Format(), nil
}

// WithCosignatures appends the witnesses' cosignatures to a checkpoint of one of our logs.
func (p *Checkpoints) WithCosignatures(ctx context.Context, logID string, note []byte) ([]byte, error) {
	checkpoint, _, err := tlog.ParseSignedCheckpoint(note)
	if err != nil {
		return nil, err
	}
	lines, _, err := p.store.Cosignatures(ctx, logID, checkpoint.Size)
	return append(note, lines...), err
}

// Witnessed returns the best checkpoint for proving a record: the newest with its cosignatures. If
// it has none, it is the newest cosigned one, if that covers the record and is signed with a
// trusted key.
func (p *Checkpoints) Witnessed(ctx context.Context, l store.Log, index int64, newest []byte) ([]byte, error) {
	note, err := p.WithCosignatures(ctx, l.ID, newest)
	if err != nil || len(note) > len(newest) {
		return note, err
	}
	older, err := p.store.CosignedCheckpoint(ctx, l.ID, index)
	if errors.Is(err, store.ErrNotFound) {
		return newest, nil
	}
	if err != nil {
		return nil, err
	}
	trusted, err := VKeys(ctx, p.store, l)
	if err != nil || !SignedBy(older, trusted...) {
		return newest, err
	}
	return p.WithCosignatures(ctx, l.ID, []byte(older))
}

// VKeys are the keys whose checkpoints of a log are to be trusted: the one that signs first, then
// those before it that were not declared compromised.
func VKeys(ctx context.Context, s *store.Store, l store.Log) (trusted []tlog.VKey, err error) {
	_, ring, err := s.KeyRing(ctx, l.Chain)
	for _, k := range slices.Backward(ring) {
		if k.CompromisedAt == "" {
			trusted = append(trusted, l.VKey(k.Public))
		}
	}
	return trusted, err
}

// SignedBy says whether a stored checkpoint is signed with one of some keys.
func SignedBy(stored string, keys ...tlog.VKey) bool {
	_, signed, err := tlog.ParseSignedCheckpoint([]byte(stored))
	return err == nil && slices.ContainsFunc(signed.UnverifiedSigs, func(s note.Signature) bool {
		return slices.ContainsFunc(keys, func(k tlog.VKey) bool { return s.Name == k.Name && s.Hash == k.ID() })
	})
}

func (p *Checkpoints) recent(number int64, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.signed[number]
	age := now.Sub(at)
	return ok && age >= 0 && age < checkpointEvery
}

func (p *Checkpoints) setSigned(number int64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signed[number] = now
	for other, at := range p.signed {
		if now.Sub(at) >= checkpointEvery {
			delete(p.signed, other)
		}
	}
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/store/db"
	"attestd/store/headfile"
	"attestd/store/ledger"
)

// Checkpoints are the signed checkpoints of this database's logs, with the answers of witnesses
// about them.
type Checkpoints struct {
	db   *base
	view *View
	head *headState
}

// KeptCheckpoint is a stored checkpoint that one of our logs has signed.
type KeptCheckpoint struct {
	// vkey of the witness that has cosigned or shown it; "" for the last published one
	Witness string
	Note    string // with our signatures
	Tree    tlog.Tree

	row string // column witness of the table cosignature; "" for the published checkpoint
}

// shownBy is the prefix of the vkey in the row of a checkpoint that a witness has shown. That row
// is separate from the row of its cosignature.
const shownBy = "shown by "

// errNotOurs means that no key of the log has signed a checkpoint, so it proves nothing.
var errNotOurs = errors.New("it does not bear the log's signature")

// Agree compares the log of a chain with its stored checkpoints: the last published one, and those
// that witnesses have cosigned or shown. If the log is shorter than one of them, or has a different
// root at its size, the company is halted with a *RolledBackError until an operator accepts that.
// Agree reads a few hundred hashes for each checkpoint of a size other than the log's.
func (s Checkpoints) Agree(ctx context.Context, number int64) error {
	if err := s.db.haltedChain(number); err != nil {
		return err
	}
	b, err := s.behindKept(ctx, number)
	if err != nil || b == nil {
		return err
	}
	return s.db.halt(*b)
}

// verify turns the verdict on a valid log into a failure if the log is behind one of its stored
// checkpoints; see Checkpoints.Agree. FailedAt is the first missing record, or the last one that
// the checkpoint covers. The company is not halted.
func (s Checkpoints) verify(ctx context.Context, number int64, v *chain.Verdict) error {
	b, err := s.behindKept(ctx, number)
	if err != nil || b == nil {
		return err
	}
	v.Valid, v.FailedAt = false, min(b.Known.Size-1, b.Found.Size)
	v.Reason = fmt.Sprintf("log %x %s", b.Known.LogID, b.Why)
	if name, _, _ := strings.Cut(b.Kept.Witness, "+"); name != "" {
		v.Reason += "; the witness is " + name
	}
	return nil
}

// behindKept describes the first stored checkpoint that a log is not an extension of, or returns
// nil.
func (s Checkpoints) behindKept(ctx context.Context, number int64) (*Behind, error) {
	l := db.Log{Chain: number}
	if err := s.db.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&l.Name, &l.ID, &l.Origin}, `SELECT name, log_id, origin FROM log WHERE chain = ?`, number)
	}); err != nil {
		return nil, fmt.Errorf("log of chain %d: %w", number, err)
	}
	kept, err := s.kept(ctx, l)
	if err != nil {
		return nil, err
	}
	compared := map[string]bool{} // witnesses often have the same checkpoint
	for _, k := range kept {
		if compared[k.Note] {
			continue
		}
		compared[k.Note] = true
		if b, err := s.compare(ctx, l, k); err != nil || b != nil {
			return b, err
		}
	}
	return nil, nil
}

// kept returns the stored checkpoints of a log.
func (s Checkpoints) kept(ctx context.Context, l db.Log) (kept []KeptCheckpoint, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		return r.Each(func(rows *sql.Rows) error {
			var k KeptCheckpoint
			err := rows.Scan(&k.row, &k.Note)
			k.Witness = strings.TrimPrefix(k.row, shownBy)
			kept = append(kept, k)
			return err
		}, `SELECT '', note FROM checkpoint WHERE log_id = ?1 UNION ALL SELECT witness, note FROM cosignature
			WHERE log_id = ?1`, l.ID)
	})
	if err != nil {
		return nil, fmt.Errorf("checkpoints of log %s: %w", l.ID, err)
	}
	return kept, nil
}

// compare describes in what a log is behind a stored checkpoint. It returns nil if the log is not
// behind, if an operator has accepted it, or if the log has not signed the checkpoint, which then
// proves nothing. Signatures of keys that have ended count, even of compromised ones.
func (s Checkpoints) compare(ctx context.Context, l db.Log, k KeptCheckpoint) (*Behind, error) {
	// read after the checkpoint: the log had that size before it signed
	head, _, err := s.db.now.Tip(ctx, l.Chain)
	if err != nil {
		return nil, err
	}
	tree := tlog.Tree{Size: head.Length, Root: head.LogRoot}
	if strings.HasPrefix(k.Note, tlog.Checkpoint{Origin: l.Origin, Tree: tree}.Text()+"\n") {
		return nil, nil
	}
	opened, err := s.openOwn(ctx, l, k.Note, true)
	if errors.Is(err, errNotOurs) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	opened.Witness, opened.row = k.Witness, k.row
	why, err := s.whyBehind(ctx, l, tree, opened)
	if err != nil || why == "" {
		return nil, err
	}
	if accepted, err := s.isGivenUp(ctx, l, opened); err != nil || accepted {
		return nil, err
	}
	return s.behind(ctx, l, head, opened, why)
}

// openOwn parses a checkpoint that one of the log's keys must have signed, and drops the signatures
// of others. It returns errNotOurs otherwise. Compromised keys are accepted only if compromised is
// true.
func (s Checkpoints) openOwn(ctx context.Context, l db.Log, signed string, compromised bool) (KeptCheckpoint, error) {
	_, ring, err := s.view.KeyRing(ctx, l.Chain)
	if err != nil {
		return KeptCheckpoint{}, err
	}
	var keys []tlog.VKey
	for _, k := range ring {
		if compromised || k.CompromisedAt == "" {
			keys = append(keys, l.VKey(k.Public))
		}
	}
	c, n, err := tlog.OpenCheckpoint([]byte(signed), keys...)
	if err != nil {
		return KeptCheckpoint{}, fmt.Errorf("%w: %w", errNotOurs, err)
	}
	if c.Origin != l.Origin || c.Size > tlog.MaxSize {
		return KeptCheckpoint{}, fmt.Errorf("%w: size %d of %q", errNotOurs, c.Size, c.Origin)
	}
	own, err := note.Sign(&note.Note{Text: n.Text, Sigs: n.Sigs})
	return KeptCheckpoint{Note: string(own), Tree: c.Tree}, err
}

// whyBehind describes in what a log with a given tree is behind one of its checkpoints, or returns
// "".
func (s Checkpoints) whyBehind(ctx context.Context, l db.Log, tree tlog.Tree, k KeptCheckpoint) (string, error) {
	was := fmt.Sprintf("was published at size %d", k.Tree.Size)
	if k.Witness != "" {
		was = fmt.Sprintf("was signed by a witness at size %d", k.Tree.Size)
	}
	if k.Tree.Size > tree.Size {
		return fmt.Sprintf("%s, and is at size %d: its log root was %x, and is %x", was, tree.Size, k.Tree.Root[:],
			tree.Root[:]), nil
	}
	root := tree.Root
	if k.Tree.Size < tree.Size {
		proof, err := tlog.ProveConsistency(ctx, s.db.now.LogTree(l), k.Tree.Size, tree)
		if err != nil {
			return "", fmt.Errorf("log %s: %w", l.ID, err)
		}
		if tlog.CheckConsistency(proof, k.Tree, tree) == nil {
			return "", nil
		}
		if root, err = tlog.Root(ctx, s.db.now.LogTree(l), k.Tree.Size); err != nil {
			return "", fmt.Errorf("log %s: %w", l.ID, err)
		}
	}
	if root == k.Tree.Root {
		return "", nil
	}
	return fmt.Sprintf("%s with log root %x, and has root %x at that size", was, k.Tree.Root[:], root[:]), nil
}

func (s Checkpoints) behind(
	ctx context.Context, l db.Log, head chain.Head, k KeptCheckpoint, why string,
) (*Behind, error) {
	id, err := ledger.ParseLogID(l.ID)
	if err != nil {
		return nil, err
	}
	owner, err := s.db.now.Owner(ctx, l.Chain)
	if err != nil {
		return nil, err
	}
	company, name := db.LogOf(l.Chain)
	known := headfile.Head{Chain: l.Chain, LogID: id, Tree: headfile.Tree{Size: k.Tree.Size, LogRoot: k.Tree.Root}}
	found := headfile.Head{Chain: l.Chain, LogID: id,
		Tree: headfile.Tree{Size: head.Length, Root: head.Root, LogRoot: head.LogRoot}}
	return &Behind{Company: owner.CompanyID, Log: name, Known: known, Found: found, Why: why, Kept: &k, company: company,
		origin: l.Origin}, nil
}

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
	"attestd/store/headfile"
)

// KeptCheckpoint is a checkpoint that a log of ours has signed, and who has it.
type KeptCheckpoint struct {
	// the vkey of the witness that has cosigned or shown it; "" for the one that was published last
	Witness string
	Note    string // with our signatures
	Tree    tlog.Tree

	row string // the column witness of cosignature; "" for the one that was published
}

// shownBy stands before the vkey in the row of what a witness has shown, which is beside that of
// what it has cosigned.
const shownBy = "shown by "

// errNotOurs says of a checkpoint that no key of the log has signed it, so that it proves nothing.
var errNotOurs = errors.New("it does not bear the log's signature")

// Agree compares the log of a chain with the checkpoints of it that the database keeps:
// the one that was published last, and what witnesses have cosigned or shown. Where the log is
// shorter than one of them, or has another root at its size, the company is halted: a
// *RolledBackError, until somebody accepts that. It reads a few hundred hashes for each checkpoint
// of another size than the log's.
func (s Checkpoints) Agree(ctx context.Context, number int64) error {
	if err := s.db.Rollback.HaltedChain(number); err != nil {
		return err
	}
	b, err := s.behindKept(ctx, number)
	if err != nil || b == nil {
		return err
	}
	return s.db.Rollback.halt(*b)
}

// verify makes the verdict on a log, which is valid by itself, fail where the log is
// behind a checkpoint of it that the database keeps; see Checkpoints.Agree. It fails at the record
// that is missing, or at the last one that the checkpoint covers. Nothing is halted.
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

// behindKept says in what the log of a chain is behind the first checkpoint of it that the database
// keeps and the log does not lead to; nil where there is none.
func (s Checkpoints) behindKept(ctx context.Context, number int64) (*Behind, error) {
	l := Log{Chain: number}
	if err := s.db.read(ctx, func(r *conn) error {
		return r.one([]any{&l.Name, &l.ID, &l.Origin}, `SELECT name, log_id, origin FROM log WHERE chain = ?`, number)
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

// kept are those that the database keeps of a log.
func (s Checkpoints) kept(ctx context.Context, l Log) (kept []KeptCheckpoint, err error) {
	err = s.db.read(ctx, func(r *conn) error {
		return r.each(func(rows *sql.Rows) error {
			var k KeptCheckpoint
			err := rows.Scan(&k.row, &k.Note)
			k.Witness = strings.TrimPrefix(k.row, shownBy)
			kept = append(kept, k)
			return err
		}, `SELECT '', note FROM checkpoint WHERE log_id = ?1 UNION ALL SELECT witness, note FROM cosignature WHERE log_id = ?1`, l.ID)
	})
	if err != nil {
		return nil, fmt.Errorf("checkpoints of log %s: %w", l.ID, err)
	}
	return kept, nil
}

// compare says in what a log is behind a checkpoint that the database keeps; nil where it
// is not, where that was accepted, and where the checkpoint is none of the log's own, for then it
// proves nothing. A key that has ended counts, also one that was compromised since.
func (s Checkpoints) compare(ctx context.Context, l Log, k KeptCheckpoint) (*Behind, error) {
	// after the checkpoint was read: the log had that size before it was signed
	head, _, err := s.db.Tip(ctx, l.Chain)
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

// openOwn reads a checkpoint that one of the log's keys must have signed, and leaves out what
// others have: errNotOurs. A key that was declared compromised counts with compromised alone.
func (s Checkpoints) openOwn(ctx context.Context, l Log, signed string, compromised bool) (KeptCheckpoint, error) {
	_, ring, err := s.db.KeyRing(ctx, l.Chain)
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

// whyBehind says in what a log with a tree is behind a checkpoint of its own; "" where it
// is not.
func (s Checkpoints) whyBehind(ctx context.Context, l Log, tree tlog.Tree, k KeptCheckpoint) (string, error) {
	was := fmt.Sprintf("was published at size %d", k.Tree.Size)
	if k.Witness != "" {
		was = fmt.Sprintf("was signed by a witness at size %d", k.Tree.Size)
	}
	if k.Tree.Size > tree.Size {
		return fmt.Sprintf("%s, and is at size %d: its root was %x, and is %x", was, tree.Size, k.Tree.Root[:], tree.Root[:]), nil
	}
	root := tree.Root
	if k.Tree.Size < tree.Size {
		proof, err := tlog.ProveConsistency(ctx, s.db.LogTree(l), k.Tree.Size, tree)
		if err != nil {
			return "", fmt.Errorf("log %s: %w", l.ID, err)
		}
		if tlog.CheckConsistency(proof, k.Tree, tree) == nil {
			return "", nil
		}
		if root, err = tlog.Root(ctx, s.db.LogTree(l), k.Tree.Size); err != nil {
			return "", fmt.Errorf("log %s: %w", l.ID, err)
		}
	}
	if root == k.Tree.Root {
		return "", nil
	}
	return fmt.Sprintf("%s with root %x, and has root %x at that size", was, k.Tree.Root[:], root[:]), nil
}

func (s Checkpoints) behind(ctx context.Context, l Log, head chain.Head, k KeptCheckpoint, why string) (*Behind, error) {
	id, err := parseLogID(l.ID)
	if err != nil {
		return nil, err
	}
	owner, err := s.db.Owner(ctx, l.Chain)
	if err != nil {
		return nil, err
	}
	company, name := logOf(l.Chain)
	known := headfile.Head{Chain: l.Chain, LogID: id, Tree: headfile.Tree{Size: k.Tree.Size, LogRoot: k.Tree.Root}}
	found := headfile.Head{Chain: l.Chain, LogID: id, Tree: headfile.Tree{Size: head.Length, Root: head.Root, LogRoot: head.LogRoot}}
	return &Behind{Company: owner.CompanyID, Log: name, Known: known, Found: found, Why: why, Kept: &k, company: company, origin: l.Origin}, nil
}

package store

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/store/db"
	"attestd/store/headfile"
	"attestd/store/ledger"
)

// RolledBackError describes in what a database is behind its head file. It wraps ErrRolledBack.
type RolledBackError struct{ Behind []Behind }

func (e *RolledBackError) Error() string { return db.ErrRolledBack.Error() + ": " + reasonOf(e.Behind) }
func (e *RolledBackError) Unwrap() error { return db.ErrRolledBack }

// ReasonFor describes the first log of a company that is behind, by its ID; "" if none is.
func (e *RolledBackError) ReasonFor(company string) string {
	return reasonOf(slices.DeleteFunc(slices.Clone(e.Behind), func(b Behind) bool { return b.Company != company }))
}

// reasonOf describes the first log, by its ID.
func reasonOf(behind []Behind) string {
	if len(behind) == 0 {
		return ""
	}
	reason := fmt.Sprintf("log %x %s", behind[0].Known.LogID, behind[0].Why)
	if more := len(behind) - 1; more > 0 {
		reason += fmt.Sprintf(" (and %d more logs)", more)
	}
	return reason
}

// Behind is a log that is behind what was known of it.
type Behind struct {
	Company string // its companyId; "" if the database no longer has the company
	Log     db.LogName
	Known   headfile.Head // from the head file; Revocations also from the database's own count
	Found   headfile.Head // without a LogID if the log is gone
	Why     string
	Kept    *KeptCheckpoint // the checkpoint that shows it, or nil if the head file does

	company int64
	origin  string
}

// Origin returns the origin of the log, or "" if it is unknown.
func (b Behind) Origin() string { return b.origin }

// loggedHead is the state of a log in the database, in the form of the head file.
type loggedHead struct {
	headfile.Head
	counted int64 // number of revocations according to the database's own count
}

// loggedHeads reads the state of all logs from the database, at every start of a server. So most
// logs cost one row of few columns.
func (s Rollback) loggedHeads(ctx context.Context) (logs map[int64]*loggedHead, err error) {
	logs = map[int64]*loggedHead{}
	var id string
	var root, logRoot sql.RawBytes
	head := func(rows *sql.Rows) error {
		l := &loggedHead{}
		err := rows.Scan(&l.Chain, &id, &l.Size, &root, &logRoot)
		if err == nil {
			l.LogID, err = ledger.ParseLogID(id)
		}
		db.FillHash(l.Root[:], root)
		db.FillHash(l.LogRoot[:], logRoot)
		logs[l.Chain] = l
		return err
	}
	published := func(rows *sql.Rows) error {
		var chain int64
		var note string
		err := rows.Scan(&chain, &note)
		// a malformed text is not a checkpoint that could be lost
		if c, malformed := parseCheckpoint(note); malformed == nil && logs[chain] != nil {
			logs[chain].Checkpoint = c
		}
		return err
	}
	revoked := func(rows *sql.Rows) error {
		var company, n, counted int64
		err := rows.Scan(&company, &n, &counted)
		if l := logs[db.Control.ChainID(company)]; l != nil {
			l.Revocations += n
			l.counted += counted
		}
		return err
	}
	err = s.db.Read(ctx, func(r *db.Conn) error {
		err := r.Each(head, `SELECT log.chain, log.log_id, coalesce(length, 0), root, log_root
			FROM log JOIN company ON company.id = log.company LEFT JOIN head ON head.chain = log.chain`)
		if err == nil {
			err = r.Each(published, `SELECT log.chain, note FROM checkpoint JOIN log ON log.log_id = checkpoint.log_id`)
		}
		if err == nil { // the revocations that are gone, with the count of all
			err = r.Each(revoked, `SELECT company, deleted_revocations, revocations FROM company_usage WHERE revocations > 0 OR deleted_revocations > 0`)
		}
		if err == nil {
			err = r.Each(revoked, `SELECT company, count(*), 0 FROM passport WHERE revoked_at IS NOT NULL GROUP BY company`)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("heads of all logs: %w", err)
	}
	return logs, nil
}

// compare finds the logs that are behind what is known of them, or have a different root at one of
// their known sizes, and the companies with fewer revocations than is known or the database's own
// count says. Of several heads of a log, only the first mismatch is returned.
func (s Rollback) compare(ctx context.Context, known []headfile.Head) ([]Behind, error) {
	logs, err := s.loggedHeads(ctx)
	if err != nil {
		return nil, err
	}
	return s.compareWith(ctx, logs, known)
}

// compareWith is compare for what loggedHeads has read.
func (s Rollback) compareWith(ctx context.Context, logs map[int64]*loggedHead, known []headfile.Head) (list []Behind, err error) {
	looked, named := map[int64]bool{}, map[int64]bool{}
	look := func(known headfile.Head) error {
		l := logs[known.Chain]
		if l == nil {
			l = new(loggedHead)
		}
		if known.LogID == ([16]byte{}) { // it is known only from memory
			known.LogID = l.LogID
		}
		known.Tree, known.Revocations = proven(known.Tree), max(known.Revocations, l.counted)
		looked[known.Chain] = true
		if named[known.Chain] {
			return nil
		}
		why, err := s.why(ctx, known, &l.Head, nil)
		if err != nil || why == "" {
			return err
		}
		b := Behind{Known: known, Found: l.Head, Why: why}
		_, b.Log = db.LogOf(known.Chain)
		if l.Chain != 0 {
			b.company, _ = db.LogOf(known.Chain)
			err = s.db.Read(ctx, func(r *db.Conn) error {
				return r.One([]any{&b.Company, &b.origin}, `SELECT company_id, origin FROM log JOIN company ON company.id = log.company WHERE chain = ?`, known.Chain)
			})
			if errors.Is(err, db.ErrNotFound) { // it has gone since: it is behind all the same
				err = nil
			}
		}
		list, named[known.Chain] = append(list, b), true
		return err
	}
	for i := range known {
		if err == nil {
			err = look(known[i])
		}
	}
	for _, l := range logs { // logs without a known head
		if err == nil && !looked[l.Chain] && l.counted > l.Revocations {
			err = look(l.Head)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("compare with the head file: %w", err)
	}
	return list, nil
}

// headsIn returns the heads in a head file. A nil file has none.
func headsIn(file *headfile.File) (list []headfile.Head, err error) {
	if file == nil {
		return nil, nil
	}
	err = file.Each(func(known *headfile.Head) error {
		list = append(list, *known)
		return nil
	})
	return list, err
}

// proven returns the tree if it has roots, otherwise an empty tree. A size alone, which a head file
// may have from a witness of an older version, proves nothing.
func proven(t headfile.Tree) headfile.Tree {
	if t.LogRoot == (tlog.Hash{}) {
		return headfile.Tree{}
	}
	return t
}

// why describes in what a log is behind a known head, which may have only a size, or returns "".
// head is the chain head that belongs to l, or nil for the current one.
func (s Rollback) why(ctx context.Context, known headfile.Head, l *headfile.Head, head *chain.Head) (string, error) {
	if l.LogID == known.LogID && l.Tree == known.Tree && l.Revocations >= known.Revocations {
		return "", nil
	}
	was := fmt.Sprintf("was known at size %d with log root %x", known.Size, known.LogRoot)
	switch {
	case *l == headfile.Head{}:
		return was + ", and is gone", nil
	case l.LogID != known.LogID:
		return fmt.Sprintf("%s, and log %x stands in its place", was, l.LogID), nil
	case l.Size < known.Size:
		return fmt.Sprintf("%s, and is at size %d with log root %x", was, l.Size, l.LogRoot), nil
	}
	at, err := known.Tree, error(nil)
	if proven(known.Tree).Size > 0 { // without records every log has the same roots
		at, err = s.treeAt(ctx, l, head, known.Size)
	}
	switch {
	case err != nil && (errors.Is(err, db.ErrUnavailable) || ctx.Err() != nil):
		return "", err
	case err != nil:
		return fmt.Sprintf("%s, and its log root at that size cannot be found out: %v", was, err), nil
	case at.LogRoot != known.LogRoot:
		return fmt.Sprintf("%s, and has root %x at that size", was, at.LogRoot), nil
	case at != known.Tree:
		return fmt.Sprintf("was known at size %d with log root %x of the specified tree, and has root %x at that size",
			known.Size, known.Root, at.Root), nil
	case l.Revocations < known.Revocations:
		return fmt.Sprintf("was known with %d revocations of passports, and %d are there", known.Revocations,
			l.Revocations), nil
	}
	return "", nil
}

// treeAt returns the tree of a log at a size up to its own, with roots that are consistent with its
// head. A nil head means the current one.
func (s Rollback) treeAt(ctx context.Context, l *headfile.Head, head *chain.Head, size int64) (headfile.Tree, error) {
	if size == l.Size {
		return l.Tree, nil
	}
	if head == nil {
		now, _, err := s.db.now.Tip(ctx, l.Chain)
		if err != nil {
			return headfile.Tree{}, err
		}
		head = &now
	}
	of, err := chain.ProveConsistency(ctx, s.view, l.Chain, size, head.Length, *head)
	if err != nil {
		return headfile.Tree{}, err
	}
	reader := s.db.now.LogTree(db.Log{Chain: l.Chain})
	if _, err := tlog.ProveConsistency(ctx, reader, size, tlog.Tree{Size: head.Length, Root: head.LogRoot}); err != nil {
		return headfile.Tree{}, err
	}
	root, err := tlog.Root(ctx, reader, size)
	return headfile.Tree{Size: size, Root: of.FromRoot, LogRoot: root}, err
}

// countedRevocations returns the number of revoked passports of a company.
func (s Rollback) countedRevocations(ctx context.Context, c *Company) (n int64, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&n}, `SELECT coalesce(max(revocations), 0) FROM company_usage WHERE company = ?`, c.Chain)
	})
	return n, err
}

// parseCheckpoint parses a checkpoint that one of our logs has published.
func parseCheckpoint(text string) (c headfile.Checkpoint, err error) {
	checkpoint, signed, err := tlog.ParseSignedCheckpoint([]byte(text))
	if err != nil {
		return c, fmt.Errorf("%w: %w", db.ErrCorrupt, err)
	}
	signatures := append(signed.Sigs, signed.UnverifiedSigs...)
	raw, err := base64.StdEncoding.DecodeString(signatures[0].Base64)
	if err != nil || len(raw) != len(c.Signature) {
		return c, fmt.Errorf("%w: the signature of a checkpoint is not what it was", db.ErrCorrupt)
	}
	c.Size, c.Root = checkpoint.Size, checkpoint.Root
	db.FillHash(c.Signature[:], raw)
	return c, nil
}

// checkpointText returns the checkpoint of a log as it was published.
func checkpointText(origin string, c headfile.Checkpoint) string {
	text := tlog.Checkpoint{Origin: origin, Tree: tlog.Tree{Size: c.Size, Root: c.Root}}.Text()
	return text + "\n— " + origin + " " + base64.StdEncoding.EncodeToString(c.Signature[:]) + "\n"
}

// refuseWithoutDatabase returns ErrRefused if the head file knows a database that would be replaced
// by a new one.
func refuseWithoutDatabase(path, heads string) error {
	if info, err := os.Stat(heads); heads == "" || err != nil || info.Size() == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s knows a database, and there is none at %s: put that back, or move the head file away",
		db.ErrRefused, heads, path)
}

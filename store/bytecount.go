package store

import (
	"context"
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/ledger"
)

// ByteCount is how many bytes the head of a log counts, and how many its records have: their
// payloads, pruned ones too, and their delegations. Quotas go by the first.
type ByteCount struct{ Counted, Found int64 }

// MiscountError reports logs that verify, and whose heads count their bytes wrongly. That is no
// damage of a log: its records and proofs are good, and quotas are applied wrongly.
type MiscountError struct {
	Company string // of the first one, as in ChainVerdict
	Log     db.LogName
	Bytes   ByteCount // of the first one
	Logs    int       // number of such logs
}

func (e *MiscountError) Error() string {
	more := ""
	if e.Logs > 1 {
		more = fmt.Sprintf(" (and %d more logs)", e.Logs-1)
	}
	title := e.Log.Titled(fmt.Sprintf("company %q", e.Company))
	if e.Company == db.InstallationID {
		title = e.Log.Titled(e.Company)
	}
	return fmt.Sprintf("%s: %v%s; attestd verify --recount counts again", title, e.Bytes, more)
}

func (b ByteCount) String() string {
	return fmt.Sprintf("the head counts %d bytes, and the records have %d, so quotas are applied wrongly", b.Counted, b.Found)
}

// checkDerived compares what a server derives from the records of a valid chain with them: the
// summaries, and with withBytes the count of bytes. Payloads may be pruned while it reads; then it
// reads again.
func (s *Store) checkDerived(ctx context.Context, v *ChainVerdict, withBytes bool) error {
	for {
		p, err := s.PrunedRecords(ctx, v.Chain)
		if errors.Is(err, chain.ErrUnproven) {
			v.Valid, v.FailedAt, v.Reason = false, 0, err.Error()
			return nil
		}
		if err != nil {
			return err
		}
		checked := *v
		err = s.checkSummaries(ctx, &checked, p.Records)
		if err == nil && checked.Valid && withBytes && s.UpToDate() {
			err = checkBytes(ctx, s, &checked, &p)
		}
		if err != nil || !checked.Valid || checked.Bytes != nil {
			if now, failed := s.PrunedRecords(ctx, v.Chain); failed == nil && now != p {
				continue
			}
		}
		*v = checked
		return err
	}
}

// checkBytes compares the bytes that the head of a valid chain counts with its records.
func checkBytes(ctx context.Context, s *Store, v *ChainVerdict, p *PrunedRecords) error {
	head, _, err := s.Tip(ctx, v.Chain)
	if err != nil {
		return err
	}
	found, err := s.CountBytes(ctx, v.Chain, p.Bytes, p.Records, head.Length)
	if err == nil && found != head.Bytes {
		v.Bytes = &ByteCount{head.Bytes, found}
	}
	return err
}

// Recount counts the bytes of a log again, which the caller has verified. Where its head counts
// them wrongly, it corrects the head, and records in the control log what it counted before.
// Servers on the same PostgreSQL database may append meanwhile: what they build on the former head
// fails, and is tried again. Run MUST be running.
func (s *Store) Recount(ctx context.Context, number int64) (ByteCount, error) {
	company, _ := db.LogOf(number)
	c, err := s.base.named(ctx, company)
	if err != nil {
		return ByteCount{}, err
	}
	n, err := s.recount(ctx, number, func(rows func(*db.Conn) ([]controlEvent, error)) error {
		return s.base.recorded(ctx, Caller{Company: c}, s.Change, func(w *db.Conn) ([]controlEvent, error) {
			events, err := rows(w)
			if len(events) > 0 {
				s.Rekeyed(number)
			}
			return events, err
		})
	})
	if err != nil {
		return n, fmt.Errorf("count the bytes of %s again: %w", ChainVerdict{Company: c.ID, Log: logNamed(number)}.Title(), err)
	}
	return n, nil
}

func logNamed(number int64) db.LogName {
	_, name := db.LogOf(number)
	return name
}

var errPrunedMeanwhile = errors.New("payloads were pruned meanwhile")

// recount is Recount with its own way to change rows. It reads all records except the newest before
// that, because the change blocks appends to the log until the commit.
func (s *Store) recount(
	ctx context.Context, number int64, change func(rows func(*db.Conn) ([]controlEvent, error)) error,
) (n ByteCount, err error) {
	for {
		p, err := s.PrunedRecords(ctx, number)
		if err != nil {
			return n, err
		}
		head, _, err := s.Tip(ctx, number)
		if err != nil {
			return n, err
		}
		before, err := s.CountBytes(ctx, number, p.Bytes, p.Records, head.Length)
		if err != nil {
			return n, err
		}
		err = change(func(w *db.Conn) ([]controlEvent, error) {
			var length int64
			length, counted, err := w.HoldHead(number)
			if err != nil {
				return nil, err
			}
			n.Counted = counted
			if now, err := prunedSince(w, number, &p); err != nil || now {
				return nil, errors.Join(err, errPrunedMeanwhile)
			}
			newest, err := ledger.CountBytes(w, number, p.Records, head.Length, length)
			if n.Found = before + newest; err != nil || n.Found == n.Counted {
				return nil, err
			}
			if err := w.SetBytes(number, n.Found); err != nil {
				return nil, err
			}
			return []controlEvent{{BytesRecounted, subjectBytes, map[string]any{
				"log": logNamed(number), "records": length, "from": n.Counted, "to": n.Found}}}, nil
		})
		if !errors.Is(err, errPrunedMeanwhile) {
			return n, err
		}
	}
}

// prunedSince reports whether payloads of a log were pruned after p was read.
func prunedSince(c *db.Conn, number int64, p *PrunedRecords) (bool, error) {
	company, name := db.LogOf(number)
	if name != db.Actions {
		return false, nil
	}
	id, err := latestPruned(c, company)
	return id.Valid != (p.Records > 0) || id.Valid && id.Int64&db.IndexMask != p.Index, err
}

package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/crypto/jcs"
	"attestd/store/db"
	"attestd/store/ledger"
	"attestd/store/names"
	"attestd/store/projection"
)

// The rows of idempotency_key and agent_session about statements and sessions follow from the
// records of the actions; see package names. A comparison reads both sides once: for each record it
// looks its names up, and for each row it reads the record that the row leads to. Both go in pages,
// so its memory is that of a page and of one record, however long the log is.
//
// What cannot be decided stays unchanged: the names of a record whose payload was pruned, and
// whether a row under an Idempotency-Key is the one of a record with a delegation, whose token is
// in no record.

// namesPage is the number of records or rows that one read compares.
const namesPage = 256

// nameRow is a row of idempotency_key.
type nameRow struct {
	name, request chain.Hash
	index         int64
	expires       int64 // Unix milliseconds
}

func scanNameRow(rows *sql.Rows) (r nameRow, err error) {
	var name, request sql.RawBytes
	err = rows.Scan(&name, &request, &r.index, &r.expires)
	copy(r.name[:], name)
	copy(r.request[:], request)
	return r, err
}

// isUnique reports whether the row is of a name that stays taken for ever.
func (r *nameRow) isUnique() bool { return r.expires >= chain.LastTime.UnixMilli() }

// nameComparison compares the names of one company.
type nameComparison struct {
	*comparison
	head      chain.Head // of the actions
	newest    time.Time  // time of the newest record of the company
	listed    map[names.Session]bool
	unlisted  map[names.Session]bool // sessions without statements that have names, and no row
	found     int64                  // rows for good that records have confirmed
	canonical []byte
	broken    error    // the first difference
	repairs   []repair // of the differences, at most maxDifferences
}

// repair makes one row what the records say.
type repair struct {
	put     *expectedName // nil to remove a name, or put a session
	remove  chain.Hash
	session names.Session
}

// maxListed bounds the sessions that a comparison remembers.
const maxListed = 16384

// compareNames compares the names of the company's actions, and the rows of its sessions, with its
// records. The caller has verified the log of the actions, or the records say what they like.
// broken is the first difference as an error, or nil.
func (r *comparison) compareNames(ctx context.Context) (broken, err error) {
	n, err := r.names(ctx)
	if errors.Is(err, chain.ErrMissing) {
		return err, nil // the verification of the log reports it
	}
	if err != nil {
		return nil, err
	}
	r.unlisted = n.unlisted
	return n.broken, nil
}

func (r *comparison) names(ctx context.Context) (*nameComparison, error) {
	head, _, err := r.tables.db.now.Tip(ctx, r.company.Actions.Chain)
	if err != nil {
		return nil, err
	}
	n := &nameComparison{comparison: r, head: head, listed: map[names.Session]bool{}, unlisted: map[names.Session]bool{}}
	if n.newest, err = r.tables.db.newestOf(ctx, r.company.Chain); err != nil {
		return nil, err
	}
	if err := n.eachPage(ctx, n.records); err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	if err := n.eachRow(ctx); err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	return n, nil
}

// repairNames makes the names and sessions of a company what its records say.
func (s Tables) repairNames(ctx context.Context, c *Company) error {
	r := &comparison{tables: s, company: c, state: projection.New(c.ID)}
	if err := s.db.Read(ctx, func(conn *db.Conn) error { return r.readNameState(conn) }); err != nil {
		return err
	}
	n, err := r.names(ctx)
	if err != nil {
		return err
	}
	// a row that is of no record where it leads may have the name of another one
	slices.SortStableFunc(n.repairs, func(a, b repair) int { return cmp.Compare(a.order(), b.order()) })
	for step := range slices.Chunk(n.repairs, adoptStep) {
		if err := s.db.Write(ctx, func(w *db.Conn) error {
			for i := range step {
				if err := step[i].carryOut(w, c); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// order is that in which repairs are carried out: what is removed comes first.
func (r *repair) order() int {
	if r.put == nil && r.session == (names.Session{}) {
		return 0
	}
	return 1
}

func (r *repair) carryOut(w *db.Conn, c *Company) (err error) {
	switch {
	case r.put != nil:
		_, err = w.Exec(ledger.InsertKeyEntries[1], c.Chain, r.put.Name[:], r.put.Request[:], r.put.index, chain.LastTime.UnixMilli())
	case r.session != (names.Session{}):
		_, err = w.Exec(insertSession, c.Chain, r.session.AgentID, r.session.Key, r.session.ID)
	default:
		_, err = w.Exec(`DELETE FROM idempotency_key WHERE chain = ? AND name = ?`, c.Chain, r.remove[:])
	}
	return err
}

// subjectName is of a name that two records have.
func subjectName(name string) string { return "name:" + name }

// readNameState reads what of the control log a comparison of names needs.
func (r *comparison) readNameState(c *db.Conn) (err error) {
	if r.state, _, err = loggedSettings(c, r.company); err != nil {
		return err
	}
	first, last := db.RecordIDs(r.company.Control.Chain)
	return c.Each(func(rows *sql.Rows) error {
		var id int64
		var timestamp string
		var payload []byte
		if err := rows.Scan(&id, &timestamp, &payload); err != nil {
			return err
		}
		err := r.state.Apply(id&db.IndexMask, timestamp, payload)
		if unread := (*projection.RecordError)(nil); errors.As(err, &unread) {
			err = nil // the replay reports it
		}
		return err
	}, `SELECT id, timestamp, payload FROM record WHERE id < 0 AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.payload.subject') END BETWEEN ? AND ?
		AND id BETWEEN ? AND ? ORDER BY id`, subjectName(""), subjectName("g"), first, last)
}

// differs adds a difference, and what makes it none.
func (n *nameComparison) differs(d *projection.Difference, by repair) {
	if n.add(d); n.broken == nil {
		n.broken = changedTables(n.company, d)
	}
	if len(n.repairs) < maxDifferences {
		n.repairs = append(n.repairs, by)
	}
}

// eachPage calls page for all records, page by page, with a pause after each.
func (n *nameComparison) eachPage(ctx context.Context, page func(c *db.Conn, from, to int64) error) error {
	for from := int64(0); from < n.head.Length; from += namesPage {
		began := time.Now()
		err := n.tables.db.Read(ctx, func(c *db.Conn) error { return page(c, from, min(from+namesPage, n.head.Length)) })
		if err == nil {
			err = n.pace.rest(ctx, began)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// expectedName is a name that a record has.
type expectedName struct {
	chain.Key
	former    chain.Hash // may replace it; the zero Hash for none
	index     int64
	timestamp string // of the record
	session   names.Session
	inSession bool // of a session without statements
}

// records compares a page of records with their names.
func (n *nameComparison) records(c *db.Conn, from, to int64) error {
	var expected []expectedName
	err := c.Records(n.company.Actions.Chain, from, to, "ORDER BY id", func(r *chain.Record) error {
		if r.IsPruned() {
			return nil
		}
		of, err := names.Of(r)
		if err != nil {
			n.add(&projection.Difference{Table: "record", Row: "actions", Index: -1, What: fmt.Sprintf("record %d: %v", r.Index, err)})
			return nil
		}
		for i, k := range of.Statement {
			e := expectedName{Key: k, index: r.Index, session: of.Session}
			if i == 0 {
				e.former = of.Former
			}
			expected = append(expected, e)
		}
		if of.InSession != nil {
			expected = append(expected, expectedName{Key: *of.InSession, index: r.Index, timestamp: r.Timestamp, session: of.Session, inSession: true})
		}
		return nil
	})
	if err != nil || len(expected) == 0 {
		return err
	}
	var wanted []chain.Hash
	for i := range expected {
		wanted = append(wanted, expected[i].Name)
		if expected[i].former != (chain.Hash{}) {
			wanted = append(wanted, expected[i].former)
		}
	}
	rows, err := nameRows(c, n.company.Chain, wanted)
	if err != nil {
		return err
	}
	for i := range expected {
		if err := n.name(c, &expected[i], rows); err != nil {
			return err
		}
	}
	return nil
}

// nameRows reads rows by their names.
func nameRows(c *db.Conn, number int64, wanted []chain.Hash) (map[chain.Hash]nameRow, error) {
	found := make(map[chain.Hash]nameRow, len(wanted))
	err := ledger.InPieces(len(wanted), func(from, to int) error {
		args := append(make([]any, 0, 1+ledger.KeysAtOnce), number)
		for i := from; i < to; i++ {
			args = append(args, wanted[i][:])
		}
		return c.Each(func(rows *sql.Rows) error {
			r, err := scanNameRow(rows)
			found[r.name] = r
			return err
		}, ledger.SelectKeyEntries[to-from], args...)
	})
	return found, err
}

// name compares a name that a record has with its row.
func (n *nameComparison) name(c *db.Conn, e *expectedName, rows map[chain.Hash]nameRow) error {
	row, is := rows[e.Name]
	if !is && e.former != (chain.Hash{}) {
		row, is = rows[e.former]
	}
	what := ""
	switch {
	case !is && e.inSession:
		if gone, err := n.mayBeGone(c, e); err != nil || gone {
			return err
		}
		what = fmt.Sprintf("is missing, and is the name of record %d in a session", e.index)
	case !is:
		what = fmt.Sprintf("is missing, and is a name of the statement of record %d", e.index)
	case row.index != e.index:
		twice, err := n.isTwice(c, e, &row)
		if err != nil || twice && n.state.Names[hex.EncodeToString(e.Name[:])] {
			return err
		}
		what = fmt.Sprintf("leads to record %d, and is a name of record %d", row.index, e.index)
		if twice {
			what += ": one statement was recorded twice"
		}
	case row.request != e.Request:
		what = fmt.Sprintf("leads to record %d for another request", e.index)
	case !row.isUnique():
		what = "has an end, and the name is taken for good"
	}
	if what != "" {
		n.differs(differingName(e.Name, what), repair{put: e})
		return nil
	}
	n.found++
	return n.session(c, e)
}

// isTwice reports whether the record that a row leads to has the name as well.
func (n *nameComparison) isTwice(c *db.Conn, e *expectedName, row *nameRow) (bool, error) {
	r, err := ledger.ReadRecord(c, n.company.Chain, row.index)
	if errors.Is(err, chain.ErrMissing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	of, err := names.Of(r)
	return err == nil && of.Takes(row.name, row.request), nil
}

// mayBeGone reports whether the name of a record in a session without statements may be missing: it
// is older than the programs that write such names, or a server has deleted it, with those of all
// records before it, because its session had no new record for LeastSessions. Both follow from the
// logs alone, regardless of clocks.
func (n *nameComparison) mayBeGone(c *db.Conn, e *expectedName) (bool, error) {
	if identified := n.state.IdentifiedAt; identified == "" || e.timestamp < identified {
		return true, nil
	}
	at, err := db.ParseTime(e.timestamp)
	if err != nil {
		return false, err
	}
	end := at.Add(LeastSessions)
	if n.newest.Before(end) {
		return false, nil
	}
	series := e.session.Series()
	first, before, after := series.At(0), series.At(e.index), series.At(1<<62)
	var name, text string
	err = c.One([]any{&name}, `SELECT 'there' FROM idempotency_key WHERE chain = ? AND name >= ? AND name < ? AND request = ? LIMIT 1`,
		n.company.Chain, first[:], before[:], series[:])
	if !errors.Is(err, db.ErrNotFound) {
		return false, err // names go from the first on
	}
	err = c.One([]any{&text}, `SELECT timestamp FROM idempotency_key k JOIN record ON record.id = k.chain * 1099511627776 + k.idx
		WHERE k.chain = ? AND name > ? AND name <= ? AND request = ? ORDER BY name LIMIT 1`, n.company.Chain, before[:], after[:], series[:])
	if errors.Is(err, db.ErrNotFound) {
		return true, nil
	}
	return err == nil && text >= chain.FormatTime(end), err
}

// session requires that the session of a name has its row. One without statements may lack it: it
// is written after the record, so a server that was ended between the two leaves it out, and a
// comparison makes it.
func (n *nameComparison) session(c *db.Conn, e *expectedName) error {
	if e.session == (names.Session{}) || n.listed[e.session] || n.unlisted[e.session] {
		return nil
	}
	var there bool
	if err := c.One([]any{&there}, `SELECT EXISTS (SELECT 1 FROM agent_session WHERE company = ? AND agent_id = ? AND sid = ? AND kid = ?)`,
		n.company.Chain, e.session.AgentID, e.session.ID, e.session.Key); err != nil {
		return err
	}
	if len(n.listed) >= maxListed {
		clear(n.listed)
	}
	switch n.listed[e.session] = true; {
	case there:
	case !e.inSession:
		n.differs(&projection.Difference{Table: projection.TableSession, Row: e.session.AgentID + "/" + e.session.ID, Index: -1,
			What: fmt.Sprintf("is missing, and record %d has a statement of it by the key %s", e.index, e.session.Key)}, repair{session: e.session})
	case len(n.unlisted) < namesPage:
		n.unlisted[e.session] = true
	}
	return nil
}

// eachRow compares the rows of the company with the records that they lead to: those that count for
// a time, and those that count for good where there are others than the records have confirmed.
func (n *nameComparison) eachRow(ctx context.Context) error {
	pruned, err := n.tables.view.PrunedRecords(ctx, n.company.Chain)
	// the verification of the log reports ErrUnproven
	if err != nil && !errors.Is(err, chain.ErrUnproven) {
		return err
	}
	forGood := chain.LastTime.UnixMilli()
	var unique int64
	if err := n.tables.db.Read(ctx, func(c *db.Conn) error {
		return c.One([]any{&unique}, `SELECT count(*) FROM idempotency_key WHERE chain = ? AND expires_at >= ? AND idx >= ? AND idx < ?`,
			n.company.Chain, forGood, pruned.Records, n.head.Length)
	}); err != nil {
		return err
	}
	if unique != n.found {
		forGood++ // none is passed over
	}
	after := []byte{}
	for more := true; more; {
		began := time.Now()
		err := n.tables.db.Read(ctx, func(c *db.Conn) error {
			page, err := db.All(c, scanNameRow, fmt.Sprintf(`SELECT name, request, idx, expires_at FROM idempotency_key WHERE chain = ? AND name > ?
				ORDER BY name LIMIT %d`, tablePage), n.company.Chain, after)
			if more = len(page) == tablePage; len(page) > 0 {
				after = slices.Clone(page[len(page)-1].name[:])
			}
			if err != nil {
				return err
			}
			return n.rows(c, slices.DeleteFunc(page, func(r nameRow) bool {
				return r.expires >= forGood && r.index >= 0 && r.index < n.head.Length
			}), pruned.Records)
		})
		if err == nil {
			err = n.pace.rest(ctx, began)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rows compares a page of rows. Their records are read in the order of the log, each once.
func (n *nameComparison) rows(c *db.Conn, page []nameRow, pruned int64) error {
	slices.SortFunc(page, func(a, b nameRow) int { return cmp.Compare(a.index, b.index) })
	for len(page) > 0 {
		index := page[0].index
		of := page[:len(page):len(page)]
		if next := slices.IndexFunc(page, func(r nameRow) bool { return r.index != index }); next > 0 {
			of = page[:next]
		}
		page = page[len(of):]
		if index >= 0 && index < pruned {
			continue
		}
		found := false
		err := c.Records(n.company.Actions.Chain, index, index+1, "ORDER BY id", func(r *chain.Record) error {
			found = true
			return n.row(r, of)
		})
		if err != nil {
			return err
		}
		if !found && index >= n.head.Length { // appended since, perhaps by another server
			var length int64
			if err := c.One([]any{&length}, `SELECT length FROM head WHERE chain = ?`, n.company.Chain); err != nil {
				return err
			}
			found = index < length
		}
		for i := 0; !found && i < len(of); i++ {
			n.differs(differingName(of[i].name, fmt.Sprintf("leads to record %d, which is not there", index)), repair{remove: of[i].name})
		}
	}
	return nil
}

// row compares the rows that lead to a record with it.
func (n *nameComparison) row(r *chain.Record, rows []nameRow) (err error) {
	if r.IsPruned() {
		return nil
	}
	of, err := names.Of(r)
	if err != nil {
		return nil // records has reported it
	}
	var request chain.Hash
	for i := range rows {
		row := &rows[i]
		if of.Takes(row.name, row.request) {
			continue // records compares the rest
		}
		if row.isUnique() {
			n.differs(differingName(row.name, fmt.Sprintf("is taken for good by record %d, of which it is no name", r.Index)), repair{remove: row.name})
			continue
		}
		if len(r.Delegation) > 0 {
			continue
		}
		if request == (chain.Hash{}) {
			if n.canonical, err = jcs.Append(n.canonical[:0], r.Payload, payloadDepth); err != nil {
				return nil // the verification of the log reports it
			}
			undecided, _ := decision.Cut(n.canonical) // a request has no decision yet
			request = names.Request(undecided, "", "")
		}
		if row.request != request {
			n.differs(differingName(row.name, fmt.Sprintf("leads to record %d, which is another request's", r.Index)), repair{remove: row.name})
		}
	}
	return nil
}

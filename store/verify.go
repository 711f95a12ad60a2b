package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/store/db"
)

// ChainVerdict is the verdict on one chain of a database.
type ChainVerdict struct {
	Chain   int64  // its number
	Company string // companyId of the chain's company; "" if there is none
	Log     db.LogName
	chain.Verdict
	// the log verifies, and its head counts its bytes wrongly; otherwise nil
	Bytes *ByteCount
	// the log itself verifies, and the tables of its company differ from it
	TablesDiffer bool
}

// Title returns the display name of the chain: its company, if it has one, and its log unless that
// is the action log.
func (v ChainVerdict) Title() string {
	if v.Company == "" {
		return v.Log.Titled(fmt.Sprintf("chain %d", v.Chain))
	}
	return v.Log.Titled(v.Company)
}

// VerifyError identifies the first record of a database that does not verify.
type VerifyError struct {
	Chain   int64
	Company string // as in ChainVerdict
	Log     db.LogName
	Index   int64
	Reason  string
}

func (e *VerifyError) Error() string {
	if e.Company == db.InstallationID {
		return fmt.Sprintf("%s, record %d: %s", e.Log.Titled(e.Company), e.Index, e.Reason)
	}
	if e.Company == "" {
		return fmt.Sprintf("%s: %s", e.Log.Titled(fmt.Sprintf("chain %d", e.Chain)), e.Reason)
	}
	return fmt.Sprintf("%s, record %d: %s", e.Log.Titled(fmt.Sprintf("company %q", e.Company)), e.Index, e.Reason)
}

// IsVerdict reports whether an error of VerifyAll says what it has found, and not that it could not
// read.
func IsVerdict(err error) bool {
	var invalid *VerifyError
	var miscount *MiscountError
	return errors.As(err, &invalid) || errors.As(err, &miscount)
}

// VerifyAll verifies the logs of one company, or if company is "" those of all companies in the
// order of their IDs, the log of the companies, and all chains without a company. So it finds
// companies, heads and records that lack their counterpart. A log also fails if it is not
// consistent with one of its stored checkpoints.
//
// each, if not nil, is called with every verdict; progress, if not nil, with the number of verified
// records and the total at the start. A failing chain does not stop the others: the first failure
// is returned at the end, as a *VerifyError, and heads that count bytes wrongly as a
// *MiscountError. It returns ErrNotFound for an unknown company.
func (s *Store) VerifyAll(
	ctx context.Context, company string, workers int, each func(ChainVerdict),
	progress func(done, total int64),
) error {
	a := audit{store: s, verifier: chain.NewVerifier(s, workers), checkpoints: s.UpToDate(), bytes: true, each: each,
		progress: progress}
	return a.run(ctx, company)
}

// VerifyContents is VerifyAll of all companies without the checkpoints and the counts of bytes, for
// copies: a halted company or a wrong quota must not make backups fail.
func (s *Store) VerifyContents(ctx context.Context, workers int, progress func(done, total int64)) error {
	a := audit{store: s, verifier: chain.NewVerifier(s, workers), progress: progress}
	return a.run(ctx, "")
}

// audit is the state of one call of VerifyAll.
type audit struct {
	store       *Store
	verifier    *chain.Verifier
	checkpoints bool // compare with the stored checkpoints
	bytes       bool // compare the counts of bytes
	each        func(ChainVerdict)
	progress    func(done, total int64)
	done, total int64 // number of records
	first       error // first failure
	miscounted  *MiscountError
}

func (a *audit) run(ctx context.Context, company string) error {
	verify := a.verifyFile
	if company != "" {
		verify = func(ctx context.Context) error { return a.verifyCompany(ctx, company) }
	}
	if err := verify(ctx); err != nil {
		return err
	}
	if a.miscounted != nil {
		return errors.Join(a.first, a.miscounted)
	}
	return a.first
}

func (a *audit) verifyFile(ctx context.Context) error {
	if err := a.store.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&a.total}, `SELECT coalesce(sum(length), 0) FROM head`)
	}); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	for after, more := "", true; more; {
		page, err := listCompanies(ctx, a.store,
			fmt.Sprintf(`company_id > ? AND id <> %d ORDER BY company_id LIMIT 256`, db.Installation), after)
		if err != nil {
			return err
		}
		for _, c := range page {
			if err := a.verifyLogs(ctx, c); err != nil {
				return err
			}
			after = c.Company
		}
		more = len(page) > 0
	}
	if err := a.verifyCompanyLog(ctx); err != nil {
		return err
	}
	strays, err := a.store.Strays(ctx)
	for _, v := range strays {
		a.add(v)
	}
	return err
}

// verifyCompanyLog verifies the log of the companies. The action log of its owner is always empty,
// and reported only if it is not.
func (a *audit) verifyCompanyLog(ctx context.Context) error {
	isThere, err := a.store.Companies.HasLog(ctx)
	if errors.Is(err, ErrTablesChanged) {
		a.add(ChainVerdict{Chain: CompanyLogChain, Company: db.InstallationID, Log: db.Control,
			Verdict: chain.Verdict{Reason: noCompanyLog}, TablesDiffer: true})
		return nil
	}
	if err != nil || !isThere {
		return err
	}
	return a.verifyLogs(ctx, ChainVerdict{Chain: db.Installation, Company: db.InstallationID})
}

func (a *audit) verifyCompany(ctx context.Context, id string) error {
	found, err := listCompanies(ctx, a.store, `company_id = ?`, id)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("company %q: %w", id, db.ErrNotFound)
	}
	return a.verifyLogs(ctx, found[0])
}

func (a *audit) verifyLogs(ctx context.Context, c ChainVerdict) error {
	logs := []db.LogName{db.Actions, db.Control}
	if a.store.Schema() < db.TwoLogs {
		logs = logs[:1]
	}
	number := c.Chain
	for _, c.Log = range logs {
		c.Chain = c.Log.ChainID(number)
		if err := a.verify(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// listCompanies returns the companies that a condition selects and orders, without verdicts.
func listCompanies(ctx context.Context, s *Store, where string, arg string) (found []ChainVerdict, err error) {
	err = s.Read(ctx, func(r *db.Conn) error {
		return r.Each(func(rows *sql.Rows) error {
			var c ChainVerdict
			err := rows.Scan(&c.Chain, &c.Company)
			found = append(found, c)
			return err
		}, "SELECT id, company_id FROM company WHERE "+where, arg)
	})
	if err != nil {
		return nil, fmt.Errorf("list companies: %w", err)
	}
	return found, nil
}

// verify verifies a log, and again if SQLite calls the database corrupt.
func (a *audit) verify(ctx context.Context, c ChainVerdict) error {
	v, err := a.verdict(ctx, c)
	if db.IsDamage(err) {
		v, err = a.verdict(ctx, c)
	}
	if errors.Is(err, db.ErrNotFound) { // no row of the log, or none under its name
		v, err = c, nil
		v.Verdict = chain.Verdict{Reason: "a row of its log is missing, or is of another log"}
	}
	if err != nil {
		return fmt.Errorf("verify %s: %w", c.Title(), err)
	}
	a.add(v)
	return nil
}

func (a *audit) verdict(ctx context.Context, c ChainVerdict) (_ ChainVerdict, err error) {
	c.Verdict, err = a.verifier.Verify(ctx, c.Chain, func(n, of int64) {
		if a.progress != nil {
			a.progress(a.done+n, max(a.total, of))
		}
	})
	if err == nil && c.Valid {
		err = a.store.checkDerived(ctx, &c, a.bytes)
	}
	if err == nil && c.Valid && c.Log == db.Control && a.store.UpToDate() {
		err = a.store.Tables.Verify(ctx, c.Chain, &c.Verdict)
		c.TablesDiffer = err == nil && !c.Valid
	}
	if err == nil && c.Valid && a.checkpoints {
		err = a.store.Checkpoints.verify(ctx, c.Chain, &c.Verdict)
	}
	if !c.Valid {
		c.Bytes = nil
	}
	return c, err
}

func (a *audit) add(v ChainVerdict) {
	if v.Chain == db.Installation && v.Valid {
		if v.Length == 0 {
			return
		}
		v.Valid, v.Reason = false, "the company has no such log"
	}
	a.done += v.Length
	if a.each != nil {
		a.each(v)
	}
	switch {
	case v.Bytes == nil:
	case a.miscounted == nil:
		a.miscounted = &MiscountError{v.Company, v.Log, *v.Bytes, 1}
	default:
		a.miscounted.Logs++
	}
	if !v.Valid && a.first == nil {
		a.first = &VerifyError{Chain: v.Chain, Company: v.Company, Log: v.Log, Index: v.FailedAt, Reason: v.Reason}
	}
}

// Strays finds the chains without a company: those with a head, records or nodes, and the
// gaps in the numbers of companies, which are consecutive. It uses one statement, and so one
// snapshot, because a company may be registering.
func (s *Store) Strays(ctx context.Context) (found []ChainVerdict, err error) {
	err = s.Read(ctx, func(r *db.Conn) error {
		return r.Each(func(rows *sql.Rows) error {
			var v ChainVerdict
			var traces string
			err := rows.Scan(&v.Chain, &traces)
			_, v.Log = db.LogOf(v.Chain)
			v.Reason = "the company of this chain is missing; the file holds " + traces
			found = append(found, v)
			return err
		}, `WITH RECURSIVE recorded (chain) AS (
				SELECT (SELECT id >> 40 FROM record ORDER BY id LIMIT 1)
				UNION ALL
				SELECT (SELECT id >> 40 FROM record WHERE id > (recorded.chain << 40 | 1099511627775) ORDER BY id LIMIT 1)
				FROM recorded WHERE chain IS NOT NULL),
			trace (chain, what) AS (
				SELECT chain, 'a head' FROM `+s.Since(db.TwoLogs, "head", db.OfOneLog("head"))+`
				UNION ALL SELECT chain, 'records' FROM recorded WHERE chain IS NOT NULL
				UNION ALL SELECT DISTINCT chain, 'subtree roots' FROM `+s.Since(db.TwoLogs, "node", db.OfOneLog("node"))+`
				UNION ALL SELECT id - 1, 'a later company' FROM company WHERE id BETWEEN 2 AND `+fmt.Sprint(db.Installation-1)+`)
			SELECT chain, string_agg(what, ', ') FROM trace
			WHERE NOT EXISTS (SELECT 1 FROM company WHERE id = abs(chain)) GROUP BY chain ORDER BY abs(chain), chain DESC`)
	})
	if err != nil {
		return nil, fmt.Errorf("look for chains without a company: %w", err)
	}
	return found, nil
}

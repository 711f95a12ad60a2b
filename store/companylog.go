package store

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/store/db"
	"attestd/store/projection"
)

// unlistedSetting is set in a database from before the log of the companies, until the log is
// created. In any other database, companies without that log mean that the log was removed.
const unlistedSetting = "unlisted_companies"

// listing is the record of a company in the log of the companies. It never changes.
type listing struct {
	Number       int64  `json:"number"` // ID of the action chain
	CompanyID    string `json:"companyId"`
	RegisteredAt string `json:"registeredAt"`
	MetadataHash string `json:"metadataHash"` // "" for no metadata
	Fingerprint  string `json:"fingerprint"`  // of the first signing key
	Logs         struct {
		Actions string `json:"actions"` // origins
		Control string `json:"control"`
	} `json:"logs"`
}

// selectListings returns the SQL for the listings of the companies that a condition selects. A
// missing row of a company yields empty members.
func selectListings(where string) string {
	return `SELECT company.id, company_id, registered_at, metadata, public_key, coalesce(a.origin, ''), coalesce(c.origin, '') FROM company
		LEFT JOIN company_key ON company_key.company = company.id AND generation = 0
		LEFT JOIN log a ON a.company = company.id AND a.name = 'actions' LEFT JOIN log c ON c.company = company.id AND c.name = 'control'
		WHERE ` + where + ` ORDER BY company.id`
}

func scanListing(rows *sql.Rows) (l listing, err error) {
	var metadata sql.NullString
	var public []byte
	err = rows.Scan(&l.Number, &l.CompanyID, &l.RegisteredAt, &metadata, &public, &l.Logs.Actions, &l.Logs.Control)
	l.MetadataHash = hashOf(rawOrNil(metadata))
	if len(public) == ed25519.PublicKeySize {
		l.Fingerprint = keys.Describe(public).Fingerprint
	}
	return l, err
}

// Installation returns the owner of the log of the companies, for operators. It returns ErrNotFound
// before the first company is registered.
func (s Companies) Installation(ctx context.Context) (*Company, error) {
	return s.OfChain(ctx, db.Installation)
}

// listed drafts the records of the log of the companies for a new company, whose rows exist
// already. The first company creates the log.
func (s Companies) listed(w *db.Conn, company int64, now time.Time) ([]chain.Draft, error) {
	var isThere bool
	if err := w.One([]any{&isThere}, `SELECT count(*) > 0 FROM company WHERE id = ?`, int64(db.Installation)); err != nil {
		return nil, err
	}
	if isThere {
		return s.listings(w, "company.id = ?", company)
	}
	var older, unlisted bool
	if err := w.One([]any{&older}, `SELECT count(*) > 0 FROM company WHERE id <> ?`, company); err != nil {
		return nil, err
	}
	if err := drainSetting(w, unlistedSetting, &unlisted); err != nil {
		return nil, err
	}
	if older && !unlisted {
		return nil, s.db.noted(&Company{Chain: db.Installation}, errNoCompanyLog())
	}
	return s.makeLog(w, now)
}

// listOlder creates the log of the companies in a database from before that log. It logs a warning:
// on a database that had the log, it means that the log was removed.
func (s Companies) listOlder(w *db.Conn, now time.Time) ([]chain.Draft, error) {
	var unlisted bool
	if err := drainSetting(w, unlistedSetting, &unlisted); err != nil || !unlisted {
		return nil, err
	}
	if log := s.db.Logger(); log != nil {
		log.Warn("creating the log of the companies, because the database is from before it")
	}
	return s.makeLog(w, now)
}

func errNoCompanyLog() error {
	return &TablesChangedError{Company: db.InstallationID,
		Difference: projection.Difference{Table: projection.TableCompany, Index: -1, What: noCompanyLog}}
}

const noCompanyLog = "there are companies, and the log of the companies is missing"

// makeLog inserts the rows of the installation, and drafts its registration and a record of each
// existing company.
func (s Companies) makeLog(w *db.Conn, now time.Time) ([]chain.Draft, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	c := &Company{Chain: db.Installation, ID: db.InstallationID, RegisteredAt: chain.FormatTime(now), key: private}
	if _, err := w.Exec(`INSERT INTO company (id, company_id, registered_at) VALUES (?, ?, ?)`, c.Chain, c.ID,
		c.RegisteredAt); err != nil {
		return nil, err
	}
	if err := s.insertIdentity(w, c); err != nil {
		return nil, err
	}
	registered, err := s.registration(w, c, nil)
	if err != nil {
		return nil, err
	}
	first, err := s.db.controlDraft(Caller{Company: c}, registered)
	if err != nil {
		return nil, err
	}
	drafts, err := s.listings(w, "company.id < ?", db.Installation)
	return append([]chain.Draft{first}, drafts...), err
}

// insertIdentity inserts the first key and the logs of a company whose row exists.
func (s Companies) insertIdentity(w *db.Conn, c *Company) (err error) {
	if err := s.insertFirstKey(w, c.Chain, c.key, c.RegisteredAt); err != nil {
		return err
	}
	if c.Actions, err = db.InsertLog(w, c.Chain, db.Actions, s.db.logHost); err != nil {
		return err
	}
	c.Control, err = db.InsertLog(w, c.Chain, db.Control, s.db.logHost)
	return err
}

// listings drafts a record of each company that a condition selects.
func (s Companies) listings(w *db.Conn, where string, arg int64) (drafts []chain.Draft, err error) {
	by := Caller{Company: &Company{Chain: db.Installation, ID: db.InstallationID,
		Control: db.Log{Name: db.Control, Chain: CompanyLogChain}}}
	err = w.Each(func(rows *sql.Rows) error {
		l, err := scanListing(rows)
		if err != nil {
			return err
		}
		d, err := s.db.controlDraft(by, controlEvent{CompanyListed, subjectCompany(l.CompanyID), map[string]any{
			"companyId": l.CompanyID, "number": l.Number, "registeredAt": l.RegisteredAt, "metadataHash": l.MetadataHash,
			"fingerprint": l.Fingerprint, "logs": l.Logs,
		}})
		drafts = append(drafts, d)
		return err
	}, selectListings(where), arg)
	if err != nil {
		err = fmt.Errorf("list in the log of the companies: %w", err)
	}
	return drafts, err
}

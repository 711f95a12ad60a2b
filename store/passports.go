package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"attestd/chain"
	"attestd/crypto/cred/details"
	"attestd/store/db"
	"attestd/store/projection"
)

// Passports are those that were issued, and their revocations.
type Passports struct {
	db *base

	states *db.Cache[owned, db.Dated[passportState]]
}

// Passport is the stored state of an issued passport.
type Passport struct {
	JTI       string
	AgentID   string
	Scopes    []string
	IssuedAt  int64 // Unix seconds
	ExpiresAt int64 // Unix seconds
	Details   details.Details
	RevokedAt string  // "" while valid
	Reason    *string // of the revocation
	JKT       string  // thumbprint of the key that it is bound to, or ""

	id, company int64
	scopes      string // a JSON array, as it is stored
	details     string // authorization details in canonical form, or ""
}

var passports = right[Passport, projection.Passport]{
	table: projection.TablePassport, subject: "passport:", title: "jti", order: "issued_at, id",
	columns: func(p *Passport) []column {
		return []column{
			rowID(&p.id), plain("company", &p.company),
			plain("jti", &p.JTI).as("jti"),
			plain("agent_id", &p.AgentID).as("agentId"),
			plain("scopes", &p.scopes).asJSON("scopes"),
			plain("issued_at", &p.IssuedAt).as("issuedAt"),
			plain("expires_at", &p.ExpiresAt).as("expiresAt"),
			optional("revoked_at", &p.RevokedAt),
			nullable("reason", &p.Reason),
			optional("jkt", &p.JKT).as("jkt").ifAny(),
			optional("details", &p.details).asJSON("authorizationDetails").ifAny(),
		}
	},
	row: func(p *Passport) projection.Passport {
		return projection.Passport{AgentID: p.AgentID, Scopes: canonicalList(p.scopes), IssuedAt: p.IssuedAt, ExpiresAt: p.ExpiresAt,
			RevokedAt: p.RevokedAt, Reason: projection.TextOf(p.Reason), JKT: p.JKT, Details: p.details}
	},
}

func scanPassport(rows *sql.Rows) (Passport, error) {
	p, err := passports.scan(rows)
	if err == nil {
		err = p.parse()
	}
	return p, err
}

// parse reads scopes and details as they are stored.
func (p *Passport) parse() (err error) {
	if err := json.Unmarshal([]byte(p.scopes), &p.Scopes); err != nil {
		return fmt.Errorf("%w: scopes of passport %s: %w", db.ErrCorrupt, p.JTI, err)
	}
	if p.Details, err = storedDetails(p.details); err != nil {
		return fmt.Errorf("passport %s: %w", p.JTI, err)
	}
	return nil
}

// insertPassport records a passport. It returns ErrDisabled if its agent is disabled. rotates is
// the passport that it replaces, or "".
func insertPassport(w *db.Conn, company int64, p Passport, rotates string) (issued controlEvent, err error) {
	scopes, err := json.Marshal(p.Scopes)
	if err != nil {
		return issued, err
	}
	p.company, p.scopes, p.details = company, string(scopes), p.Details.String()
	n, err := passports.insertWhere(w, &p, `NOT EXISTS (SELECT 1 FROM agent WHERE company = ?1 AND agent_id = ?3 AND disabled_at IS NOT NULL)`)
	if err == nil && n == 0 {
		err = ErrDisabled
	}
	more := map[string]any{}
	if rotates != "" {
		more["rotates"] = rotates
	}
	return passports.created(PassportIssued, &p, more), err
}

// findPassport reads a passport on a connection for reads or for writes. It returns ErrNotFound for
// an unknown one.
func findPassport(c *db.Conn, company int64, jti string) (Passport, error) {
	return db.Row(c, scanPassport, "SELECT "+passports.list("passport")+" FROM passport WHERE jti = ? AND company = ?", jti, company)
}

// revoke marks a passport as revoked, and returns its new state. It returns ErrNotFound or
// ErrRevoked.
func revoke(w *db.Conn, by Caller, jti string, reason *string) (p Passport, revoked controlEvent, err error) {
	n, err := w.Exec(`UPDATE passport SET revoked_at = ?, reason = ? WHERE jti = ? AND company = ? AND revoked_at IS NULL`,
		chain.FormatTime(by.At), reason, jti, by.Company.Chain)
	if err == nil {
		p, err = findPassport(w, by.Company.Chain, jti)
	}
	if err == nil && n == 0 {
		err = ErrRevoked
	}
	said := map[string]any{"jti": jti, "agentId": p.AgentID, "revokedAt": p.RevokedAt, "reason": reason}
	return p, controlEvent{PassportRevoked, passports.about(jti), said}, err
}

// Record records a passport before it is issued. It returns ErrDisabled if its agent is disabled.
func (s Passports) Record(ctx context.Context, by Caller, p Passport) error {
	err := s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		issued, err := insertPassport(w, by.Company.Chain, p, "")
		return []controlEvent{issued}, err
	})
	if err != nil {
		return fmt.Errorf("record passport %s: %w", p.JTI, err)
	}
	return nil
}

// Passport reads a passport. It returns ErrNotFound if the caller's company never issued it, and
// ErrTablesChanged if the row differs from the control log.
func (v *View) Passport(ctx context.Context, by Caller, jti string) (Passport, error) {
	return v.passports.read(ctx, &v.Source, by, jti)
}

// read implements View.Passport.
func (s Passports) read(ctx context.Context, from *db.Source, by Caller, jti string) (p Passport, err error) {
	err = from.Read(ctx, func(r *db.Conn) error {
		p, err = s.load(r, by.Company, jti)
		return err
	})
	if err != nil {
		return Passport{}, fmt.Errorf("passport %q: %w", jti, err)
	}
	return p, nil
}

// passportState is the cached state of a passport: whether it is revoked, and a digest of what was
// issued.
type passportState struct {
	revoked bool
	issued  chain.Hash
}

// state returns the state of a passport, or ErrNotFound if the caller's company never issued it.
// Results are cached; a revocation takes effect before Passports.Revoke, Passports.Rotate or
// Agents.Disable returns.
func (s Passports) state(ctx context.Context, by Caller, jti string) (passportState, error) {
	return db.Lookup(s.states, owned{by.Company.Chain, jti}, by.At, func() (passportState, error) {
		p, err := s.read(ctx, &s.db.now.Source, by, jti)
		return passportState{p.RevokedAt != "", p.digest()}, err
	})
}

// IsRevoked reports whether a passport is revoked. It returns ErrNotFound if the caller's company
// never issued it.
func (s Passports) IsRevoked(ctx context.Context, by Caller, jti string) (bool, error) {
	state, err := s.state(ctx, by, jti)
	return state.revoked, err
}

// Check returns nil if a presented passport is valid. It returns ErrNotFound if the caller's
// company never issued one with its ID, ErrNotAsIssued if that one has a different agent, scopes or
// times, and ErrRevoked.
func (s Passports) Check(ctx context.Context, by Caller, presented Passport) error {
	state, err := s.state(ctx, by, presented.JTI)
	switch {
	case err != nil:
		return err
	case state.issued != presented.digest():
		err = ErrNotAsIssued
	case state.revoked:
		err = ErrRevoked
	default:
		return nil
	}
	return fmt.Errorf("passport %q: %w", presented.JTI, err)
}

// digest returns the SHA-256 of what was issued: the passport's ID, agent, scopes, times, key and
// authorization details.
func (p Passport) digest() (sum chain.Hash) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %d %d %q %q", p.JTI, p.AgentID, p.Scopes, p.IssuedAt, p.ExpiresAt, p.JKT, p.Details)
	h.Sum(sum[:0])
	return sum
}

// Revoke revokes a passport and returns its new state. It returns ErrNotFound if the company never
// issued it, and ErrRevoked if it is revoked already.
func (s Passports) Revoke(ctx context.Context, by Caller, jti string, reason *string) (p Passport, err error) {
	// forget it whatever the outcome: the next check reads the database
	defer s.states.Forget(owned{by.Company.Chain, jti})
	err = s.db.controlled(ctx, by, func(w *db.Conn) (_ []controlEvent, err error) {
		var revoked controlEvent
		p, revoked, err = revoke(w, by, jti, reason)
		return []controlEvent{revoked}, err
	})
	if err != nil {
		return Passport{}, fmt.Errorf("revoke passport %q: %w", jti, err)
	}
	return p, nil
}

// Rotate revokes the presented passport and records next in one transaction. Of concurrent calls,
// one succeeds and the others get ErrRevoked. Other errors are ErrNotFound, ErrNotAsIssued and
// ErrDisabled.
func (s Passports) Rotate(ctx context.Context, by Caller, presented, next Passport) error {
	defer s.states.Forget(owned{by.Company.Chain, presented.JTI})
	err := s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		issued, err := findPassport(w, by.Company.Chain, presented.JTI)
		if err != nil {
			return nil, err
		}
		if issued.digest() != presented.digest() {
			return nil, ErrNotAsIssued
		}
		_, revoked, err := revoke(w, by, presented.JTI, nil)
		if err != nil {
			return nil, err
		}
		revoked.details["replacedBy"] = next.JTI
		event, err := insertPassport(w, by.Company.Chain, next, presented.JTI)
		return []controlEvent{revoked, event}, err
	})
	if err != nil {
		return fmt.Errorf("rotate passport %q: %w", presented.JTI, err)
	}
	return nil
}

// Revoked yields all revoked passports of the caller's company, ordered by time of revocation.
func (s Passports) Revoked(ctx context.Context, by Caller) iter.Seq2[Passport, error] {
	return db.List(ctx, s.db.DB, "passports", scanPassport, "SELECT "+passports.list("passport")+` FROM passport
		WHERE company = ? AND revoked_at IS NOT NULL AND (revoked_at, id) > (?, ?) ORDER BY revoked_at, id`,
		func(last Passport) []any { return []any{by.Company.Chain, last.RevokedAt, last.id} })
}

// Valid yields the passports of an agent that are valid at the caller's time.
func (s Passports) Valid(ctx context.Context, by Caller, agentID string) iter.Seq2[Passport, error] {
	return db.List(ctx, s.db.DB, "passports", scanPassport, "SELECT "+passports.list("passport")+` FROM passport
		WHERE company = ? AND agent_id = ? AND revoked_at IS NULL AND expires_at > ? AND id > ? ORDER BY id`,
		func(last Passport) []any { return []any{by.Company.Chain, agentID, by.At.Unix(), last.id} })
}

// cursor is a position in the list of passports, newest first. Its text is opaque to clients.
type cursor struct{ issuedAt, id int64 }

func (c cursor) String() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", c.issuedAt, c.id))
}

func parseCursor(s string) (c cursor, err error) {
	if s == "" {
		return cursor{math.MaxInt64, math.MaxInt64}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		_, err = fmt.Sscanf(string(text), "%d.%d", &c.issuedAt, &c.id)
	}
	if err != nil || c.String() != s {
		return cursor{}, fmt.Errorf("cursor: %w", db.ErrNotFound)
	}
	return c, nil
}

// Cursor returns the position of a passport in the list, to continue after it.
func (p Passport) Cursor() string { return cursor{p.IssuedAt, p.id}.String() }

// PassportFilter selects passports. The zero value selects all.
type PassportFilter struct {
	AgentID string
	Status  string // a result of Passport.Status, or "" for all
}

// The states of a passport.
const (
	PassportValid     = "valid"
	PassportIsRevoked = "revoked"
	PassportExpired   = "expired"
)

// Status returns the state of a passport at a time.
func (p Passport) Status(at time.Time) string {
	switch {
	case p.RevokedAt != "":
		return PassportIsRevoked
	case p.ExpiresAt <= at.Unix():
		return PassportExpired
	}
	return PassportValid
}

// passportWindow bounds the number of passports that one filtered call of List reads, because a
// company may have any number of them, and not every filter has an index.
const passportWindow = 100_000

// List yields the selected passports that are older than the cursor after ("" for all), newest
// first. rest is the cursor from which older ones were not read, or "". It returns ErrNotFound for
// an invalid cursor.
func (s Passports) List(
	ctx context.Context, by Caller, f PassportFilter, after string,
) (found iter.Seq2[Passport, error], rest string, err error) {
	from, err := parseCursor(after)
	if err != nil {
		return nil, "", err
	}
	var end cursor
	if f != (PassportFilter{}) {
		if end, err = s.end(ctx, by, from); err != nil {
			return nil, "", err
		}
		if end.id > 0 {
			rest = end.String()
		}
	}
	return db.List(ctx, s.db.DB, "passports", scanPassport, "SELECT "+passports.list("passport")+` FROM passport
		WHERE company = ?1 AND (issued_at, id) >= (?2, ?3) AND (issued_at, id) < (?4, ?5) AND (?6 = '' OR agent_id = ?6)
		AND (?7 = '' OR ?7 = CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= ?8 THEN 'expired' ELSE 'valid' END)
		ORDER BY issued_at DESC, id DESC`,
		func(last Passport) []any {
			at := from
			if last.id > 0 {
				at = cursor{last.IssuedAt, last.id}
			}
			return []any{by.Company.Chain, end.issuedAt, end.id, at.issuedAt, at.id, f.AgentID, f.Status, by.At.Unix()}
		}), rest, nil
}

// end returns the position of the last passport in the window after a cursor, or zero if the window
// holds all remaining ones.
func (s Passports) end(ctx context.Context, by Caller, from cursor) (end cursor, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		err := r.One([]any{&end.issuedAt, &end.id}, `SELECT issued_at, id FROM passport
			WHERE company = ? AND (issued_at, id) < (?, ?) ORDER BY issued_at DESC, id DESC LIMIT 1 OFFSET ?`,
			by.Company.Chain, from.issuedAt, from.id, passportWindow-1)
		if errors.Is(err, db.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return cursor{}, fmt.Errorf("list passports: %w", err)
	}
	return end, nil
}

// load reads a passport and checks it against the control log.
func (s Passports) load(r *db.Conn, company *Company, jti string) (p Passport, err error) {
	var latest, disabling sql.NullInt64
	p, err = db.Row(r, func(rows *sql.Rows) (Passport, error) { return passports.scanAnd(rows, &latest, &disabling) },
		"SELECT "+passports.list("p")+", latest, "+firstDisabling("company", "agent_id", "latest")+
			" FROM (SELECT *, "+passports.latest("passport")+" AS latest FROM passport WHERE jti = ? AND company = ?) AS p", jti, company.Chain)
	if err != nil {
		return Passport{}, err
	}
	l, err := controlRecord(r, company, latest)
	if err != nil {
		return Passport{}, s.db.noted(company, err)
	}
	disabled, err := controlRecord(r, company, disabling)
	if err != nil {
		return Passport{}, s.db.noted(company, err)
	}
	if err := s.db.checked(company, l.Passport(jti, passports.row(&p), disabled)); err != nil {
		return Passport{}, err
	}
	if err := p.parse(); err != nil {
		return Passport{}, err
	}
	return p, nil
}

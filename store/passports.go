package store

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"attestd/chain"
)

// Passport is what is recorded of an issued passport.
type Passport struct {
	JTI       string
	AgentID   string
	Scopes    []string
	IssuedAt  int64   // Unix seconds
	ExpiresAt int64   // Unix seconds
	RevokedAt string  // "" while valid
	Reason    *string // of the revocation
}

// passportColumns are what scanPassport reads.
const passportColumns = "jti, agent_id, scopes, issued_at, expires_at, revoked_at, reason, id"

// scanPassport reads a passport and the number of its row.
func scanPassport(rows *sql.Rows) (p Passport, id int64, err error) {
	var scopes []byte
	var revoked sql.NullString
	if err := rows.Scan(&p.JTI, &p.AgentID, &scopes, &p.IssuedAt, &p.ExpiresAt, &revoked, &p.Reason, &id); err != nil {
		return Passport{}, 0, err
	}
	p.RevokedAt = revoked.String
	if err := json.Unmarshal(scopes, &p.Scopes); err != nil {
		return Passport{}, 0, fmt.Errorf("%w: scopes of passport %s: %w", ErrCorrupt, p.JTI, err)
	}
	return p, id, nil
}

func insertPassport(w *conn, c *Company, p Passport) error {
	scopes, err := json.Marshal(p.Scopes)
	if err != nil {
		return err
	}
	_, err = w.exec(`INSERT INTO passport (company, jti, agent_id, scopes, issued_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)`,
		c.Chain, p.JTI, p.AgentID, string(scopes), p.IssuedAt, p.ExpiresAt)
	return err
}

// findPassport reads a passport on either kind of connection; ErrNotFound.
func findPassport(c *conn, company int64, jti string) (p Passport, err error) {
	err = ErrNotFound
	if e := c.each(func(rows *sql.Rows) error {
		p, _, err = scanPassport(rows)
		return err
	}, "SELECT "+passportColumns+" FROM passport WHERE jti = ? AND company = ?", jti, company); e != nil {
		err = e
	}
	return p, err
}

// revoke marks a passport as revoked; ErrNotFound, ErrRevoked.
func revoke(w *conn, c *Company, jti string, reason *string, now time.Time) error {
	n, err := w.exec(`UPDATE passport SET revoked_at = ?, reason = ? WHERE jti = ? AND company = ? AND revoked_at IS NULL`,
		chain.FormatTime(now), reason, jti, c.Chain)
	if err != nil || n == 1 {
		return err
	}
	if _, err := findPassport(w, c.Chain, jti); err != nil {
		return err
	}
	return ErrRevoked
}

// RecordPassport records a passport that is about to be handed out.
func (s *Store) RecordPassport(ctx context.Context, c *Company, p Passport) error {
	err := s.write(ctx, func(w *conn) error { return insertPassport(w, c, p) })
	if err != nil {
		return fmt.Errorf("record passport %s: %w", p.JTI, err)
	}
	return nil
}

// Passport: ErrNotFound when this company never issued it. Answers are cached; a revocation takes effect before RevokePassport or
// RotatePassport returns.
func (s *Store) Passport(ctx context.Context, c *Company, jti string, now time.Time) (Passport, error) {
	p, err := lookup(&s.passports, owned{c.Chain, jti}, now, func() (p Passport, err error) {
		err = s.read(ctx, func(r *conn) error {
			p, err = findPassport(r, c.Chain, jti)
			return err
		})
		return p, err
	})
	if err != nil {
		return Passport{}, fmt.Errorf("passport %q: %w", jti, err)
	}
	return p, nil
}

// RevokePassport: ErrNotFound, ErrRevoked. It returns the passport as revoked.
func (s *Store) RevokePassport(ctx context.Context, c *Company, jti string, reason *string, now time.Time) (p Passport, err error) {
	defer s.passports.forget(owned{c.Chain, jti}) // whatever the outcome: the next check asks the file
	err = s.write(ctx, func(w *conn) error {
		if err := revoke(w, c, jti, reason, now); err != nil {
			return err
		}
		p, err = findPassport(w, c.Chain, jti)
		return err
	})
	if err != nil {
		return Passport{}, fmt.Errorf("revoke passport %q: %w", jti, err)
	}
	return p, nil
}

// RotatePassport revokes old and records next in one transaction: of many at once, one wins and the others get ErrRevoked. ErrNotFound.
func (s *Store) RotatePassport(ctx context.Context, c *Company, old string, next Passport, now time.Time) error {
	defer s.passports.forget(owned{c.Chain, old})
	err := s.write(ctx, func(w *conn) error {
		if err := revoke(w, c, old, nil, now); err != nil {
			return err
		}
		return insertPassport(w, c, next)
	})
	if err != nil {
		return fmt.Errorf("rotate passport %q: %w", old, err)
	}
	return nil
}

// RevokedPassports returns all, ordered by time of revocation.
func (s *Store) RevokedPassports(ctx context.Context, c *Company) ([]Passport, error) {
	var all []Passport
	err := s.read(ctx, func(r *conn) error {
		return r.each(func(rows *sql.Rows) error {
			p, _, err := scanPassport(rows)
			all = append(all, p)
			return err
		}, "SELECT "+passportColumns+" FROM passport WHERE company = ? AND revoked_at IS NOT NULL ORDER BY revoked_at, id", c.Chain)
	})
	if err != nil {
		return nil, fmt.Errorf("list revoked passports: %w", err)
	}
	return all, nil
}

// cursor is the place of a passport in the list, newest first. Its text is opaque to clients.
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
		return cursor{}, fmt.Errorf("cursor: %w", ErrNotFound)
	}
	return c, nil
}

// Passports returns issued passports, the newest first, those older than the cursor ("" for the first page; next is "" after the last).
// ErrNotFound for what was never a cursor.
func (s *Store) Passports(ctx context.Context, c *Company, after string, limit int) (page []Passport, next string, err error) {
	from, err := parseCursor(after)
	if err != nil {
		return nil, "", err
	}
	var last cursor
	err = s.read(ctx, func(r *conn) error {
		return r.each(func(rows *sql.Rows) error {
			p, id, err := scanPassport(rows)
			if len(page) == limit { // one more than asked for: there is a next page
				next = last.String()
				return err
			}
			page, last = append(page, p), cursor{p.IssuedAt, id}
			return err
		}, "SELECT "+passportColumns+` FROM passport WHERE company = ? AND (issued_at, id) < (?, ?)
			ORDER BY issued_at DESC, id DESC LIMIT ?`, c.Chain, from.issuedAt, from.id, limit+1)
	})
	if err != nil {
		return nil, "", fmt.Errorf("list passports: %w", err)
	}
	return page, next, nil
}

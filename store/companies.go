package store

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
)

// Company is a tenant. Methods that touch a tenant's data demand it, so that no caller can forget whose data it is.
// It is shared, never changes, and holds nothing large: thousands are kept in memory.
type Company struct {
	Chain        int64 // number of its chain
	ID           string
	RegisteredAt string
	LogID        string // of its chain as a log; "" in a file of before there were logs
	Origin       string
	Issuer       *cred.Issuer
	Key          ed25519.PrivateKey
}

// selectCompany begins the statements whose rows scanCompany reads.
func (s *Store) selectCompany() string {
	return "SELECT company.id, company_id, registered_at, seed, " + s.since(logTrees,
		"log_id, origin FROM company LEFT JOIN log ON log.company = company.id AND log.name = 'actions'", "NULL, NULL FROM company")
}

// CreateCompany registers a company with a new key pair, an empty chain and its bootstrap API key, in one transaction. ErrExists.
func (s *Store) CreateCompany(ctx context.Context, id string, metadata json.RawMessage, now time.Time) (*Company, APIKey, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, APIKey{}, err
	}
	c := &Company{ID: id, RegisteredAt: chain.FormatTime(now), Key: private}
	label := "bootstrap"
	key := s.newKey(&label, now)
	empty := chain.EmptyHead()
	err = s.write(ctx, func(w *conn) error {
		if err := w.one([]any{&c.Chain}, `INSERT INTO company (company_id, registered_at, metadata, seed) VALUES (?, ?, ?, ?) RETURNING id`,
			c.ID, c.RegisteredAt, textOrNull(metadata), private.Seed()); err != nil {
			return err
		}
		if _, err := w.exec(`INSERT INTO head (company, length, root, frontier, timestamp, log_root, log_frontier) VALUES (?, 0, ?, x'', '', ?, x'')`,
			c.Chain, empty.Root[:], empty.LogRoot[:]); err != nil {
			return err
		}
		var err error
		if c.LogID, c.Origin, err = insertLog(w, c.Chain, s.logHost); err != nil {
			return err
		}
		return insertKey(w, c.Chain, key, Grant{Role: Admin}, "")
	})
	if isDuplicate(err) {
		return nil, APIKey{}, fmt.Errorf("company %q: %w", id, ErrExists)
	}
	if err != nil {
		return nil, APIKey{}, fmt.Errorf("create company %q: %w", id, err)
	}
	c.Issuer = cred.NewIssuer(s.domain, c.ID, c.Key, &s.verified)
	return c, key, nil
}

// Company finds a company by its companyId; ErrNotFound. Companies are cached: they never change.
func (s *Store) Company(ctx context.Context, id string) (*Company, error) {
	if c, ok := s.companies.get(id); ok {
		return c, nil
	}
	c, err := s.findCompany(ctx, s.selectCompany()+" WHERE company_id = ?", id)
	if err != nil {
		return nil, fmt.Errorf("company %q: %w", id, err)
	}
	return c, nil
}

// CompanyOfChain finds the company that owns a chain; ErrNotFound.
func (s *Store) CompanyOfChain(ctx context.Context, number int64) (*Company, error) {
	if c, ok := s.chains.get(number); ok {
		return c, nil
	}
	c, err := s.findCompany(ctx, s.selectCompany()+" WHERE company.id = ?", number)
	if err != nil {
		return nil, fmt.Errorf("company of chain %d: %w", number, err)
	}
	return c, nil
}

// Metadata returns what the caller's company was registered with, nil when that was nothing.
func (s *Store) Metadata(ctx context.Context, by Caller) (json.RawMessage, error) {
	var metadata sql.NullString
	err := s.read(ctx, func(r *conn) error {
		return r.one([]any{&metadata}, `SELECT metadata FROM company WHERE id = ?`, by.Company.Chain)
	})
	if err != nil {
		return nil, fmt.Errorf("metadata of company %q: %w", by.Company.ID, err)
	}
	return rawOrNil(metadata), nil
}

func (s *Store) findCompany(ctx context.Context, query string, arg any) (c *Company, err error) {
	byID, byChain := s.companies.now(), s.chains.now()
	err = s.read(ctx, func(r *conn) error {
		return r.each(func(rows *sql.Rows) error {
			c, err = s.scanCompany(rows)
			return err
		}, query, arg)
	})
	if err == nil && c == nil {
		err = ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	s.companies.put(byID, c.ID, c)
	s.chains.put(byChain, c.Chain, c)
	return c, nil
}

// Companies returns all companies ordered by companyId, a page at a time: those after the given ID.
func (s *Store) Companies(ctx context.Context, after string, limit int) ([]*Company, error) {
	var page []*Company
	err := s.read(ctx, func(r *conn) error {
		return r.each(func(rows *sql.Rows) error {
			c, err := s.scanCompany(rows)
			page = append(page, c)
			return err
		}, s.selectCompany()+" WHERE company_id > ? ORDER BY company_id LIMIT ?", after, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("list companies: %w", err)
	}
	return page, nil
}

func (s *Store) scanCompany(rows *sql.Rows) (*Company, error) {
	var c Company
	var seed []byte
	var logID, origin sql.NullString
	if err := rows.Scan(&c.Chain, &c.ID, &c.RegisteredAt, &seed, &logID, &origin); err != nil {
		return nil, err
	}
	if len(seed) != ed25519.SeedSize {
		return nil, errors.Join(ErrCorrupt, fmt.Errorf("the key of company %q has %d bytes", c.ID, len(seed)))
	}
	c.LogID, c.Origin = logID.String, origin.String
	c.Key = ed25519.NewKeyFromSeed(seed)
	c.Issuer = cred.NewIssuer(s.domain, c.ID, c.Key, &s.verified)
	return &c, nil
}

// textOrNull is how optional JSON is stored; rawOrNil is how it is read.
func textOrNull(j json.RawMessage) sql.NullString {
	return sql.NullString{String: string(j), Valid: j != nil}
}

func rawOrNil(s sql.NullString) json.RawMessage {
	if !s.Valid {
		return nil
	}
	return json.RawMessage(s.String)
}

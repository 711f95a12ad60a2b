package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"attestd/store/db"
	"attestd/store/projection"
)

// compareTokens checks the HMACs of all access tokens. A token whose HMAC is wrong is invalid, so
// this stops no company: it is a difference of the installation, and stops registrations alone. The
// check is impossible where the database has HMACs in place of the hashes of tokens, which the
// HMACs of the rows cover: there a changed row is refused when it is used.
func (r *comparison) compareTokens(ctx context.Context) error {
	if !r.tables.db.IsUnsealed() {
		return nil
	}
	if err := r.compareSessions(ctx); err != nil {
		return fmt.Errorf("table %s: %w", projection.TablePersonSession, err)
	}
	if r.tables.db.Sealing().HasLookup() {
		return nil
	}
	for _, t := range []struct {
		table, query string
		scan         func(*sql.Rows) (tokenRow, []byte, error)
	}{
		{projection.TableToken, `SELECT t.hash, t.company, t.expires_at, coalesce(c.client_id, ''), t.mac, coalesce(k.thumbprint, ''), t.bound, t.scope, coalesce(t.jkt, ''), coalesce(t.details, '')
			FROM oauth_token t LEFT JOIN oauth_client c ON c.id = t.client AND c.company = t.company
			LEFT JOIN agent_key k ON k.id = t.agent_key AND k.company = t.company WHERE t.hash > ? ORDER BY t.hash LIMIT ?`, scanTokenRow},
		{projection.TableFederatedToken, `SELECT t.hash, t.company, t.expires_at, t.mac, coalesce(f.name, ''), coalesce(f.created_at, ''), t.agent_id, coalesce(t.jkt, ''), coalesce(c.client_id, ''), coalesce(t.delegation, ''), coalesce(t.details, '')
			FROM federated_token t LEFT JOIN federation f ON f.id = t.federation AND f.company = t.company
			LEFT JOIN oauth_client c ON c.id = t.client AND c.company = t.company WHERE t.hash > ? ORDER BY t.hash LIMIT ?`, scanFederatedRow},
	} {
		if err := r.compareTokensOf(ctx, t.table, t.query, t.scan); err != nil {
			return fmt.Errorf("table %s: %w", t.table, err)
		}
	}
	return nil
}

// compareSessions checks the HMACs of the sessions of people.
func (r *comparison) compareSessions(ctx context.Context) error {
	for after, n := []byte{}, tablePage; n == tablePage; {
		err := r.tables.db.Read(ctx, func(c *db.Conn) error {
			page, err := db.All(c, scanPersonSession, `SELECT `+personSessionColumns+`, NULL FROM person_session WHERE hash > ? ORDER BY hash LIMIT ?`, after, tablePage)
			if n = len(page); err != nil || n == 0 {
				return err
			}
			after = page[n-1].hash
			key, err := r.tables.keys.readTokenKey(c)
			if errors.Is(err, db.ErrNotFound) { // so no session counts
				return nil
			}
			for i := range page {
				if err == nil && !hmac.Equal(page[i].sum(key), page[i].mac) {
					r.add(tokenDifference(projection.TablePersonSession, page[i].hash))
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tokenDifference is that of a row whose HMAC is wrong.
func tokenDifference(table string, hash []byte) *projection.Difference {
	return &projection.Difference{Table: table, Row: fmt.Sprintf("%x", hash[:8]), Index: -1,
		What: "is not what its HMAC says, so it counts for nothing: somebody else than the service has written it"}
}

func (r *comparison) compareTokensOf(ctx context.Context, table, query string, scan func(*sql.Rows) (tokenRow, []byte, error)) error {
	for after, n := []byte{}, tablePage; n == tablePage; {
		n = 0
		began := time.Now()
		err := r.tables.db.Read(ctx, func(c *db.Conn) error {
			key, err := r.tables.keys.readTokenKey(c)
			if errors.Is(err, db.ErrNotFound) { // so no token counts
				return nil
			}
			if err != nil {
				return err
			}
			return c.Each(func(rows *sql.Rows) error {
				row, mac, err := scan(rows)
				if err != nil {
					return err
				}
				if after, n = row.hash[:], n+1; !hmac.Equal(row.mac(key), mac) {
					r.add(tokenDifference(table, row.hash[:]))
				}
				return nil
			}, query, after, tablePage)
		})
		if err == nil && n > 0 {
			err = r.pace.rest(ctx, began)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func scanTokenRow(rows *sql.Rows) (t tokenRow, mac []byte, err error) {
	var hash []byte
	var thumbprint string
	var bound bool
	err = rows.Scan(&hash, &t.company, &t.expires, &t.holder, &mac, &thumbprint, &bound, &t.scope, &t.jkt, &t.details)
	if copy(t.hash[:], hash); thumbprint != "" {
		t.holder = heldBy(thumbprint, bound)
	}
	return t, mac, err
}

func scanFederatedRow(rows *sql.Rows) (t tokenRow, mac []byte, err error) {
	var hash []byte
	var company, expires int64
	var f Federated
	var limits string
	if err := rows.Scan(&hash, &company, &expires, &mac, &f.Federation.Name, &f.Federation.CreatedAt, &f.AgentID, &f.JKT, &f.Client, &f.Delegation, &limits); err != nil {
		return t, nil, err
	}
	var sum [sha256.Size]byte
	copy(sum[:], hash)
	f.Ends = time.UnixMilli(expires)
	t = federatedRow(sum, company, f)
	t.details = limits // also where they are no details
	return t, mac, nil
}

package store

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/store/projection"
)

// OAuthClient is a client. Its secret is known only when it is created.
type OAuthClient struct {
	ID        string
	CreatedAt string

	id int64
}

// CreateClient creates a client of the caller's company and its secret, of which only the hash is
// stored. It returns ErrTooMany if the company has most clients.
func (s Credentials) CreateClient(
	ctx context.Context, by Caller, g Grant, most int,
) (client OAuthClient, secret string, err error) {
	client = OAuthClient{ID: "cc_" + rand.Text(), CreatedAt: chain.FormatTime(by.At)}
	secret = keys.NewSecret("cs")
	hash := keys.HashSecret(secret)
	err = s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		if err := checkCount(w, most, `SELECT count(*) FROM oauth_client WHERE company = ?`, by.Company.Chain); err != nil {
			return nil, err
		}
		details := grantDetails(keys.Fingerprint(hash), g)
		details["clientId"] = client.ID
		_, err := w.exec(`INSERT INTO oauth_client (company, client_id, secret_hash, created_at, made_by, role, expires_at, fingerprint)
			VALUES (?, ?, ?, ?, nullif(?, ''), ?, ?, ?)`,
			by.Company.Chain, client.ID, s.db.secrets.Index(hash), client.CreatedAt, by.Credential, g.Role, g.expiresAt(), keys.Fingerprint(hash))
		return []controlEvent{{OAuthClientCreated, subjectClient(client.ID), details}}, err
	})
	if err != nil {
		return OAuthClient{}, "", fmt.Errorf("create OAuth client: %w", err)
	}
	return client, secret, nil
}

// Clients yields the clients of the caller's company in the order of creation.
func (s Credentials) Clients(ctx context.Context, by Caller) iter.Seq2[OAuthClient, error] {
	scan := func(rows *sql.Rows) (o OAuthClient, err error) {
		err = rows.Scan(&o.id, &o.ID, &o.CreatedAt)
		return o, err
	}
	return list(ctx, s.db, "OAuth clients", scan,
		`SELECT id, client_id, created_at FROM oauth_client WHERE company = ? AND id > ? ORDER BY id`,
		func(last OAuthClient) []any { return []any{by.Company.Chain, last.id} })
}

// DeleteClient deletes a client of the caller's company with all its access tokens. It returns the
// fingerprint of the client, if known even with an error, and ErrNotFound for an unknown client.
func (s Credentials) DeleteClient(ctx context.Context, by Caller, clientID string) (fingerprint string, err error) {
	// Forget them whatever the outcome. The next use of the client, and of any token, reads the
	// database.
	defer s.db.credentials.forget()
	defer s.db.clients.forget(clientID)
	err = s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		// The foreign key deletes its tokens.
		if err := w.one([]any{&fingerprint}, `DELETE FROM oauth_client WHERE company = ? AND client_id = ?
			RETURNING fingerprint`, by.Company.Chain, clientID); err != nil {
			return nil, err
		}
		details := map[string]any{"clientId": clientID, "fingerprint": fingerprint}
		return []controlEvent{{OAuthClientDeleted, subjectClient(clientID), details}}, nil
	})
	if err != nil {
		err = fmt.Errorf("delete OAuth client: %w", err)
	}
	return fingerprint, err
}

// oauthSecret is the stored state of a client, for checking its secret.
type oauthSecret struct {
	id          int64
	company     *Company
	hash        []byte
	fingerprint string // of the secret
	grant       Grant
}

// clientSecret reads the state of a client, which never changes, so that it can be cached. An
// unknown client has an empty hash.
func (s Credentials) clientSecret(ctx context.Context, clientID string, now time.Time) (oauthSecret, error) {
	o, err := lookup(s.db, &s.db.clients, clientID, now, func() (o oauthSecret, err error) {
		var number int64
		var expires, latest sql.NullInt64
		var madeBy sql.NullString
		err = s.db.read(ctx, func(r *conn) error {
			return r.one([]any{&o.id, &number, &o.hash, &o.fingerprint, &o.grant.Role, &expires, &madeBy, &latest},
				`SELECT id, company, secret_hash, fingerprint, role, expires_at, made_by, `+latestOf("oauth_client.company", "'oauth-client:' || client_id")+`
				FROM oauth_client WHERE client_id = ?`, clientID)
		})
		if err != nil {
			return o, err
		}
		o.grant.Expires = expiry(expires)
		if o.company, err = s.db.Companies.now(ctx, number); err == nil {
			has := credentialRow(o.fingerprint, string(o.grant.Role), expires, madeBy)
			err = s.check(ctx, o.company, sql.NullString{String: clientID, Valid: true}, latest, has, [32]byte{})
		}
		return o, err
	})
	if errors.Is(err, ErrNotFound) {
		return oauthSecret{}, nil
	}
	return o, err
}

const (
	// how often expired access tokens and used proofs are taken out of the file
	purgeEvery = time.Minute
	// how long ago they expired, so that a clock that leaps ahead for once costs no token that is
	// valid
	purgeAfter = 7 * 24 * time.Hour
	// the same of a used proof, which is refused for its age as soon as the clock is right again
	purgeProofsAfter = time.Hour
)

// IssueToken checks a client's secret in constant time and issues an access token (prefix oauth_),
// of which only the hash is stored. The token has the role of its client, and ends after lifetime
// or with its client. ErrBadClient means an unknown client or a wrong secret.
func (s Credentials) IssueToken(
	ctx context.Context, clientID, secret string, lifetime time.Duration, now time.Time,
) (token string, ends time.Time, err error) {
	client, err := s.clientSecret(ctx, clientID, now)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("issue access token: %w", err)
	}
	if subtle.ConstantTimeCompare(client.hash, s.db.secrets.Index(keys.HashSecret(secret))) != 1 ||
		client.grant.expired(now) {
		return "", time.Time{}, ErrBadClient
	}
	if client.fingerprint != keys.Fingerprint(keys.HashSecret(secret)) {
		err = s.db.Tables.checked(client.company,
			&projection.Difference{Table: projection.TableClient, Row: clientID, Index: -1,
				What: "its hash is of another secret than it names"})
	}
	if err == nil {
		err = s.db.Tables.Changeable(Caller{Company: client.company})
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("issue access token: %w", err)
	}
	ends = now.Add(lifetime)
	if client.grant.expired(ends) {
		ends = client.grant.Expires
	}
	token = keys.NewSecret("oauth")
	index := s.db.secrets.Index(keys.HashSecret(token))
	err = s.db.write(ctx, func(w *conn) error {
		if err := s.purge(w, now); err != nil {
			return err
		}
		key, err := s.needTokenKey(w)
		if err != nil {
			return err
		}
		row := tokenRow{keys.HashSecret(token), client.company.Chain, clientID, ends.UnixMilli()}
		// The client may have been deleted since its secret was looked up.
		n, err := w.exec(`INSERT INTO oauth_token (hash, company, expires_at, client, mac) SELECT ?, company, ?, id, ?
			FROM oauth_client WHERE id = ?`,
			index, ends.UnixMilli(), row.mac(key), client.id)
		if err == nil && n == 0 {
			err = ErrBadClient
		}
		return err
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("issue access token: %w", err)
	}
	return token, ends, nil
}

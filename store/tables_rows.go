package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/crypto/keys"
	"attestd/store/projection"
)

// obeyedTable describes a table whose rows the service obeys: how its rows are read, and how one is
// compared with the control log.
type obeyedTable struct {
	name   string // in a Difference
	query  string // selects the rows of company ?1; a condition must follow
	key    string // column that identifies a row; its value is obeyedRow.key
	cursor string // columns by which rows are ordered and paged
	first  []any  // a cursor before the first row
	scan   func(s *Store, c *Company, rows *sql.Rows) (obeyedRow, error)
	take   func(c projection.Comparison, r obeyedRow) *projection.Difference
}

// obeyedRow is one row.
type obeyedRow struct {
	name   string // in a Difference
	key    any    // value of the column obeyedTable.key
	cursor []any
	row    any    // a type of package projection
	wrong  string // error that the row itself shows; "" for none
}

var obeyedTables = []obeyedTable{
	{projection.TableSigningKey, `SELECT generation, public_key, ended_at, compromised_at, seed FROM company_key WHERE company = ?1 AND `,
		"generation", "generation", []any{-1}, scanSigningKeyRow,
		func(c projection.Comparison, r obeyedRow) *projection.Difference {
			return c.SigningKey(r.name, r.row.(projection.SigningKey))
		}},
	{projection.TableAPIKey, `SELECT id, hash, key, fingerprint, role, expires_at, made_by FROM api_key WHERE company = ?1 AND `,
		"fingerprint", "id", []any{0}, scanAPIKeyRow,
		func(c projection.Comparison, r obeyedRow) *projection.Difference {
			return c.APIKey(r.name, r.row.(projection.Credential))
		}},
	{projection.TableClient, `SELECT id, client_id, fingerprint, role, expires_at, made_by, jwks, jwks_uri, secret_hash FROM oauth_client WHERE company = ?1 AND `,
		"client_id", "id", []any{0}, scanClientRow,
		func(c projection.Comparison, r obeyedRow) *projection.Difference {
			return c.Client(r.name, r.row.(projection.Credential))
		}},
	{projection.TableAgent, `SELECT agent_id, registered_at, metadata, disabled_at FROM agent WHERE company = ?1 AND `,
		"agent_id", "agent_id", []any{""}, scanAgentRow,
		func(c projection.Comparison, r obeyedRow) *projection.Difference {
			return c.Agent(r.name, r.row.(projection.Agent))
		}},
	{projection.TablePassport, `SELECT id, jti, agent_id, scopes, issued_at, expires_at, revoked_at, reason, jkt FROM passport WHERE company = ?1 AND `,
		"jti", "issued_at, id", []any{int64(math.MinInt64), 0}, scanPassportRow,
		func(c projection.Comparison, r obeyedRow) *projection.Difference {
			return c.Passport(r.name, r.row.(projection.Passport))
		}},
	{projection.TableWebhook, `SELECT id, webhook_id, url, agents, actions, fingerprint, disabled_at, disabled_reason, made_by FROM webhook WHERE company = ?1 AND `,
		"webhook_id", "id", []any{0}, scanWebhookRow,
		func(c projection.Comparison, r obeyedRow) *projection.Difference {
			return c.Webhook(r.name, r.row.(projection.Webhook))
		}},
	{projection.TableAgentKey, `SELECT ` + agentKeyColumns + ` FROM agent_key WHERE company = ?1 AND `,
		"thumbprint", "id", []any{0}, scanAgentKeyRow,
		func(c projection.Comparison, r obeyedRow) *projection.Difference {
			return c.AgentKey(r.name, r.row.(projection.AgentKey))
		}},
	{projection.TableTokenKey, `SELECT ` + tokenKeyColumns + ` FROM token_key WHERE company = ?1 AND `,
		"kid", "kid", []any{""}, scanTokenKeyRow,
		func(c projection.Comparison, r obeyedRow) *projection.Difference {
			return c.TokenKey(r.name, r.row.(projection.TokenKey))
		}},
	{projection.TableEnrolment, `SELECT id, agent_id, fingerprint, expires_at, key, hash FROM enrolment WHERE company = ?1 AND `,
		"fingerprint", "id", []any{0}, scanEnrolmentRow,
		func(c projection.Comparison, r obeyedRow) *projection.Difference {
			return c.Enrolment(r.name, r.row.(projection.Enrolment))
		}},
	{projection.TableFederation, `SELECT ` + federationColumns + ` FROM federation f WHERE company = ?1 AND `,
		"name", "id", []any{0}, scanFederationRow,
		func(c projection.Comparison, r obeyedRow) *projection.Difference {
			return c.Federation(r.name, r.row.(projection.Federation))
		}},
	{projection.TablePolicy, `SELECT agent_id, attest FROM attest_policy WHERE company = ?1 AND `,
		// that of the company has the name ""
		"agent_id", "'=' || agent_id", []any{""}, scanPolicyRow,
		func(c projection.Comparison, r obeyedRow) *projection.Difference {
			return c.Policy(r.name, r.row.(projection.Policy))
		}},
	// those of the company, one row at most, have the name ""
	{projection.TableCompanyPolicy, `SELECT company, exchange_audiences FROM company_policy WHERE company = ?1 AND `,
		"''", "company", []any{0}, scanCompanyPolicyRow,
		func(c projection.Comparison, r obeyedRow) *projection.Difference {
			return c.CompanyPolicy(r.row.(projection.CompanyPolicy))
		}},
	{projection.TableSuspension, `SELECT company, suspended_at, reason FROM company_suspension WHERE company = ?1 AND `,
		"''", "company", []any{0}, scanSuspensionRow,
		func(c projection.Comparison, r obeyedRow) *projection.Difference {
			return c.Suspension(r.row.(projection.Suspension))
		}},
	{projection.TableQuota, `SELECT company, max_records, max_bytes FROM company_quota WHERE company = ?1 AND `,
		"''", "company", []any{0}, scanQuotaRow,
		func(c projection.Comparison, r obeyedRow) *projection.Difference {
			return c.Quota(r.row.(projection.Quota))
		}},
}

// tablePage is how many rows are read at once: no read lasts long.
const tablePage = 1024

// readTables compares every row of the company that the service obeys.
func (r *comparison) readTables(ctx context.Context) error {
	if err := r.store.read(ctx, func(c *conn) error {
		has, err := r.store.Tables.companyRow(c, r.company)
		if err != nil {
			return err
		}
		r.add(r.rows.Company(has))
		return c.each(func(rows *sql.Rows) error {
			var name, id, origin string
			err := rows.Scan(&name, &id, &origin)
			if err == nil && !strings.HasSuffix(origin, logPath+id) {
				r.add(&projection.Difference{Table: "log", Row: name, Index: -1, What: fmt.Sprintf("has the ID %q, and the origin %q", id, origin)})
			}
			return err
		}, `SELECT name, log_id, origin FROM log WHERE company = ?`, r.company.Chain)
	}); err != nil {
		return err
	}
	for i := range obeyedTables {
		if err := r.readTable(ctx, &obeyedTables[i]); err != nil {
			return err
		}
	}
	if err := r.readMACs(ctx); err != nil {
		return err
	}
	return r.readSettings(ctx)
}

func (r *comparison) readTable(ctx context.Context, t *obeyedTable) error {
	places := make([]string, len(t.first))
	for i := range places {
		places[i] = fmt.Sprintf("?%d", i+2)
	}
	query := fmt.Sprintf("%s (%s) > (%s) ORDER BY %s LIMIT %d", t.query, t.cursor, strings.Join(places, ", "), t.cursor,
		tablePage)
	for after, n := t.first, tablePage; n == tablePage; {
		n = 0
		if err := ctx.Err(); err != nil {
			return err
		}
		began := time.Now()
		err := r.store.read(ctx, func(c *conn) error {
			return c.each(func(rows *sql.Rows) error {
				row, err := t.scan(r.store, r.company, rows)
				if err != nil {
					return err
				}
				after, n = row.cursor, n+1
				r.add(t.take(r.rows, row))
				if row.wrong != "" {
					r.add(&projection.Difference{Table: t.name, Row: row.name, Index: -1, What: row.wrong, Secret: true})
				}
				return nil
			}, query, append([]any{r.company.Chain}, after...)...)
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

// companyRow reads the row of a company.
func (s Tables) companyRow(c *conn, company *Company) (has projection.Company, err error) {
	var metadata sql.NullString
	err = c.one([]any{&has.RegisteredAt, &metadata, &has.Actions, &has.Control}, `SELECT registered_at, metadata, a.origin, c.origin FROM company
		JOIN log a ON a.company = company.id AND a.name = 'actions' JOIN log c ON c.company = company.id AND c.name = 'control' WHERE company.id = ?`, company.Chain)
	has.MetadataHash = hashOf(metadata)
	return has, err
}

func scanSigningKeyRow(s *Store, c *Company, rows *sql.Rows) (r obeyedRow, err error) {
	var has projection.SigningKey
	var public, seed []byte
	var ended, compromised sql.NullString
	err = rows.Scan(&has.Generation, &public, &ended, &compromised, &seed)
	has.EndedAt, has.Compromised = ended.String, compromised.Valid
	r = obeyedRow{name: keys.Describe(public).Fingerprint, key: has.Generation, cursor: []any{has.Generation}, row: has}
	if err == nil && seed != nil && s.unsealed {
		if _, failed := s.secrets.PrivateKey(c.Chain, has.Generation, seed, public); failed != nil {
			r.wrong = "its private part is of another key"
		}
	}
	return r, err
}

func scanAPIKeyRow(s *Store, c *Company, rows *sql.Rows) (r obeyedRow, err error) {
	var id int64
	var index []byte
	var key, fingerprint, role string
	var expires sql.NullInt64
	var madeBy sql.NullString
	err = rows.Scan(&id, &index, &key, &fingerprint, &role, &expires, &madeBy)
	r = obeyedRow{name: fingerprint, key: fingerprint, cursor: []any{id},
		row: credentialRow(fingerprint, role, expires, madeBy)}
	if err == nil && !s.Credentials.isKey(c, index, key, fingerprint) {
		r.wrong = "its text or its hash is of another key"
	}
	return r, err
}

// isKey reports whether the stored text of an API key matches the key that its row names. It
// returns true if this process cannot read the text.
func (s Credentials) isKey(c *Company, index []byte, stored, fingerprint string) bool {
	if !s.db.unsealed {
		return true // Unseal was not called
	}
	text, err := s.db.secrets.OpenAPIKey(c.Chain, index, stored)
	hash := keys.HashSecret(text)
	return err == nil && keys.Fingerprint(hash) == fingerprint && string(s.db.secrets.Index(hash)) == string(index)
}

func scanClientRow(s *Store, _ *Company, rows *sql.Rows) (r obeyedRow, err error) {
	var id int64
	var client, fingerprint, role string
	var expires sql.NullInt64
	var madeBy, jwks, jwksURI sql.NullString
	var hash []byte
	err = rows.Scan(&id, &client, &fingerprint, &role, &expires, &madeBy, &jwks, &jwksURI, &hash)
	has := credentialRow(fingerprint, role, expires, madeBy)
	has.JWKS, has.JWKSURI = jwks.String, jwksURI.String
	r = obeyedRow{name: client, key: client, cursor: []any{id}, row: has}
	if err == nil && !s.settings.Sealing.HasLookup() && !isHashOf(hash, fingerprint) {
		r.wrong = "its hash is of another secret"
	}
	return r, err
}

// isHashOf reports whether a stored SHA-256 is that of the secret with a fingerprint.
func isHashOf(hash []byte, fingerprint string) bool {
	return len(hash) == sha256.Size && keys.Fingerprint([sha256.Size]byte(hash)) == fingerprint
}

// credentialRow returns the comparable content of the row of an API key or client.
func credentialRow(fingerprint, role string, expires sql.NullInt64, madeBy sql.NullString) projection.Credential {
	has := projection.Credential{Fingerprint: fingerprint, Role: role, MadeBy: madeBy.String}
	if expires.Valid {
		has.ExpiresAt = chain.FormatTime(expiry(expires))
	}
	return has
}

func scanAgentRow(_ *Store, _ *Company, rows *sql.Rows) (r obeyedRow, err error) {
	var id string
	var has projection.Agent
	var metadata, disabled sql.NullString
	err = rows.Scan(&id, &has.RegisteredAt, &metadata, &disabled)
	has.MetadataHash, has.DisabledAt = hashOf(metadata), disabled.String
	return obeyedRow{name: id, key: id, cursor: []any{id}, row: has}, err
}

func scanPassportRow(_ *Store, _ *Company, rows *sql.Rows) (r obeyedRow, err error) {
	var id int64
	var jti string
	var has projection.Passport
	var revoked, reason, jkt sql.NullString
	err = rows.Scan(&id, &jti, &has.AgentID, &has.Scopes, &has.IssuedAt, &has.ExpiresAt, &revoked, &reason, &jkt)
	has.Scopes, has.JKT = canonicalList(has.Scopes), jkt.String
	has.RevokedAt, has.Reason = revoked.String, projection.Text{Value: reason.String, Set: reason.Valid}
	return obeyedRow{name: jti, key: jti, cursor: []any{has.IssuedAt, id}, row: has}, err
}

func scanWebhookRow(_ *Store, _ *Company, rows *sql.Rows) (r obeyedRow, err error) {
	var id int64
	var name, url string
	var has projection.Webhook
	var agents, actions, disabled, reason, madeBy sql.NullString
	err = rows.Scan(&id, &name, &url, &agents, &actions, &has.Fingerprint, &disabled, &reason, &madeBy)
	has.URLHash, has.MadeBy = hashOf(sql.NullString{String: url, Valid: true}), madeBy.String
	has.Agents, has.Actions = canonicalList(agents.String), canonicalList(actions.String)
	if disabled.Valid {
		has.Disabled = reason.String
	}
	return obeyedRow{name: name, key: name, cursor: []any{id}, row: has}, err
}

func scanAgentKeyRow(_ *Store, _ *Company, rows *sql.Rows) (obeyedRow, error) {
	k, err := scanAgentKey(rows)
	return obeyedRow{name: k.Thumbprint, key: k.Thumbprint, cursor: []any{k.id}, row: k.projected()}, err
}

func scanTokenKeyRow(s *Store, c *Company, rows *sql.Rows) (obeyedRow, error) {
	k, err := scanTokenKey(rows)
	r := obeyedRow{name: k.KID, key: k.KID, cursor: []any{k.KID}, row: k.projected()}
	if err == nil && k.stored != nil && s.unsealed {
		failed := s.TokenKeys.parse(c, &k)
		if failed == nil {
			_, failed = k.private()
		}
		if failed != nil {
			r.wrong = "its private part is of another key"
		}
	}
	return r, err
}

func scanEnrolmentRow(_ *Store, _ *Company, rows *sql.Rows) (r obeyedRow, err error) {
	var id, expires int64
	var has projection.Enrolment
	var fingerprint string
	var key sql.NullString
	var hash []byte
	err = rows.Scan(&id, &has.AgentID, &fingerprint, &expires, &key, &hash)
	has.ExpiresAt, has.Key = chain.FormatTime(time.UnixMilli(expires)), key.String
	r = obeyedRow{name: fingerprint, key: fingerprint, cursor: []any{id}, row: has}
	if err == nil && !isHashOf(hash, fingerprint) {
		r.wrong = "its hash is of another token"
	}
	return r, err
}

func scanFederationRow(_ *Store, _ *Company, rows *sql.Rows) (obeyedRow, error) {
	f, err := scanFederation(rows)
	return obeyedRow{name: f.Name, key: f.Name, cursor: []any{f.id}, row: f.projected()}, err
}

func scanPolicyRow(_ *Store, _ *Company, rows *sql.Rows) (r obeyedRow, err error) {
	var agentID string
	var has projection.Policy
	err = rows.Scan(&agentID, &has.Attest)
	return obeyedRow{name: agentID, key: agentID, cursor: []any{"=" + agentID}, row: has}, err
}

func scanCompanyPolicyRow(_ *Store, _ *Company, rows *sql.Rows) (obeyedRow, error) {
	var company int64
	var has projection.CompanyPolicy
	err := rows.Scan(&company, &has.ExchangeAudiences)
	return obeyedRow{key: "", cursor: []any{company}, row: has}, err
}

func scanSuspensionRow(_ *Store, _ *Company, rows *sql.Rows) (obeyedRow, error) {
	var company int64
	var at, reason sql.NullString
	err := rows.Scan(&company, &at, &reason)
	return obeyedRow{key: "", cursor: []any{company}, row: projection.Suspension{SuspendedAt: at.String, Reason: reason.String}}, err
}

func scanQuotaRow(_ *Store, _ *Company, rows *sql.Rows) (obeyedRow, error) {
	var company int64
	var q quotaRow
	err := rows.Scan(&company, &q.records, &q.bytes)
	return obeyedRow{key: "", cursor: []any{company}, row: q.projected()}, err
}

// readSettings compares what was given to the last start, and what the database is, with what the
// log says of it.
func (r *comparison) readSettings(ctx context.Context) error {
	return r.store.read(ctx, func(c *conn) error {
		var text string
		if err := c.one([]any{&text}, `SELECT coalesce((SELECT value FROM setting WHERE name = ?), '{}')`, trustSetting); err != nil {
			return err
		}
		given := map[string]string{}
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return err
		}
		is, err := r.store.readIdentity(c)
		if err != nil {
			return err
		}
		if !r.store.unsealed { // it cannot be told
			is[projection.SettingRowKey] = r.state.Settings[projection.SettingRowKey]
		}
		r.add(r.rows.Settings(given))
		r.add(r.rows.Fixed(is))
		return nil
	})
}

// canonicalList returns a JSON array of strings in canonical form, as in control records.
func canonicalList(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	canonical, err := jcs.Append(nil, []byte(text), maxControlDepth)
	if err != nil {
		return text
	}
	return string(canonical)
}

// hashOf returns the hash by which a control record names a text that may be long or private, or
// "".
func hashOf(text sql.NullString) string {
	if !text.Valid {
		return ""
	}
	hash, _ := hashOrNil([]byte(text.String)).(string)
	return hash
}

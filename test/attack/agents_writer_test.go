package attack

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"attestd/crypto/jose"
	"attestd/crypto/keys"
	"attestd/crypto/statement"
	"attestd/internal/harness"
)

// scribbling is what an attacker without a key writes into the tables of agents' keys, and then
// requests. The request must not be carried out, unless nothing is written.
type scribbling struct {
	what       string
	statements []string
	use        harness.Request
}

// writers writes into copies of a file, in turn while no server runs and while one does, and uses
// what was written. A server must refuse that.
func (p *plot) writers(ctx context.Context, db string) error {
	prepared, err := p.prepareWriters(ctx, db)
	if err != nil {
		return err
	}
	for _, a := range prepared {
		for _, running := range []bool{false, true} {
			if err := p.writes(ctx, db, a, running); err != nil {
				return fmt.Errorf("%s: %w", a.what, err)
			}
		}
	}
	p.Count(2*len(prepared), "writes into the tables")
	return nil
}

// prepareWriters makes what the attackers need: a revoked key, and tokens.
func (p *plot) prepareWriters(ctx context.Context, db string) ([]scribbling, error) {
	s, err := p.Lab.Serve(ctx, db, "--rate-limits", "off")
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Stop() }()
	p.Close()
	p.Client = &harness.Client{Addr: s.Addr}
	revoked, err := enrolKey(p.Client, p.admin, "bot", jose.EdDSA)
	if err != nil {
		return nil, err
	}
	if err := p.Call(200, harness.Request{Method: "DELETE", Path: keysOf("bot") + "/" + revoked.Key().Thumbprint, Key: p.admin}, nil); err != nil {
		return nil, err
	}
	mine, err := jose.GenerateKey(jose.EdDSA)
	if err != nil {
		return nil, err
	}
	spent, err := enrolment(p.Client, p.admin, "evil")
	if err == nil {
		_, err = enrolKey(p.Client, spent, "evil", jose.EdDSA)
	}
	other, err2 := enrolment(p.Client, p.admin, "evil")
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	v, e := p.victim, p.evil
	by := func(key *jose.PrivateKey) string {
		return forgedJWS(key, object{"alg": key.Key().Algorithm, "typ": statement.Type, "kid": key.Key().Thumbprint}, v.claims())
	}
	signsIn := func(key *jose.PrivateKey) harness.Request {
		return signIn(forgedJWS(key, object{"alg": key.Key().Algorithm, "kid": key.Key().Thumbprint}, v.ownClaims(tokenEndpoint)))
	}
	hash := func(token string) string { return fmt.Sprintf("x'%x'", keys.HashSecret(token)) }
	made := "enr_" + rawID() + rawID()
	fingerprint := fmt.Sprintf("%x", sha256.Sum256([]byte(made)))[:16]
	add := fmt.Sprintf(`INSERT INTO agent_key (company, thumbprint, agent_id, jwk, created_at) SELECT company, '%s', 'bot', '%s', created_at FROM agent_key WHERE thumbprint = '%s'`,
		mine.Key().Thumbprint, mine.Key().JWK(), v.kid())
	unrevoke := fmt.Sprintf(`UPDATE agent_key SET revoked_at = NULL WHERE thumbprint = '%s'`, revoked.Key().Thumbprint)
	move := fmt.Sprintf(`UPDATE agent_key SET agent_id = 'bot' WHERE thumbprint = '%s'`, e.kid())
	token := func(set, of string) string { return "UPDATE oauth_token SET " + set + " WHERE hash = " + hash(of) }
	victimsKey := fmt.Sprintf(`agent_key = (SELECT id FROM agent_key WHERE thumbprint = '%s')`, v.kid())
	return []scribbling{
		{"nothing, for a statement", nil, v.attest(p.writer, by(v.key))},
		{"nothing, to sign in", nil, signsIn(v.key)},
		{"nothing, for a key", nil, enrolRequest(other, "evil", mine)},
		{"a key added, for a statement", []string{add}, v.attest(p.writer, by(mine))},
		{"a key added, to sign in", []string{add}, signsIn(mine)},
		{"a revoked key brought back, for a statement", []string{unrevoke}, v.attest(p.writer, by(revoked))},
		{"a revoked key brought back, to sign in", []string{unrevoke}, signsIn(revoked)},
		{"a key given to another agent", []string{move}, v.attest(p.writer, by(e.key))},
		{"a key in the place of another's", []string{fmt.Sprintf(`UPDATE agent_key SET jwk = '%s' WHERE thumbprint = '%s'`, mine.Key().JWK(), v.kid())},
			v.attest(p.writer, forgedJWS(mine, object{"alg": jose.EdDSA, "typ": statement.Type, "kid": v.kid()}, v.claims()))},
		{"an enrolment token added", []string{fmt.Sprintf(`INSERT INTO enrolment (company, hash, fingerprint, agent_id, created_at, expires_at)
			SELECT company, %s, '%s', 'bot', created_at, expires_at FROM enrolment WHERE hash = %s`, hash(made), fingerprint, hash(other))}, enrolRequest(made, "bot", mine)},
		{"an enrolment token given to another agent", []string{"UPDATE enrolment SET agent_id = 'bot' WHERE hash = " + hash(other)}, enrolRequest(other, "bot", mine)},
		{"a spent enrolment token made good again", []string{"UPDATE enrolment SET key = NULL WHERE hash = " + hash(spent)}, enrolRequest(spent, "evil", mine)},
		{"a policy weakened", []string{"UPDATE attest_policy SET attest = 'any' WHERE agent_id = 'bot'"}, v.attest(p.writer, "")},
		{"a policy deleted", []string{"DELETE FROM attest_policy WHERE agent_id = 'bot'"}, v.attest(p.writer, "")},
		{"a token made good for longer", []string{token("expires_at = expires_at + 86400000", e.bearer)}, e.attest(e.bearer, "")},
		{"a token given to another agent", []string{token(victimsKey, e.bearer)}, harness.Request{Method: "GET", Path: keysOf("bot"), Key: e.bearer}},
		{"a bound token made a bearer", []string{token("bound = 0", v.bound)}, harness.Request{Method: "GET", Path: keysOf("bot"), Key: v.bound}},
		{"a token taken from its key", []string{token("agent_key = NULL", e.bearer)}, harness.Request{Method: "GET", Path: "/v1/agents", Key: e.bearer}},
	}, s.Stop()
}

// writes writes into a copy of the file and uses that.
func (p *plot) writes(ctx context.Context, db string, a scribbling, running bool) error {
	folder, err := p.Lab.Folder()
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	to := filepath.Join(folder, "attestd.db")
	for _, rest := range []string{"", headsOf} {
		if err := copyFile(db+rest, to+rest); err != nil {
			return err
		}
	}
	when := "before the start"
	if running {
		when = "while a server runs"
	}
	write := func() error {
		if len(a.statements) == 0 {
			return nil
		}
		return execOn(ctx, to, a.statements...)
	}
	if !running {
		if err := write(); err != nil {
			return err
		}
	}
	s, err := p.Lab.Serve(ctx, to, "--rate-limits", "off")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }()
	c := &harness.Client{Addr: s.Addr}
	defer c.Close()
	if running {
		if err := write(); err != nil {
			return err
		}
	}
	answer, err := c.Do(a.use)
	if err != nil {
		return err
	}
	if (answer.Status >= 400) != (len(a.statements) > 0) {
		p.Errorf("%s %s: is answered %d with %.300s", a.what, when, answer.Status, answer.Body)
	}
	return s.Stop()
}

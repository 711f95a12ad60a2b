package evidence_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"testing"
	"time"

	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

const spiffeCompany = "spiffe://attestd.local/company/acme"

// agentSigner signs as an agent. ES256 signatures are those of RFC 6979, the same in every run.
type agentSigner struct {
	key     *jose.Key
	ed25519 ed25519.PrivateKey
	p256    *ecdsa.PrivateKey
}

func (s *agentSigner) Key() *jose.Key { return s.key }

func (s *agentSigner) Sign(_ context.Context, input string) ([]byte, error) {
	if s.ed25519 != nil {
		return ed25519.Sign(s.ed25519, []byte(input)), nil
	}
	digest := sha256.Sum256([]byte(input))
	der, err := s.p256.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var both struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &both); err != nil {
		return nil, err
	}
	signature := make([]byte, 64)
	both.R.FillBytes(signature[:32])
	both.S.FillBytes(signature[32:])
	return signature, nil
}

// agentKey gives each number the same key pair in every run.
func agentKey(t testing.TB, algorithm string, n byte) *agentSigner {
	t.Helper()
	seed := sha256.Sum256(fmt.Appendf(nil, "agent key %d", n))
	s := new(agentSigner)
	var public crypto.PublicKey
	var err error
	if algorithm == jose.EdDSA {
		s.ed25519 = ed25519.NewKeyFromSeed(seed[:])
		public = s.ed25519.Public()
	} else {
		s.p256, err = ecdsa.ParseRawPrivateKey(elliptic.P256(), seed[:])
		must.OK(t, err)
		public = &s.p256.PublicKey
	}
	s.key, err = jose.NewKey(public)
	must.OK(t, err)
	return s
}

// enrol appends the control record of a key. by is who enrolled it: an API key, an enrolment token
// or, where endorsed is not "", the key before it.
func (c *company) enrol(agent string, key *jose.Key, details map[string]any) string {
	c.t.Helper()
	all := map[string]any{
		"agentId": agent, "thumbprint": key.Thumbprint, "jwk": json.RawMessage(key.JWK()), "label": nil, "expiresAt": nil, "enrolment": nil, "endorsement": nil,
	}
	for name, value := range details {
		all[name] = value
	}
	c.change("agent-key.enrolled", "agent-key:"+key.Thumbprint, all)
	return key.Thumbprint
}

func (c *company) revoke(agent string, key *jose.Key) {
	c.t.Helper()
	at := c.now.Add(time.Second).Format("2006-01-02T15:04:05.000Z")
	c.change("agent-key.revoked", "agent-key:"+key.Thumbprint, map[string]any{"agentId": agent, "thumbprint": key.Thumbprint, "revokedAt": at})
}

// endorse is what old signs for the key after it.
func (c *company) endorse(agent string, old jose.Signer, next *jose.Key) string {
	c.t.Helper()
	e, err := statement.MakeEndorsement(c.t.Context(), old, statement.EndorsementClaims{
		Issuer: spiffeCompany + "/agent/" + agent, Audience: spiffeCompany, IssuedAt: c.now.Unix(), Next: next.Thumbprint,
	})
	must.OK(c.t, err)
	return e.Compact
}

// stated appends a record with a statement, in which change may spoil what is claimed.
func (c *company) stated(p jose.Signer, agent, action, payload string, change func(*statement.Claims)) *statement.Statement {
	c.t.Helper()
	s := c.state(p, agent, action, payload, change)
	c.addStated(agent, action, payload, s.Compact, "")
	return s
}

// state signs a statement of the next second.
func (c *company) state(p jose.Signer, agent, action, payload string, change func(*statement.Claims)) *statement.Statement {
	c.t.Helper()
	hash, err := statement.HashAction(action, agent, c.id, []byte(payload))
	must.OK(c.t, err)
	claims := statement.Claims{
		Issuer: spiffeCompany + "/agent/" + agent, Audience: spiffeCompany, IssuedAt: c.now.Unix(), ActionHash: hash,
		ID: fmt.Sprintf("%s-%d", agent, len(c.logs[0].records)),
	}
	if change != nil {
		change(&claims)
	}
	s, err := statement.Make(c.t.Context(), p, claims)
	must.OK(c.t, err)
	return s
}

// addStated appends a record with any text as its statement.
func (c *company) addStated(agent, action, payload, compact, delegation string) {
	c.t.Helper()
	// add writes payload as it is: the text after it is a further member
	c.add(0, agent, action, payload+`,"statement":`+string(jcs.AppendString(nil, compact)), delegation)
}

// agentKeyFile is evidence for an action with the control records of keys.
func (c *company) agentKeyFile(index int64, keys ...string) *evidence.File {
	c.t.Helper()
	f := c.file(0, index, c.checkpoint(0))
	f.AgentKey = &evidence.AgentKey{Entries: c.keyEntries(c.checkpoint(1), keys...)}
	return f
}

func (c *company) keyEntries(checkpoint []byte, keys ...string) []evidence.Entry {
	about := make(map[string]bool)
	for _, k := range keys {
		about["agent-key:"+k] = true
	}
	return c.entries(checkpoint, func(subject string) bool { return about[subject] })
}

// session is the file of a session with the records that are named, in their order.
func (c *company) session(kid, sid string, keys []string, indexes ...int64) []byte {
	c.t.Helper()
	checkpoint := c.checkpoint(0, witnessA)
	f := c.file(0, 0, checkpoint)
	f.Witnesses = []string{witnessKey(witnessA)}
	f.AgentKey = &evidence.AgentKey{Entries: c.keyEntries(c.checkpoint(1, witnessA), keys...)}
	f.Policies = c.policies
	var text bytes.Buffer
	w, err := evidence.NewSessionWriter(&text, &evidence.SessionFile{
		AgentID: agentID, KeyID: kid, ID: sid, Records: int64(len(indexes)), Checkpoint: string(checkpoint), File: f,
	})
	must.OK(c.t, err)
	read, _, err := tlog.ParseSignedCheckpoint(checkpoint)
	must.OK(c.t, err)
	for _, i := range indexes {
		proof, err := tlog.ProveInclusion(c.t.Context(), c.logs[0], read.Tree, i)
		must.OK(c.t, err)
		must.OK(c.t, w.Write(&c.logs[0].records[i], proof))
	}
	must.OK(c.t, w.Close())
	return text.Bytes()
}

// states signs a session of count actions, the last of which ends it if sealed.
func (c *company) states(p jose.Signer, sid string, count int, sealed bool) (compact []string) {
	c.t.Helper()
	previous := ""
	for i := range count {
		s := c.stated(p, agentID, "step", fmt.Sprintf(`{"n":%d}`, i), func(claims *statement.Claims) {
			claims.Session, claims.Seq, claims.Previous, claims.End = sid, int64(i), previous, sealed && i == count-1
		})
		previous = s.Hash()
		compact = append(compact, s.Compact)
	}
	return compact
}

// forge signs any header and claims.
func forge(t testing.TB, s *agentSigner, header, claims string) string {
	t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	input := encode([]byte(header)) + "." + encode([]byte(claims))
	signature, err := s.Sign(t.Context(), input)
	must.OK(t, err)
	return input + "." + encode(signature)
}

// thumbprint is that of a JWK in the form of RFC 7638.
func thumbprint(jwk string) string {
	sum := sha256.Sum256([]byte(jwk))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

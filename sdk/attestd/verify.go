package attestd

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/crypto/cred"
	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
)

// The checks here ask no service. They are worth what the key is that they are given: one that came
// with the record proves nothing.

// ParsePublicKey reads a key as the service publishes it: PEM, or the x of a JWK.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	if raw, err := base64.RawURLEncoding.Strict().DecodeString(text); err == nil && len(raw) == ed25519.PublicKeySize {
		return raw, nil
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" || len(rest) > 0 {
		return nil, errors.New("neither a public key in PEM nor the x of a JWK")
	}
	read, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the public key: %w", err)
	}
	key, ok := read.(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("not an Ed25519 key")
	}
	return key, nil
}

// Fingerprint is that of a key as the service publishes it: SHA256:….
func Fingerprint(key ed25519.PublicKey) string { return keys.Describe(key).Fingerprint }

// Pin returns the keys of a company that has had no other.
func Pin(key ed25519.PublicKey) chain.KeySet { return chain.KeySet{{Key: key}} }

// Pin returns which of the company's keys signs which record of its actions, if all of them follow
// from one another by proven rotations and the one with the given fingerprint, which came another
// way, is among them.
func (k PublicKeys) Pin(fingerprint string) (chain.KeySet, error) {
	var ring []keyring.Key
	var set chain.KeySet
	for i, key := range k.Keys {
		public, err := ParsePublicKey(key.JWK.X)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i, err)
		}
		if is := keys.Describe(public); is.JWK != key.JWK || is.Fingerprint != key.Fingerprint || is.KID != key.KID || is.PEM != key.PEM {
			return nil, fmt.Errorf("key %d is not the one that it says", i)
		}
		one := keyring.Key{Generation: int64(i), Public: public, From: key.FromIndex, CreatedAt: key.CreatedAt, EndedAt: key.EndedAt, CompromisedAt: key.CompromisedAt}
		if r := key.Rotation; r != nil {
			old, err1 := base64.RawURLEncoding.DecodeString(r.OldSignature)
			next, err2 := base64.RawURLEncoding.DecodeString(r.NewSignature)
			if err := errors.Join(err1, err2); err != nil {
				return nil, fmt.Errorf("key %d: %w", i, err)
			}
			one.Rotation = &keyring.Rotation{Statement: r.Statement, OldSignature: old, NewSignature: next}
		}
		ring, set = append(ring, one), append(set, chain.KeyRange{From: key.FromIndex, Key: public})
	}
	for _, flaw := range keyring.Flaws(k.Origin, ring) {
		if flaw != "" {
			return nil, errors.New("" + flaw)
		}
	}
	if !slices.ContainsFunc(k.Keys, func(key CompanyKey) bool { return key.Fingerprint == fingerprint }) {
		return nil, fmt.Errorf("the key %s is none of the company's", fingerprint)
	}
	return set, nil
}

// Former returns the keys that have ended and were not declared compromised, the newest first. A
// token of such a key counts when it is dated no later than the key's end.
func (k PublicKeys) Former() (former []cred.Former, err error) {
	for _, key := range slices.Backward(k.Keys) {
		if key.EndedAt == "" || key.CompromisedAt != "" {
			continue
		}
		public, err := ParsePublicKey(key.JWK.X)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", key.KID, err)
		}
		ended, err := time.Parse(time.RFC3339, key.EndedAt)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", key.KID, err)
		}
		former = append(former, cred.Former{Key: public, Ended: ended})
	}
	return former, nil
}

// ErrNotGenuine says that what was checked is not what the company has signed.
var ErrNotGenuine = errors.New("not genuine")

// ErrPruned says that the company has signed the hash of a record, and that it cannot be recomputed
// because the payload was pruned. So the record is not shown to be genuine.
var ErrPruned = errors.New("the payload was pruned, and without it the hash cannot be recomputed")

// maxDepth is how deep the service lets JSON be nested, the members of a record around it.
const maxDepth = 128 + 2

// Verify checks that a record was signed as it is with the key of its index: nothing of it was
// changed since. A Proof shows that it is in the chain. Of a record without its payload it checks
// the signature over the hash, and the error is ErrPruned.
func (r Record) Verify(keys chain.KeySet) error {
	if r.Pruned {
		hash, err := parseHash(r.Hash)
		if err == nil {
			err = r.verifySignature(keys, hash)
		}
		if err == nil {
			err = fmt.Errorf("record %d: %w", r.Index, ErrPruned)
		}
		return err
	}
	var parts struct{ Payload, Delegation json.RawMessage }
	if err := json.Unmarshal(r.raw, &parts); err != nil {
		return fmt.Errorf("%w: %w", ErrNotGenuine, err)
	}
	canonical, err := jcs.Append(nil, parts.Payload, maxDepth)
	if err != nil {
		return fmt.Errorf("%w: the payload: %w", ErrNotGenuine, err)
	}
	signed := chain.Record{Index: r.Index, Timestamp: r.Timestamp}
	if parts.Delegation != nil {
		if signed.Delegation, err = jcs.Append(nil, parts.Delegation, maxDepth); err != nil {
			return fmt.Errorf("%w: the delegation: %w", ErrNotGenuine, err)
		}
	}
	hash := signed.ComputeHash(canonical)
	if hash.String() != r.Hash {
		return fmt.Errorf("%w: record %d was changed: it has another hash", ErrNotGenuine, r.Index)
	}
	return r.verifySignature(keys, hash)
}

func (r Record) verifySignature(keys chain.KeySet, hash chain.Hash) error {
	signature, err := base64.RawURLEncoding.Strict().DecodeString(r.Signature)
	key := keys.At(r.Index).Key
	if err != nil || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, hash[:], signature) {
		return fmt.Errorf("%w: record %d is not signed with the company's key", ErrNotGenuine, r.Index)
	}
	return nil
}

// Verify checks the record of a proof, and that it leads to root: one that came another way, such
// as the MerkleRoot of an earlier verification. With "" it is held against the root in the proof,
// which the service may have made up. Where all of this holds and the payload of the record was
// pruned, the error is ErrPruned.
func (p Proof) Verify(keys chain.KeySet, root string) error {
	if err := p.VerifyInclusion(keys, root); err != nil || !p.Record.Pruned {
		return err
	}
	return p.Record.Verify(keys)
}

// VerifyInclusion is Verify, and says nothing of the content of a record whose payload was pruned:
// only that the company has signed its hash, and that this hash leads to root.
func (p Proof) VerifyInclusion(keys chain.KeySet, root string) error {
	if err := p.Record.Verify(keys); err != nil && !errors.Is(err, ErrPruned) {
		return err
	}
	if root == "" {
		root = p.Root
	}
	leaf, err := parseHash(p.Record.Hash)
	if err != nil {
		return err
	}
	var way chain.Proof
	for _, node := range p.Proof {
		sibling, err := parseHash(node.Sibling)
		if err != nil {
			return err
		}
		if node.Position != "left" && node.Position != "right" {
			return fmt.Errorf("%w: a node is neither left nor right", ErrNotGenuine)
		}
		way = append(way, chain.Step{Sibling: sibling, Left: node.Position == "left"})
	}
	if p.Root != root || way.Root(leaf).String() != root {
		return fmt.Errorf("%w: record %d does not lead to the root", ErrNotGenuine, p.Record.Index)
	}
	return nil
}

// Verify checks that a consistency proof leads from one root to the other, both of which came
// another way.
func (p Consistency) Verify(fromRoot, toRoot string) error {
	c := chain.Consistency{From: p.From, To: p.To}
	var err1, err2 error
	c.FromRoot, err1 = parseHash(fromRoot)
	c.ToRoot, err2 = parseHash(toRoot)
	err := errors.Join(err1, err2)
	for _, node := range p.Proof {
		hash, wrong := parseHash(node)
		c.Proof, err = append(c.Proof, hash), errors.Join(err, wrong)
	}
	if err != nil {
		return err
	}
	if p.FromRoot != fromRoot || p.ToRoot != toRoot || !c.Holds() {
		return fmt.Errorf("%w: the chain of %d records does not begin with that of %d", ErrNotGenuine, p.To, p.From)
	}
	return nil
}

func parseHash(text string) (h chain.Hash, err error) {
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == len(h) {
		h = chain.Hash(raw)
	}
	if h.String() != text {
		return h, fmt.Errorf("%w: %.80q is no hash in lower-case hex", ErrNotGenuine, text)
	}
	return h, nil
}

// Issuer is what a verifier of passports knows of the company that issues them.
type Issuer struct {
	CompanyID   string
	TrustDomain string            // "" is attestd.local
	Service     string            // name of the service on the wire; "" is service
	Key         ed25519.PublicKey // with which it signs now
	// the newest first: what each signed before its end may still be valid
	Former []cred.Former
}

// VerifyPassport checks a passport offline, and for a tool unless that is "". It cannot know of a
// revocation; Client.VerifyPassport does. Its errors wrap a *cred.Error with the code of the check
// that failed.
func (i Issuer) VerifyPassport(passport, tool string, now time.Time) (claims cred.PassportClaims, scopeGranted string, err error) {
	return i.VerifyPassportCall(passport, tool, nil, now)
}

// VerifyPassportCall is VerifyPassport for a call of a tool with arguments, which the authorization
// details of the passport must cover too. arguments are JSON, nil where they are not known: then
// only details without any for the tool cover the call.
func (i Issuer) VerifyPassportCall(passport, tool string, arguments json.RawMessage, now time.Time) (claims cred.PassportClaims, scopeGranted string, err error) {
	domain := cred.Domain{TrustDomain: i.TrustDomain, Service: i.Service}
	if domain.TrustDomain == "" {
		domain.TrustDomain = "attestd.local"
	}
	if domain.Service == "" {
		domain.Service = "service"
	}
	if err := errors.Join(domain.Check(), cred.CheckSegment(i.CompanyID)); err != nil {
		return claims, "", fmt.Errorf("%w", err)
	}
	if len(i.Key) != ed25519.PublicKeySize {
		return claims, "", errors.New("no key to check the passport with")
	}
	if claims, err = cred.NewChecker(domain, i.CompanyID, i.Key, i.Former...).CheckPassport(passport, now); err != nil {
		return cred.PassportClaims{}, "", fmt.Errorf("%w", err)
	}
	var asked *string
	if tool != "" {
		asked = &tool
	}
	if scopeGranted, err = claims.Grant(asked, arguments); err != nil {
		return cred.PassportClaims{}, "", fmt.Errorf("%w", err)
	}
	return claims, scopeGranted, nil
}

// Verify checks that a status was signed with the key that the company has now.
func (s PassportStatus) Verify(key ed25519.PublicKey) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(s.raw, &members); err != nil {
		return fmt.Errorf("%w: %w", ErrNotGenuine, err)
	}
	delete(members, "caPublicKey")
	delete(members, "signature")
	plain, err := json.Marshal(members)
	if err != nil {
		return err
	}
	canonical, err := jcs.Append(nil, plain, 2)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotGenuine, err)
	}
	digest := sha256.Sum256(canonical)
	signature, err := base64.RawURLEncoding.Strict().DecodeString(s.Signature)
	if err != nil || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, digest[:], signature) {
		return fmt.Errorf("%w: the status is not signed with the company's key", ErrNotGenuine)
	}
	return nil
}

// CheckEvidence checks an evidence file with the fingerprint of one of the company's keys, which
// came another way. "" trusts nothing, and the verdict is at best evidence.SelfConsistent.
func CheckEvidence(file []byte, fingerprint string) evidence.Verdict {
	return evidence.Check(file, evidence.Trust{Fingerprint: fingerprint})
}

// CheckAgentEvidence is CheckEvidence for what an agent has signed itself. agentKey is the
// thumbprint of one of the agent's keys, which came from the agent. The file fails with
// evidence.BadStatement unless that key has signed the record, or one that follows from it.
func CheckAgentEvidence(file []byte, fingerprint, agentKey string) evidence.Verdict {
	if !jose.IsThumbprint(agentKey) {
		return evidence.Verdict{
			Outcome: evidence.Fails, Code: evidence.BadStatement, Checked: []string{}, NotProven: []string{},
			Reason: "the thumbprint of an agent's key is 43 characters of base64url",
		}
	}
	return evidence.Check(file, evidence.Trust{Fingerprint: fingerprint, AgentKey: agentKey})
}

package attestd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"attestd/crypto/jose"
)

// Signer has the private key of an agent, which may be elsewhere: in a TPM, a keychain or a KMS.
type Signer interface {
	// JWK returns the public key: Ed25519 (RFC 8037) or P-256. It is always the same one.
	JWK() []byte

	// Sign returns 64 bytes: the Ed25519 signature of input or, for P-256, R and S of the ECDSA
	// signature of the SHA-256 of input, 32 bytes each, big-endian. (A KMS returns the latter in
	// DER; its two integers are to be taken out.)
	Sign(ctx context.Context, input []byte) ([]byte, error)
}

// AgentKey is a key with which an agent signs. It is immutable and safe for concurrent use, and
// prints its thumbprint.
type AgentKey struct {
	signer  jose.Signer
	private *jose.PrivateKey // nil where the key is elsewhere
}

// Algorithms of agent keys.
const (
	EdDSA = jose.EdDSA // Ed25519
	ES256 = jose.ES256 // P-256
)

// NewAgentKey generates a key: EdDSA or ES256.
func NewAgentKey(algorithm string) (*AgentKey, error) {
	private, err := jose.GenerateKey(algorithm)
	if err != nil {
		return nil, err
	}
	return &AgentKey{private, private}, nil
}

// ParseAgentKey reads the JWK of a private key.
func ParseAgentKey(jwk []byte) (*AgentKey, error) {
	private, err := jose.ParsePrivateKey(jwk)
	if err != nil {
		return nil, fmt.Errorf("the agent key %w", err)
	}
	return &AgentKey{private, private}, nil
}

// SignWith returns the key of a signer. What the signer returns is verified each time.
func SignWith(s Signer) (*AgentKey, error) {
	key, err := jose.ParseKey(s.JWK())
	if err != nil {
		return nil, fmt.Errorf("the public key of the signer %w", err)
	}
	return &AgentKey{signer: elsewhere{s, key}}, nil
}

// Thumbprint names the key (RFC 7638).
func (k *AgentKey) Thumbprint() string { return k.signer.Key().Thumbprint }

// Algorithm is EdDSA or ES256.
func (k *AgentKey) Algorithm() string { return k.signer.Key().Algorithm }

// SignBytes signs as [Signer] does, for example for a program that lends out its key.
func (k *AgentKey) SignBytes(ctx context.Context, input []byte) ([]byte, error) {
	return k.signer.Sign(ctx, string(input))
}

// JWK is the public key.
func (k *AgentKey) JWK() json.RawMessage { return json.RawMessage(k.signer.Key().JWK()) }

// PrivateJWK is the private key on one line, which MUST be stored where its owner alone can read
// it. A key that is elsewhere has none.
func (k *AgentKey) PrivateJWK() ([]byte, error) {
	if k.private == nil {
		return nil, errors.New("the agent key is elsewhere: its private part cannot be had")
	}
	return slices.Clone(k.private.JWK()), nil
}

// Format prints the thumbprint, whatever the verb.
func (k AgentKey) Format(f fmt.State, _ rune) {
	if k.signer != nil {
		fmt.Fprint(f, "(agent key ", k.signer.Key().Thumbprint, ")")
	}
}

// elsewhere is a jose.Signer that has its signatures from a Signer.
type elsewhere struct {
	signer Signer
	key    *jose.Key
}

func (e elsewhere) Key() *jose.Key { return e.key }

func (e elsewhere) Sign(ctx context.Context, input string) ([]byte, error) {
	return e.signer.Sign(ctx, []byte(input))
}

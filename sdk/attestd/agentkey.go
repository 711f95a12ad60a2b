package attestd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"attestd/crypto/jose"
	"attestd/internal/atomicfile"
	"attestd/internal/regular"
	"attestd/sdk/attestd/private"
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

// AgentFile is what a file with an agent's key says: the private JWK (RFC 7517), with the members
// agent, url, log and known as further members. Its reader can sign as the agent, so it is readable
// by its owner alone (0600).
type AgentFile struct {
	Key      *AgentKey
	SPIFFEID string   // member agent; "" in a JWK of another program
	URL      string   // member url: the service that enrolled the key
	Log      string   // member log: for [IdentityConfig].Log; "" in files from before November 2026
	Known    []string // member known: thumbprints of further keys of the agent
}

// maxAgentFile is the largest number of bytes read of a file with an agent's key.
const maxAgentFile = 64 << 10

// ReadAgentFile reads a file with an agent's key. It refuses one that others can read or replace.
func ReadAgentFile(path string) (AgentFile, error) {
	f, err := regular.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return AgentFile{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return AgentFile{}, err
	}
	if mode := info.Mode(); runtime.GOOS != "windows" && mode.Perm()&0o077 != 0 {
		return AgentFile{}, fmt.Errorf("%s: group or others may read the agent's key (mode %o): revoke it and enrol another", path, mode.Perm())
	}
	if err := private.Check(path); err != nil {
		return AgentFile{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxAgentFile+1))
	if err != nil {
		return AgentFile{}, err
	}
	var extra struct {
		Agent, URL, Log string
		Known           []string
	}
	if len(text) > maxAgentFile || json.Unmarshal(text, &extra) != nil {
		return AgentFile{}, fmt.Errorf("%s has no agent key: it must be the JWK of a private key", path)
	}
	key, err := ParseAgentKey(jwkOf(text))
	if err != nil {
		return AgentFile{}, fmt.Errorf("%s: %w", path, err)
	}
	if extra.Log != "" && !isLog(extra.Log) {
		return AgentFile{}, fmt.Errorf("%s: the member log: %w", path, errNoLog)
	}
	return AgentFile{key, extra.Agent, extra.URL, extra.Log, extra.Known}, nil
}

// jwkOf returns a file's text without the members that are not the JWK's, whose number is not
// limited. What cannot be read is left as it is, so that ParseAgentKey says why.
func jwkOf(text []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil || len(members["known"]) == 0 {
		return text
	}
	delete(members, "known")
	rest, err := json.Marshal(members)
	if err != nil {
		return text
	}
	return rest
}

// Identity is the configuration of an identity with what the file says.
func (a AgentFile) Identity() IdentityConfig {
	return IdentityConfig{Key: a.Key, SPIFFEID: a.SPIFFEID, Log: a.Log, Known: a.Known}
}

// Create writes a new file. It is fs.ErrExist where there is one.
func (a AgentFile) Create(path string) error { return a.put(path, atomicfile.Create) }

// Write writes a file in place of the one that is there.
func (a AgentFile) Write(path string) error {
	return a.put(path, func(path string, text []byte) error { return atomicfile.Replace(path, text, 0o600) })
}

func (a AgentFile) put(path string, write func(path string, text []byte) error) error {
	text, err := a.text()
	if err != nil {
		return err
	}
	folder := filepath.Dir(path)
	if err := private.Check(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := private.Check(path); err != nil {
		return err
	}
	if err := write(path, text); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: there is a key already: %w", path, fs.ErrExist)
	} else if err != nil {
		return err
	}
	return atomicfile.SyncFolder(folder)
}

// text is the private JWK with the other members, on one line.
func (a AgentFile) text() ([]byte, error) {
	jwk, err := a.Key.PrivateJWK()
	if err != nil {
		return nil, err
	}
	extra, err := json.Marshal(struct {
		Agent string   `json:"agent,omitempty"`
		URL   string   `json:"url,omitempty"`
		Log   string   `json:"log,omitempty"`
		Known []string `json:"known,omitempty"`
	}{a.SPIFFEID, a.URL, a.Log, a.Known})
	if err != nil {
		return nil, err
	}
	if len(extra) == len("{}") {
		return jwk, nil
	}
	const end = "}\n"
	return slices.Concat(jwk[:len(jwk)-len(end)], []byte(","), extra[1:], []byte("\n")), nil
}

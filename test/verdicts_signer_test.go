package test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"

	"attestd/internal/must"
)

// signer is a company with its present and earlier keys. Unlike attestd, it signs anything.
type signer struct {
	companyID   string
	private     ed25519.PrivateKey
	der         []byte
	from        int64     // first record that the key signs
	former      []*signer // the oldest first
	ended       time.Time // of a former one
	compromised bool
}

func newSigner(t *testing.T, companyID string) *signer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must.OK(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	must.OK(t, err)
	return &signer{companyID: companyID, private: private, der: der}
}

func hexSHA256(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (s *signer) public() ed25519.PublicKey { return s.private.Public().(ed25519.PublicKey) }

func (s *signer) kid() string { return hexSHA256(string(s.der))[:16] }

func (s *signer) fingerprint() string { return s.published()["fingerprint"].(string) }

// published is the answer of GET /v1/ca/public-key.
func (s *signer) published() map[string]any {
	sum := sha256.Sum256(s.der)
	return map[string]any{
		"companyId": s.companyID, "spiffeId": "spiffe://attestd.local/company/" + s.companyID, "kid": s.kid(),
		"fingerprint": "SHA256:" + base64.RawURLEncoding.EncodeToString(sum[:]),
		"pem":         string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: s.der})),
		"jwk":         map[string]any{"x": base64.RawURLEncoding.EncodeToString(s.public())},
	}
}

func (s *signer) sign(message []byte) string {
	return base64.RawURLEncoding.EncodeToString(ed25519.Sign(s.private, message))
}

func (s *signer) signHash(text string) string {
	digest := sha256.Sum256([]byte(text))
	return s.sign(digest[:])
}

// canonical is the RFC 8785 form by a third-party implementation. What has none is returned as it
// is.
func (s *signer) canonical(t *testing.T, text string) string {
	t.Helper()
	if c := text[0]; c != '{' && c != '[' { // it takes objects and lists only
		return text
	}
	b, err := jcs.Transform([]byte(text))
	must.OK(t, err)
	return string(b)
}

// at is the company with the key that signs a record.
func (s *signer) at(index string) *signer {
	n, _ := strconv.ParseInt(index, 10, 64)
	for _, f := range slices.Backward(append(slices.Clone(s.former), s)) {
		if f.from <= n {
			return f
		}
	}
	return s
}

// record returns a record of these texts, hashed and signed unchanged. delegation "" is none.
func (s *signer) record(t *testing.T, index, timestamp, payload, delegation string) string {
	t.Helper()
	parts := []string{index, strings.ReplaceAll(timestamp, `\n`, "\n"), s.canonical(t, payload)}
	if delegation != "" {
		parts = append(parts, "null")
		if delegation != "null" && delegation != `""` && delegation != "false" {
			parts[3] = s.canonical(t, delegation)
		}
		delegation = `,"delegation":` + delegation
	}
	preimage := strings.Join(parts, "|")
	return fmt.Sprintf(`{"index":%s,"timestamp":"%s","payload":%s%s,"hash":"%s","signature":"%s"}`,
		index, timestamp, payload, delegation, hexSHA256(preimage), s.at(index).signHash(preimage))
}

// untilDashed returns a text with which a record's signature has a character that base64url has and
// base64 has not.
func (s *signer) untilDashed(t *testing.T) string {
	for i := 0; ; i++ {
		text := fmt.Sprint("try ", i)
		record := s.record(t, "7", recordTime, `{"agentId":"bot","companyId":"acme","actionType":"pay","payload":"`+text+`"}`, "")
		if strings.ContainsAny(record[strings.Index(record, `"signature"`):], "-_") {
			return text
		}
	}
}

// object is a JSON object that is changed by members: nil removes one.
func object(base map[string]any, members map[string]any) map[string]any {
	all := maps.Clone(base)
	for name, value := range members {
		if value == nil {
			delete(all, name)
		} else {
			all[name] = value
		}
	}
	return all
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must.OK(t, err)
	return string(b)
}

// Package webhook sends messages to endpoints of others as Standard Webhooks 1.0.0 says
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md). It
// keeps nothing itself.
//
// # Signatures
//
// Each message has three headers: webhook-id, which is the same across retries; webhook-timestamp,
// the Unix seconds of the attempt; and webhook-signature, one or more signatures with a space
// between, each over
//
//	id "." timestamp "." body
//
// "v1," is followed by the HMAC-SHA256 under a secret that both sides know, "v1a," by the Ed25519
// signature that the public key checks; both are in standard base64. While a secret has just been
// replaced, messages carry signatures of both pairs.
//
// # What an endpoint answers
//
// A status of 2xx alone says that the message was taken. 410 asks for no more messages. All else, a
// redirect too, is a failure and is tried again, by [Delay], never sooner than Retry-After says.
package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"time"

	"attestd/crypto/keys"
)

const (
	secretPrefix = "whsec_"
	publicPrefix = "whpk_"
	secretSize   = 32 // bytes
)

// Keys are what signs the messages to one endpoint. The two are independent: who knows the secret,
// as the endpoint does, cannot make a v1a.
type Keys struct {
	secret  []byte
	private ed25519.PrivateKey
}

// NewKeys makes keys at random.
func NewKeys() Keys {
	stored := make([]byte, secretSize+ed25519.SeedSize)
	_, _ = rand.Read(stored) // never returns an error
	return Keys{stored[:secretSize], ed25519.NewKeyFromSeed(stored[secretSize:])}
}

// ParseKeys reads keys as Bytes gives them.
func ParseKeys(stored []byte) (Keys, error) {
	if len(stored) != secretSize+ed25519.SeedSize {
		return Keys{}, errors.New("webhook: keys of another length")
	}
	return Keys{stored[:secretSize:secretSize], ed25519.NewKeyFromSeed(stored[secretSize:])}, nil
}

// Bytes are the keys as they are kept: the secret of the HMAC, and the seed of the private key.
func (k Keys) Bytes() []byte { return append(k.secret[:secretSize:secretSize], k.private.Seed()...) }

// Secret is the secret of the HMAC as an endpoint is given it: whsec_ and base64.
func (k Keys) Secret() string { return secretPrefix + base64.StdEncoding.EncodeToString(k.secret) }

// Public is the key that checks what stands behind v1a; FormatPublic writes it.
func (k Keys) Public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

// Fingerprint names the secret before people, and tells nothing of it.
func (k Keys) Fingerprint() string { return keys.Fingerprint(keys.HashSecret(k.Secret())) }

// FormatPublic is a public key as an endpoint is given it: whpk_ and base64.
func FormatPublic(key ed25519.PublicKey) string {
	return publicPrefix + base64.StdEncoding.EncodeToString(key)
}

// Message is what an endpoint is sent.
type Message struct {
	ID   string // the same for all attempts; no full stop stands in it
	Body []byte // JSON
}

// sign returns the timestamp and the signatures of an attempt.
func (m Message) sign(at time.Time, by []Keys) (timestamp, signatures string) {
	timestamp = strconv.FormatInt(at.Unix(), 10)
	signed := append([]byte(m.ID+"."+timestamp+"."), m.Body...)
	for _, k := range by {
		mac := hmac.New(sha256.New, k.secret)
		mac.Write(signed)
		signatures += " v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)) +
			" v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, signed))
	}
	return timestamp, signatures[min(1, len(signatures)):]
}

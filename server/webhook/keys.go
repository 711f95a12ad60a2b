// Package webhook sends messages to endpoints according to Standard Webhooks 1.0.0
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md). It
// stores nothing.
//
// # Signatures
//
// Each message has three headers: webhook-id, which is the same for all retries; webhook-timestamp,
// the Unix time of the attempt in seconds; and webhook-signature, one or more signatures separated
// by spaces, each over
//
//	id "." timestamp "." body
//
// "v1," is followed by the HMAC-SHA256 with a shared secret, and "v1a," by an Ed25519 signature;
// both are in standard base64. For a while after a rotation of the secret, messages have the
// signatures of both pairs.
//
// # Responses of an endpoint
//
// Only a status of 2xx means that the message was accepted. 410 asks for no more messages.
// Everything else, including redirects, is a failure and is retried according to [Delay], never
// earlier than Retry-After.
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

// Keys sign the messages to one endpoint. The two are independent: the secret, which the endpoint
// knows, does not allow making a v1a signature.
type Keys struct {
	secret  []byte
	private ed25519.PrivateKey
}

// NewKeys generates random keys.
func NewKeys() Keys {
	stored := make([]byte, secretSize+ed25519.SeedSize)
	_, _ = rand.Read(stored) // never returns an error
	return Keys{stored[:secretSize], ed25519.NewKeyFromSeed(stored[secretSize:])}
}

// ParseKeys parses the result of Bytes.
func ParseKeys(stored []byte) (Keys, error) {
	if len(stored) != secretSize+ed25519.SeedSize {
		return Keys{}, errors.New("webhook: keys of another length")
	}
	return Keys{stored[:secretSize:secretSize], ed25519.NewKeyFromSeed(stored[secretSize:])}, nil
}

// Bytes returns the keys for storage: the HMAC secret, and the seed of the private key.
func (k Keys) Bytes() []byte { return append(k.secret[:secretSize:secretSize], k.private.Seed()...) }

// Secret returns the HMAC secret for the endpoint: whsec_ and base64.
func (k Keys) Secret() string { return secretPrefix + base64.StdEncoding.EncodeToString(k.secret) }

// Public returns the key for verifying v1a signatures; FormatPublic formats it.
func (k Keys) Public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

// Fingerprint identifies the secret without revealing it.
func (k Keys) Fingerprint() string { return keys.Fingerprint(keys.HashSecret(k.Secret())) }

// FormatPublic formats a public key for the endpoint: whpk_ and base64.
func FormatPublic(key ed25519.PublicKey) string {
	return publicPrefix + base64.StdEncoding.EncodeToString(key)
}

// Message is a message for an endpoint.
type Message struct {
	ID   string // the same for all attempts; without a full stop
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

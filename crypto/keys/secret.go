package keys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

// NewSecret returns prefix, an underscore and 256 bits of crypto/rand in base64url without padding
// (43 characters).
func NewSecret(prefix string) string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never returns an error: without randomness the process ends
	return prefix + "_" + base64.RawURLEncoding.EncodeToString(random[:])
}

// HashSecret returns the stored hash of a secret that is shown once. SHA-256 suffices, because
// secrets have 256 random bits and cannot be guessed offline.
func HashSecret(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

// Fingerprint identifies a secret without disclosing it: the first 16 hex digits of its hash.
func Fingerprint(hash [32]byte) string { return hex.EncodeToString(hash[:8]) }

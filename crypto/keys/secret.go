package keys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

// NewSecret returns prefix, an underscore and 256 bits of crypto/rand in base64url without padding
// (43 characters).
func NewSecret(prefix string) string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never returns an error: without randomness the process ends
	return prefix + "_" + base64.RawURLEncoding.EncodeToString(random[:])
}

const (
	tokenPrefix = "oauth_"
	tokenTime   = 4 // bytes
	tokenLength = len(tokenPrefix) + (tokenTime+32)*4/3
)

// NewToken returns an access token: the time in milliseconds modulo 2³², which is no secret, and
// 256 bits of crypto/rand, together in base64url without padding (48 characters).
func NewToken(now time.Time) string {
	var content [tokenTime + 32]byte
	binary.BigEndian.PutUint32(content[:], uint32(now.UnixMilli()))
	_, _ = rand.Read(content[tokenTime:])
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(content[:])
}

// HashSecret returns the stored hash of a secret that is shown once. SHA-256 suffices, because
// secrets have 256 random bits and cannot be guessed offline.
//
// The hash of what has the form of NewToken begins with its time, and has the first 28 bytes of the
// SHA-256 behind it. So the rows of tokens that are issued together are adjacent, where otherwise
// each would be written to a page of its own.
func HashSecret(secret string) [32]byte {
	sum := sha256.Sum256([]byte(secret))
	if len(secret) != tokenLength || !strings.HasPrefix(secret, tokenPrefix) {
		return sum
	}
	var content [tokenTime + 32]byte
	if _, err := base64.RawURLEncoding.Decode(content[:], []byte(secret[len(tokenPrefix):])); err != nil {
		return sum
	}
	copy(sum[tokenTime:], sum[:])
	copy(sum[:], content[:tokenTime])
	return sum
}

// Fingerprint identifies a secret without disclosing it: the first 16 hex digits of its hash.
func Fingerprint(hash [32]byte) string { return hex.EncodeToString(hash[:8]) }

package cred

import (
	"crypto/ed25519"
	"crypto/sha256"
	"sync"

	"attestd/internal/bounded"
)

// maxVerified bounds a Verified to a few megabytes.
const maxVerified = 1 << 16

// Verified caches which tokens have a valid signature. Verifying a signature costs ten times all
// other checks, and the same tokens are presented repeatedly. It caches nothing else: claims, times
// and revocation are checked at each use. It is safe for concurrent use; a nil Verified caches
// nothing.
type Verified struct {
	mu   sync.RWMutex
	seen *bounded.Map[[sha256.Size]byte, struct{}] // SHA-256 of key and token
}

func (v *Verified) has(id [sha256.Size]byte) bool {
	if v == nil {
		return false
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	_, ok := v.seen.Get(id)
	return ok
}

// add caches a token. A full cache is cleared first, which costs one signature check per token.
func (v *Verified) add(id [sha256.Size]byte) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen == nil {
		v.seen = bounded.NewMap[[sha256.Size]byte, struct{}](maxVerified)
	}
	v.seen.Put(id, struct{}{})
}

// verifiedID is a hash of a complete compact token and its key. The key has a fixed length, so the
// hashed text is unambiguous.
func verifiedID(key ed25519.PublicKey, compact string) [sha256.Size]byte {
	buf := make([]byte, 0, 1024)
	return sha256.Sum256(append(append(buf, key...), compact...))
}

package cred

import (
	"crypto/ed25519"
	"crypto/sha256"
	"sync"
)

// maxVerified bounds what a Verified holds, to a few megabytes.
const maxVerified = 1 << 16

// Verified remembers which tokens carry a good signature, for a signature costs ten times what all
// the other checks of a token do together, and the same token is shown again and again. It knows
// nothing else of a token: claims and times are checked at each sight, and so is revocation by
// whoever asks. It is safe for concurrent use; a nil one remembers nothing.
type Verified struct {
	mu   sync.RWMutex
	seen map[[sha256.Size]byte]struct{} // SHA-256 of key and token
}

func (v *Verified) has(id [sha256.Size]byte) bool {
	if v == nil {
		return false
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	_, ok := v.seen[id]
	return ok
}

// add remembers a token. A full memory starts over: to be forgotten costs one signature check.
func (v *Verified) add(id [sha256.Size]byte) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen == nil || len(v.seen) >= maxVerified {
		v.seen = make(map[[sha256.Size]byte]struct{})
	}
	v.seen[id] = struct{}{}
}

// verifiedID binds a compact token, every byte of it, to the key that is to have signed it. A key
// has a fixed length, so there is one way to read what is hashed.
func verifiedID(key ed25519.PublicKey, compact string) [sha256.Size]byte {
	buf := make([]byte, 0, 1024)
	return sha256.Sum256(append(append(buf, key...), compact...))
}

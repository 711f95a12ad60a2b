package chain

import (
	"crypto/ed25519"
	"crypto/sha256"
)

// maxHeads bounds the remembered heads. It allows 10,000 busy chains, because a miss reads the key
// too. Each head has about 1 KiB with its key, after a million records 2 KiB: 32 MiB at most.
const maxHeads = 1 << 14

// signedHead is a head, the key that signs the record after it, and the epoch of both on disk.
type signedHead struct {
	Head
	epoch     int64 // see Base
	key       ed25519.PrivateKey
	keyDigest [sha256.Size]byte // of its public part, for leaves
	limit     Limit
	cached    bool // from an earlier batch
	shared    bool // must not be cached, because other processes write the chain
}

// heads is the only owner of what a process builds on: the heads of chains as it has committed
// them, or read them since, with their epochs. The storage of either engine gets them back in an
// Extension and remembers none. A head is put here after its commit, and forgotten when it was
// stale, when its key was changed, and when another process has written. The goroutine of Log.Run
// uses it.
type heads map[int64]signedHead

// put remembers a head, unless other processes write the chain.
func (h heads) put(chain int64, head signedHead) {
	if !head.shared {
		cachePut(h, maxHeads, chain, head)
	}
}

// forget drops the heads of chains.
func (h heads) forget(chains []int64) {
	for _, chain := range chains {
		delete(h, chain)
	}
}

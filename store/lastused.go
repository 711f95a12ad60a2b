package store

import (
	"sync"

	"attestd/store/db"
)

// credentialID identifies the row of an API key or an OAuth client; the other field is zero.
type credentialID struct{ key, client int64 }

// maxLastUsed bounds the number of uses that are not written yet.
const maxLastUsed = 16384

// lastUsed has the hours of the last use of credentials that are not written yet. The next write of
// anything else stores them, so no request waits for it, and credentials stay valid while writes
// fail.
type lastUsed struct {
	mu      sync.Mutex
	pending map[credentialID]string
}

// enqueue records a use. written is the stored hour.
func (u *lastUsed) enqueue(id credentialID, hour, written string) {
	if hour <= written {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pending == nil || len(u.pending) >= maxLastUsed {
		u.pending = make(map[credentialID]string)
	}
	u.pending[id] = hour
}

// last returns the later of the stored and the pending hour.
func (u *lastUsed) last(id credentialID, written string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return max(written, u.pending[id])
}

// drain removes and returns up to most pending entries. If the transaction fails, they are lost
// until the next use.
func (u *lastUsed) drain(most int) map[credentialID]string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.pending) <= most {
		drained := u.pending
		u.pending = nil
		return drained
	}
	drained := make(map[credentialID]string, most)
	for id, hour := range u.pending {
		if len(drained) == most {
			break
		}
		drained[id] = hour
		delete(u.pending, id)
	}
	return drained
}

// write stores the pending entries in the current transaction.
func (u *lastUsed) write(c *db.Conn) error {
	for id, hour := range u.drain(maxLastUsed) {
		if _, err := c.Exec(`UPDATE api_key SET last_used_at = ? WHERE id = ?`, hour, id.key); err != nil {
			return err
		}
		if _, err := c.Exec(`UPDATE oauth_client SET last_used_at = ? WHERE id = ?`, hour, id.client); err != nil {
			return err
		}
	}
	return nil
}

package ledger

import (
	"sync"

	"attestd/store/db"
)

// CredentialID identifies the row of an API key or an OAuth client; the other field is zero.
type CredentialID struct{ Key, Client int64 }

// maxLastUsed bounds the number of uses that are not written yet.
const maxLastUsed = 16384

// LastUsed has the hours of the last use of credentials that are not written yet. The next write of
// anything else stores them, so no request waits for it, and credentials stay valid while writes
// fail.
type LastUsed struct {
	mu      sync.Mutex
	pending map[CredentialID]string
}

// Enqueue records a use. written is the stored hour.
func (u *LastUsed) Enqueue(id CredentialID, hour, written string) {
	if hour <= written {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pending == nil || len(u.pending) >= maxLastUsed {
		u.pending = make(map[CredentialID]string)
	}
	u.pending[id] = hour
}

// Last returns the later of the stored and the pending hour.
func (u *LastUsed) Last(id CredentialID, written string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return max(written, u.pending[id])
}

// drain removes and returns up to most pending entries. If the transaction fails, they are lost
// until the next use.
func (u *LastUsed) drain(most int) map[CredentialID]string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.pending) <= most {
		drained := u.pending
		u.pending = nil
		return drained
	}
	drained := make(map[CredentialID]string, most)
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
func (u *LastUsed) write(c *db.Conn) error {
	for id, hour := range u.drain(maxLastUsed) {
		if _, err := c.Exec(`UPDATE api_key SET last_used_at = ? WHERE id = ?`, hour, id.Key); err != nil {
			return err
		}
		if _, err := c.Exec(`UPDATE oauth_client SET last_used_at = ? WHERE id = ?`, hour, id.Client); err != nil {
			return err
		}
	}
	return nil
}

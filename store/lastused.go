package store

import "sync"

// credentialID is an API key or an OAuth client: the row of one of the two.
type credentialID struct{ key, client int64 }

// uses is in which hour credentials were used last, as far as the file does not know it yet. It is
// written with whatever is written next: nobody waits for it, and a credential is as good where
// nothing can be written.
type uses struct {
	mu      sync.Mutex
	pending map[credentialID]string
}

// note takes down a use. written is what the file says.
func (u *uses) note(id credentialID, hour, written string) {
	if hour <= written {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pending == nil || len(u.pending) >= maxCached {
		u.pending = make(map[credentialID]string)
	}
	u.pending[id] = hour
}

// last is the later of what the file says and what it does not know yet.
func (u *uses) last(id credentialID, written string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return max(written, u.pending[id])
}

// take hands over what is pending, of so many at most. Lost with a transaction that fails, it is
// noted again at the next use.
func (u *uses) take(most int) map[credentialID]string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.pending) <= most {
		taken := u.pending
		u.pending = nil
		return taken
	}
	taken := make(map[credentialID]string, most)
	for id, hour := range u.pending {
		if len(taken) == most {
			break
		}
		taken[id] = hour
		delete(u.pending, id)
	}
	return taken
}

// write puts what is pending into the transaction under way.
func (u *uses) write(c *conn) error {
	for id, hour := range u.take(maxCached) {
		if _, err := c.exec(`UPDATE api_key SET last_used_at = ? WHERE id = ?`, hour, id.key); err != nil {
			return err
		}
		if _, err := c.exec(`UPDATE oauth_client SET last_used_at = ? WHERE id = ?`, hour, id.client); err != nil {
			return err
		}
	}
	return nil
}

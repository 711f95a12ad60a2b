package store

import "sync"

// credentialID is an API key or an OAuth client: the row of one of the two.
type credentialID struct{ key, client int64 }

// lastUsed is in which hour credentials were used last, as far as the file does not know it yet. It
// is written with whatever is written next: nobody waits for it, and a credential is as good where
// nothing can be written.
type lastUsed struct {
	mu      sync.Mutex
	pending map[credentialID]string
}

// enqueue remembers a use. written is what the file says.
func (u *lastUsed) enqueue(id credentialID, hour, written string) {
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
func (u *lastUsed) last(id credentialID, written string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return max(written, u.pending[id])
}

// drain hands over what is pending, of so many at most. Lost with a transaction that fails, it is
// enqueued again at the next use.
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

// write puts what is pending into the transaction under way.
func (u *lastUsed) write(c *conn) error {
	for id, hour := range u.drain(maxCached) {
		if _, err := c.exec(`UPDATE api_key SET last_used_at = ? WHERE id = ?`, hour, id.key); err != nil {
			return err
		}
		if _, err := c.exec(`UPDATE oauth_client SET last_used_at = ? WHERE id = ?`, hour, id.client); err != nil {
			return err
		}
	}
	return nil
}

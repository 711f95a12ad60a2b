package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"attestd/internal/harness"
)

// fill lets six clients write until the log has a length.
func (j *journal) fill(ctx context.Context, addr, key, wal string, most int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var clients sync.WaitGroup
	for who := range 6 {
		clients.Go(func() {
			w := &scribe{Client: harness.Client{Addr: addr}, journal: j, key: key, wal: wal}
			defer w.Close()
			for n := 0; ctx.Err() == nil; n++ {
				length, err := w.write(who, n)
				if err != nil {
					cancel(err)
				}
				if length > most {
					return
				}
			}
		})
	}
	clients.Wait()
	return context.Cause(ctx)
}

// scribe is one client that writes, and keeps the journal.
type scribe struct {
	harness.Client
	*journal
	key, wal string
}

// call sends a request and returns the length of the log after the response, or 0 if it is not
// needed.
func (w *scribe) call(status int, method, path, body string, dest any) (int64, error) {
	if err := w.Call(status, harness.Request{Method: method, Path: path, Key: w.key, Body: body}, dest); err != nil {
		return 0, err
	}
	if w.wal == "" {
		return 0, nil
	}
	log, err := os.Stat(w.wal)
	if err != nil {
		return 0, err
	}
	return log.Size(), nil
}

func (w *scribe) write(who, n int) (length int64, err error) {
	switch {
	case who == 0:
		return w.deleteKey(n)
	case who == 1:
		return w.revoke(n)
	}
	var record struct {
		Index int64
		Hash  string
	}
	body := fmt.Sprintf(`{"agentId":"bot %d","actionType":"count","payload":{"n":%d,"pad":%q}}`, who, n,
		strings.Repeat("x", n*97%5000))
	if length, err = w.call(201, "POST", "/v1/attest", body, &record); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hashes[record.Index] != "" {
		return 0, fmt.Errorf("index %d is given twice", record.Index)
	}
	w.hashes[record.Index], w.records[record.Index] = record.Hash, length
	return length, nil
}

// deleteKey creates a key, and deletes all but a few, because the number of keys is bounded.
func (w *scribe) deleteKey(n int) (int64, error) {
	var made struct{ Key string }
	length, err := w.call(201, "POST", "/v1/keys", "", &made)
	if err != nil {
		return 0, err
	}
	l := &life{made: length}
	if n%20 > 0 {
		if length, err = w.call(200, "DELETE", "/v1/keys/"+made.Key, "", nil); err != nil {
			return 0, err
		}
		l.end, l.ended = length, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys[made.Key] = l
	return length, nil
}

// revoke issues a passport, and revokes two of three.
func (w *scribe) revoke(n int) (int64, error) {
	var made struct{ Passport string }
	length, err := w.call(201, "POST", "/v1/agents/bot/passport", "", &made)
	if err != nil {
		return 0, err
	}
	jti, err := jtiOf(made.Passport)
	if err != nil {
		return 0, err
	}
	l := &life{made: length}
	if n%3 > 0 {
		if length, err = w.call(200, "POST", "/v1/passports/"+jti+"/revoke", `{"reason":"lost"}`, nil); err != nil {
			return 0, err
		}
		l.end, l.ended = length, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.passports[jti] = l
	return length, nil
}

// jtiOf returns the ID of a token.
func jtiOf(token string) (string, error) {
	k, err := takeApart("passport", token)
	jti, _ := k.claims["jti"].(string)
	if err == nil && jti == "" {
		err = errors.New("a passport without jti")
	}
	return jti, err
}

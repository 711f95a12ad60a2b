package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"attestd/test/internal/harness"
)

// journal is what a server has acknowledged, each with the length that its log had at most by then.
type journal struct {
	mu        sync.Mutex
	hashes    map[int64]string // of the records, by index
	records   map[int64]int64  // lengths of the log
	keys      map[string]*life // API keys
	passports map[string]*life // by jti
}

// life is when something was made, and when it was deleted or revoked, if it was.
type life struct {
	made, end int64
	ended     bool
}

func newJournal() *journal {
	return &journal{hashes: map[int64]string{}, records: map[int64]int64{}, keys: map[string]*life{}, passports: map[string]*life{}}
}

// atRest is the same when there is no log any more: all was written before any length.
func (j *journal) atRest() *journal {
	k := newJournal()
	for index, hash := range j.hashes {
		k.hashes[index], k.records[index] = hash, 0
	}
	for key, l := range j.keys {
		k.keys[key] = &life{ended: l.ended}
	}
	for jti, l := range j.passports {
		k.passports[jti] = &life{ended: l.ended}
	}
	return k
}

func (j *journal) writes() int {
	n := len(j.records)
	for _, list := range []map[string]*life{j.keys, j.passports} {
		for _, l := range list {
			n++
			if l.ended {
				n++
			}
		}
	}
	return n
}

// fill has six clients write until the log has a length.
func (j *journal) fill(ctx context.Context, step func(int, int, string), addr, key, wal string, most int64) error {
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
				step(int(length>>10), int(most>>10), "KB of log")
				if length > most {
					return
				}
			}
		})
	}
	clients.Wait()
	return context.Cause(ctx)
}

// scribe is one client that writes and keeps the journal.
type scribe struct {
	harness.Client
	*journal
	key, wal string
}

// call makes a call and returns how long the log is after its answer; 0 when nobody wants to know.
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
	body := fmt.Sprintf(`{"agentId":"bot %d","actionType":"count","payload":{"n":%d,"pad":%q}}`, who, n, strings.Repeat("x", n*97%5000))
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

// deleteKey makes a key, and deletes all but a few: there is a bound on how many a company may have.
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

// jtiOf reads the ID of a token.
func jtiOf(token string) (string, error) {
	k, err := takeApart("passport", token)
	jti, _ := k.claims["jti"].(string)
	if err == nil && jti == "" {
		err = errors.New("a passport without jti")
	}
	return jti, err
}

// judge says what is wrong with a verdict about a file whose log was cut at a length.
func (j *journal) judge(v harness.Verdict, cut int64) (wrong []string) {
	least := int64(0)
	for index, at := range j.records {
		if at <= cut {
			least = max(least, index+1)
		}
	}
	if v.CompanyID != "acme" || v.Records < least || v.Records > int64(len(j.records)) {
		return []string{fmt.Sprintf("%d records were acknowledged before the cut; the file says %+v", least, v)}
	}
	leaves := make([]string, v.Records)
	for index := range leaves {
		if leaves[index] = j.hashes[int64(index)]; leaves[index] == "" {
			return []string{fmt.Sprintf("nobody was answered with record %d", index)}
		}
	}
	if root := merkleRoot(leaves); root != v.MerkleRoot {
		wrong = append(wrong, fmt.Sprintf("the %d records that were acknowledged have the root %s, the file says %s", len(leaves), root, v.MerkleRoot))
	}
	return wrong
}

// ask looks for all that was acknowledged before the cut in a server of the file.
func (j *journal) ask(c *harness.Client, key string, cut int64) (wrong []string) {
	var chain struct {
		Records []struct{ Hash string }
	}
	var keys struct{ Keys []struct{ Key string } }
	var list struct{ Revoked []struct{ JTI string } }
	for path, dest := range map[string]any{"/v1/chain": &chain, "/v1/keys": &keys, "/v1/passports/revoked": &list} {
		if err := c.Call(200, harness.Request{Method: "GET", Path: path, Key: key}, dest); err != nil {
			return []string{err.Error()}
		}
	}
	for index, at := range j.records {
		if at <= cut && (index >= int64(len(chain.Records)) || chain.Records[index].Hash != j.hashes[index]) {
			wrong = append(wrong, fmt.Sprintf("record %d is lost or another", index))
		}
	}
	there, revoked := map[string]bool{}, map[string]bool{}
	for _, k := range keys.Keys {
		there[k.Key] = true
	}
	for _, p := range list.Revoked {
		revoked[p.JTI] = true
	}
	for k, l := range j.keys {
		switch {
		case !l.ended && l.made <= cut && !there[k]:
			wrong = append(wrong, "a key is lost")
		case l.ended && l.end <= cut && there[k]:
			wrong = append(wrong, "a deleted key is there again")
		case l.ended && l.end <= cut:
			if err := c.Call(401, harness.Request{Method: "GET", Path: "/v1/company", Key: k}, nil); err != nil {
				wrong = append(wrong, "with a deleted key: "+err.Error())
			}
		}
	}
	for jti, l := range j.passports {
		if l.ended && l.end <= cut && !revoked[jti] {
			wrong = append(wrong, "the revocation of "+jti+" is lost")
		}
		if l.made > cut || l.end > cut { // then it may be either
			continue
		}
		var status struct{ Status string }
		if err := c.Call(200, harness.Request{Method: "GET", Path: "/v1/ocsp/" + jti, Key: key}, &status); err != nil {
			return append(wrong, err.Error())
		}
		if want := map[bool]string{true: "revoked", false: "valid"}[l.ended]; status.Status != want {
			wrong = append(wrong, fmt.Sprintf("passport %s is %s, was %s", jti, status.Status, want))
		}
	}
	return wrong
}

// merkleRoot is the root over hashes as the API document says: split at the largest power of two below n, join as hex.
func merkleRoot(leaves []string) string {
	if len(leaves) == 1 {
		return leaves[0]
	}
	text := ""
	if len(leaves) > 1 {
		split := 1
		for split*2 < len(leaves) {
			split *= 2
		}
		text = merkleRoot(leaves[:split]) + merkleRoot(leaves[split:])
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

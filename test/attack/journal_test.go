package attack

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"attestd/internal/harness"
)

// journal lists what a server has acknowledged, each with the maximum length of its log at that
// time.
type journal struct {
	mu        sync.Mutex
	hashes    map[int64]string // of the records, by index
	records   map[int64]int64  // lengths of the log
	keys      map[string]*life // API keys
	passports map[string]*life // by jti
}

// life is when something was created, and when it was deleted or revoked, if it was.
type life struct {
	made, end int64
	ended     bool
}

func newJournal() *journal {
	return &journal{hashes: map[int64]string{}, records: map[int64]int64{}, keys: map[string]*life{},
		passports: map[string]*life{}}
}

// atRest returns the journal for a database without a log: everything was written before any
// length.
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

// judge lists what is wrong with a verdict on a file whose log was truncated at a length.
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
		wrong = append(wrong, fmt.Sprintf("the %d records that were acknowledged have the root %s, the file says %s",
			len(leaves), root, v.MerkleRoot))
	}
	return wrong
}

// ask queries a server of the file for everything that was acknowledged before the cut.
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
		if l.made > cut || l.end > cut { // it may be in either state
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

// merkleRoot computes the root over hashes as in the API document: split at the largest power of
// two below n, joined as hex.
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

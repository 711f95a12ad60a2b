package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/store/storetest"
)

// waited is what testdata/clients/waiting prints.
type waited struct {
	Pending int
	Refused []string
	Failed  []string
}

// waiting are the scripts that fill and send a spool.
var waiting = []string{"waiting.mjs", "waiting.py"}

// paid are the records of a chain that came from a spool.
type paid struct {
	Records []struct {
		Payload struct{ Payload struct{ Amount, N int } }
	}
}

// One bit that flips in an item of a client's spool, wherever it is, is never recorded: the item is
// set apart with the reason, and the others are sent.
func TestClientSpoolsFindFlippedBits(t *testing.T) {
	othersRun(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	for i, script := range waiting {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			c := s.register(t, fmt.Sprint("flipped-", i))
			folder := t.TempDir()
			const count = 300
			var added, flushed waited
			printed(t, clientScript(t, script, s.URL, c.key, folder, "add", fmt.Sprint(count)), &added)
			items, err := filepath.Glob(folder + "/pending/*")
			must.OK(t, err)
			if len(items) != count || added.Pending != count {
				t.Fatalf("%d items are in the folder, and %+v was said", len(items), added)
			}
			flipped := map[string]bool{}
			for i, path := range items[:count-1] {
				content, err := os.ReadFile(path)
				must.OK(t, err)
				if i < len(content) { // each byte of an item once
					content[i] ^= 1 << (i % 8)
					must.OK(t, os.WriteFile(path, content, 0o600))
					flipped[filepath.Base(path)] = true
				}
			}
			printed(t, clientScript(t, script, s.URL, c.key, folder, "flush"), &flushed)
			if len(flipped) < 150 || len(flushed.Refused) != len(flipped) || flushed.Pending != 0 || len(flushed.Failed) > 0 {
				t.Fatalf("%d items were damaged, and the flush says %+v", len(flipped), flushed)
			}
			for _, name := range flushed.Refused {
				reason, err := os.ReadFile(filepath.Join(folder, "refused", name+".reason"))
				if !flipped[name] || err != nil || !strings.Contains(string(reason), "not what was written") {
					t.Errorf("%s is set apart, damaged is %v: %s %v", name, flipped[name], reason, err)
				}
			}
			var chain paid
			c.call(t, 200, "GET", "/v1/chain", "", &chain)
			if len(chain.Records) != count-len(flipped) {
				t.Errorf("the chain has %d records, want %d", len(chain.Records), count-len(flipped))
			}
			for _, r := range chain.Records {
				if has := r.Payload.Payload; has.Amount != 1000 || has.N < len(flipped) {
					t.Errorf("recorded is %+v", has)
				}
			}
		})
	}
}

// Either client sends a spool that an earlier version has left without checksums, and a spool of
// the other client.
func TestClientSpoolsReadEachOthersItems(t *testing.T) {
	othersRun(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	for i, script := range waiting {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			c := s.register(t, fmt.Sprint("earlier-", i))
			folder := t.TempDir()
			var answer waited
			printed(t, clientScript(t, waiting[1-i], s.URL, c.key, folder, "add", "2"), &answer)
			earlier := `{"agentId":"bot","actionType":"paid","payload":{"amount":1000,"n":7},"idempotencyKey":"of before"}`
			must.OK(t, os.WriteFile(folder+"/pending/01700000000000000-0000000000000000.json", []byte(earlier), 0o600))
			printed(t, clientScript(t, script, s.URL, c.key, folder, "flush"), &answer)
			var chain paid
			c.call(t, 200, "GET", "/v1/chain", "", &chain)
			if len(chain.Records) != 3 || answer.Pending != 0 || len(answer.Refused)+len(answer.Failed) > 0 {
				t.Fatalf("%d records, want 3; the flush says %+v", len(chain.Records), answer)
			}
			for i, n := range []int{7, 0, 1} {
				if has := chain.Records[i].Payload.Payload; has.N != n || has.Amount != 1000 {
					t.Errorf("record %d is %+v, want %d", i, has, n)
				}
			}
		})
	}
}

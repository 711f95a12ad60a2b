package test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	api "attestd/sdk/attestd"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/sdk/attestd/spool"
	"attestd/store/storetest"
)

// On a full disk to queue is an error, and nothing that was queued before is lost or half there.
// With room it goes on.
func TestSpoolOnAFullDisk(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	disk := smallDisk(t)
	s := serve(t, storetest.New(t), "--rate-limits", "off")
	c, err := api.New(api.Config{URL: s.URL, Credential: api.Key(s.register(t, "acme").key), Retry: &api.Retry{}})
	must.OK(t, err)
	defer c.Close()
	queue, err := spool.Open(filepath.Join(disk, "spool"), c)
	must.OK(t, err)

	queued := map[string]bool{} // false: to queue it was an error
	add := func() error {
		id := fmt.Sprint(len(queued))
		err := queue.Add(t.Context(), api.Attestation{AgentID: "bot", ActionType: "count", Payload: map[string]string{"id": id, "pad": strings.Repeat("x", 3000)}})
		queued[id] = err == nil
		return err
	}
	for range 3 {
		for range 5 {
			must.OK(t, add())
		}
		fillUp(t, disk)
		for n := 0; add() == nil; n++ {
			if n > 100 {
				t.Fatal("the disk does not become full")
			}
		}
		waiting := queue.Pending()
		if err := add(); err == nil || queue.Pending() != waiting {
			t.Errorf("%d wait, and then %d, %v", waiting, queue.Pending(), err)
		}
		makeRoom(t, disk)
	}
	must.OK(t, add())
	fillUp(t, disk)
	must.OK(t, queue.Flush(t.Context())) // to send takes no room
	recorded := map[string]int{}
	for r, err := range c.Records(t.Context(), api.Range{}) {
		must.OK(t, err)
		id, _, _ := strings.Cut(strings.TrimPrefix(string(r.Payload.Payload), `{"id":"`), `"`)
		recorded[id]++
	}
	for id, ok := range queued {
		if n := recorded[id]; ok && n != 1 || n > 1 {
			t.Errorf("%s, queued: %v, is there %d times", id, ok, n)
		}
	}
}

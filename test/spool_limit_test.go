package test

import (
	"errors"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	api "attestd/sdk/attestd"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/sdk/attestd/spool"
	"attestd/store/storetest"
)

// Under the default limits a real server accepts a part of a spool at once; the rest waits without
// further requests, and another caller is not refused meanwhile.
func TestSpoolUnderTheDefaultLimits(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := serve(t, storetest.New(t))
	c := s.register(t, "acme")
	dir := filepath.Join(t.TempDir(), "spool")
	open := func() (*spool.Spool, *api.Client) {
		own, err := api.New(api.Config{URL: s.URL, Credential: api.Key(c.key), Retry: &api.Retry{}})
		must.OK(t, err)
		t.Cleanup(own.Close)
		queue, err := spool.Open(dir, own)
		must.OK(t, err)
		return queue, own
	}
	queue, _ := open()
	for n := range 250 {
		must.OK(t, queue.Add(t.Context(), api.Attestation{AgentID: "bot", ActionType: "late", Payload: strconv.Itoa(n)}))
	}
	for range 5 { // processes
		queue, own := open()
		var limited *spool.LimitedError
		if err := queue.Flush(t.Context()); !errors.As(err, &limited) || limited.After <= 0 || limited.After > time.Minute {
			t.Fatalf("%v", err)
		}
		for range 8 {
			if _, err := own.Attest(t.Context(), api.Attestation{AgentID: "bot", ActionType: "live", Payload: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	queue, own := open()
	recorded := map[string]int{}
	late := 0
	for r, err := range own.Records(t.Context(), api.Range{}) {
		must.OK(t, err)
		if r.Payload.ActionType == "late" {
			late++
			recorded[string(r.Payload.Payload)]++
		}
	}
	if late != 50 || len(recorded) != late || queue.Pending() != 250-late {
		t.Errorf("%d recorded, %d of them different, %d wait", late, len(recorded), queue.Pending())
	}
}

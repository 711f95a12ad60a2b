package test

import (
	"testing"

	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// Each recipe of the pages of incidents is typed as printed, after its fault was really caused, and
// prints what the page says.
func TestIncidentRecipes(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.Curl)
	storetest.AboutFile(t)
	t.Parallel()
	all := recipes(t)
	before := all[0]
	for _, r := range all[1:] {
		t.Run(r.title, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.play(before)
			h.play(r)
		})
	}
}

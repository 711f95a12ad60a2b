package attestd_test

import (
	"errors"
	"testing"

	"attestd/sdk/attestd"
)

// A program that asks for a status or a code is not answered by what is not the service's.
func TestForeignAnswerIsLikeNoOther(t *testing.T) {
	t.Parallel()
	for _, foreign := range []bool{false, true} {
		answer := &attestd.Error{Status: 404, Code: "X", Foreign: foreign}
		for _, want := range []*attestd.Error{{Status: 404}, {Code: "X"}, {}} {
			if errors.Is(answer, want) == foreign {
				t.Errorf("foreign %v is %+v: %v", foreign, want, !foreign)
			}
		}
	}
	if !errors.Is(&attestd.Error{Status: 502, Foreign: true}, &attestd.Error{Status: 502, Foreign: true}) {
		t.Error("who asks for a foreign answer is not told")
	}
}

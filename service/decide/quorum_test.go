package decide_test

import (
	"testing"

	"attestd/chain/approval"
	"attestd/chain/decision"
	"attestd/internal/must"
	"attestd/service/decide"
)

// Checkers that have no parser of Cedar read the same quorums as the one that decides.
func TestCheckersReadTheSameQuorum(t *testing.T) {
	t.Parallel()
	const asks = `permit (principal, action, resource) when { context.approved };`
	for text, want := range map[string]int{
		asks:                              1,
		`@quorum("2") ` + asks:            2,
		"@quorum\n(\"100\")\n" + asks:     100,
		`@id("@quorum(\"7\");") ` + asks:  1,
		`@quorum /* "9" */ ("3") ` + asks: 3,
		"// @quorum(\"9\") ;\n" + asks:    1,
		`/* ; */ @note("a // b") @quorum("4") @within("1m") ` + asks:                                 4,
		`@quorum("2") permit (principal, action, resource) when { context.approved && "@" != ";" };`: 2,
		`permit (principal, action, resource == Tool::"x"); @quorum("5") ` + asks:                    5,
		`@quorum("6") ` + asks + ` permit (principal, action, resource == Tool::"x");`:               6,
		asks + "\n@quorum(\"3\")" + asks + "\n@quorum(\"2\")" + asks:                                 3,
		`@quorum("\u{32}") ` + asks: approval.MaxQuorum + 1,
	} {
		set, err := decide.Compile([]decide.Policy{{ID: "p", Text: text}})
		must.OK(t, err)
		d := set.Decide(decide.Recorded("acme", "bot", "tool.requested", []byte(`{"tool":"pay"}`), decision.Context{Door: decide.DoorAttest}))
		if d.Verdict != decide.AskFor {
			t.Fatalf("%s: %+v", text, d)
		}
		if got := approval.Quorum(map[string]string{"p": text}, d.By); got != want || want <= approval.MaxQuorum && got != d.Ask.Quorum {
			t.Errorf("%s: %d, want %d, and it is decided with %d", text, got, want, d.Ask.Quorum)
		}
	}
}

package sqlite

import (
	"context"
	"slices"
	"testing"
)

// Two schemas differ if their statements do, apart from spacing.
func TestDifferences(t *testing.T) {
	t.Parallel()
	build := func(statements ...string) Schema {
		t.Helper()
		s, err := BuildSchema(context.Background(), statements...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const table, guard = "CREATE TABLE t (a TEXT, b TEXT)", "CREATE TRIGGER guard BEFORE DELETE ON t BEGIN SELECT RAISE(ABORT, 'it  stays'); END"
	want := build(table, guard)
	if again := build(want.Statements()...); !slices.Equal(again, want) {
		t.Errorf("made anew from its statements: %v", again)
	}
	for name, test := range map[string]struct {
		have  Schema
		found []string
	}{
		"set in another way": {build("CREATE TABLE t (\n\ta TEXT, -- the first\n\tb TEXT /* the second */)", guard), nil},
		"a missing guard":    {build(table), []string{"trigger guard is missing"}},
		"another guard":      {build(table, "CREATE TRIGGER guard BEFORE DELETE ON t BEGIN SELECT RAISE(ABORT, 'it stays'); END"), []string{"trigger guard is not the one of this program"}},
		"an addition to it":  {build(table, guard, "CREATE INDEX more ON t (a)"), []string{"index more on table t is not one of this program"}},
		"one beside it":      {build(table, guard, "CREATE TABLE theirs (x)", "CREATE INDEX more ON theirs (x)"), nil},
	} {
		if found := want.Differences(test.have); !slices.Equal(found, test.found) {
			t.Errorf("%s: %q, want %q", name, found, test.found)
		}
	}
}

package lines_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/lines"
	"attestd/internal/testenv"
)

var firstSum, secondSum = strings.Repeat("1a", 32), strings.Repeat("2b", 32)

// prune appends the control record of a prune of the first n actions.
func (c *company) prune(n int64, archive string) {
	c.t.Helper()
	root := c.mark(0, n).Frontier.Root()
	c.addAction(1, "payloads.pruned", fmt.Sprintf(`{"archive":%q,"by":null,"bytes":100,"records":%d,"root":%q,"skeleton":%q,"subject":"payloads"}`,
		archive, n, hex.EncodeToString(root[:]), strings.Repeat("00", 32)))
}

// continued is a company of which four of nine actions were pruned, and the archive after that: of
// the actions from 4 to 7 and of four control records, the last of which is that of the prune.
func continued(t testing.TB) (*company, []string) {
	c := sample(t)
	c.prune(4, firstSum)
	c.add(0, `{"n":7}`)
	c.now = c.now.Add(1e9)
	text := c.archiveFrom(4, 8, 3, chain.FormatTime(c.now))
	c.add(0, `{"n":8}`)
	return c, text
}

// An archive after a prune begins with the first action that has a payload, and says which archive
// it continues.
func TestArchiveContinues(t *testing.T) {
	t.Parallel()
	c, text := continued(t)
	v := checkArchive(t, pin(1), text...)
	if v.Outcome != evidence.Holds || v.Archive == nil || v.Archive.Continues != firstSum ||
		v.Logs[0] != (lines.Part{Log: "control", Next: 3, To: 3, Openings: 1}) || v.Logs[1] != (lines.Part{Log: "actions", First: 4, Next: 8, From: 4, To: 8, Openings: 1}) {
		t.Errorf("%+v", v)
	}
	all := strings.Join(v.Checked, "\n")
	if !strings.Contains(all, "the archive with the SHA-256 "+firstSum+" has them") || !strings.Contains(all, "log actions: the records from 4 to before 8") {
		t.Errorf("%q", v.Checked)
	}
	if !strings.Contains(strings.Join(v.NotProven, "\n"), "What the first 4 actions were") {
		t.Errorf("%q", v.NotProven)
	}
	// also without an action that has a payload
	if v := checkArchive(t, pin(1), c.archiveFrom(4, 4, 3, chain.FormatTime(c.now.Add(1)))...); v.Outcome != evidence.Holds || v.Archive.Continues != firstSum {
		t.Errorf("%+v", v)
	}
	// the one before it, made when all payloads were there, continues none, whatever was pruned
	// since
	for _, control := range []int64{2, 3} {
		if v := checkArchive(t, pin(1), c.archive(6, control)...); v.Outcome != evidence.Holds || v.Archive.Continues != "" {
			t.Errorf("%+v", v)
		}
	}
	c.prune(6, secondSum)
	if v := checkArchive(t, pin(1), c.archiveFrom(6, 9, 4, chain.FormatTime(c.now.Add(1)))...); v.Outcome != evidence.Holds || v.Archive.Continues != secondSum {
		t.Errorf("%+v", v)
	}
}

// The control records may be of a later time than the archive up to that of the prune, and no
// further.
func TestArchiveOfAnEarlierMomentThanThePrune(t *testing.T) {
	t.Parallel()
	c := sample(t)
	c.add(0, `{"n":7}`)
	before := chain.FormatTime(c.now.Add(1e6))
	c.add(1, `{"subject":"agent:other"}`)
	c.prune(4, firstSum)
	c.add(1, `{"subject":"agent:third"}`)
	if v := checkArchive(t, pin(1), c.archiveFrom(4, 8, 4, before)...); v.Outcome != evidence.Holds || v.Archive.Continues != firstSum {
		t.Errorf("%+v", v)
	}
	for _, control := range []int64{3, 5} { // not yet, and no longer
		if v := checkArchive(t, pin(1), c.archiveFrom(4, 8, control, before)...); v.Code != lines.BadRecord {
			t.Errorf("%d control records: %+v", control, v)
		}
	}
	if v := checkArchive(t, pin(1), c.archiveFrom(0, 8, 4, before)...); v.Code != lines.Missing {
		t.Errorf("from the beginning: %+v", v)
	}
	c.add(0, `{"n":8}`)
	if v := checkArchive(t, pin(1), c.archiveFrom(4, 9, 4, before)...); v.Code != lines.BadRecord {
		t.Errorf("an action from after the moment: %+v", v)
	}
}

// An archive begins above index 0 nowhere but where the control log says that payloads were pruned,
// and with no other tree or archive than it names.
func TestArchiveThatLiesAboutAPrune(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	c, text := continued(t)
	before := chain.FormatTime(c.now)
	fails := func(what string, code evidence.Code, text ...string) {
		t.Helper()
		if v := checkArchive(t, pin(1), text...); v.Outcome != evidence.Fails || v.Code != code || v.Archive != nil {
			t.Errorf("%s: %+v", what, v)
		}
	}
	fails("another index", lines.Missing, c.archiveFrom(3, 8, 3, before)...)
	fails("another index", lines.Missing, c.archiveFrom(5, 8, 3, before)...)
	fails("the end", lines.Missing, c.archiveFrom(8, 8, 3, before)...)
	fails("no control record", lines.Missing, c.archiveFrom(4, 8, 2, before)...)
	fails("no opening of the control log", lines.Missing, c.archiveFromControl(4, 8, 1, 3, before)...)
	change := func(old, new string) []string {
		t.Helper()
		changed := slices.Clone(text)
		for i, l := range changed {
			changed[i] = strings.ReplaceAll(l, old, new)
		}
		if slices.Equal(changed, text) {
			t.Fatalf("no line has %s", old)
		}
		return changed
	}
	fails("another archive", lines.BadRecord, change(firstSum, secondSum)...)
	fails("another number", lines.BadRecord, change(`"records":4`, `"records":5`)...)
	fails("another subject", lines.BadRecord, change(`"subject":"payloads"`, `"subject":"payload"`)...)

	// what the company itself signs is no prune either, unless it is of that form
	for what, sign := range map[string]func(c *company){
		"another tree": func(c *company) {
			c.addAction(1, "payloads.pruned", fmt.Sprintf(`{"archive":%q,"records":4,"root":%q,"subject":"payloads"}`, firstSum, secondSum))
		},
		"another action": func(c *company) {
			root := c.mark(0, 4).Frontier.Root()
			c.addAction(1, "payloads.kept", fmt.Sprintf(`{"archive":%q,"records":4,"root":%q,"subject":"payloads"}`, firstSum, hex.EncodeToString(root[:])))
		},
		"another subject": func(c *company) {
			root := c.mark(0, 4).Frontier.Root()
			c.addAction(1, "payloads.pruned", fmt.Sprintf(`{"archive":%q,"records":4,"root":%q,"subject":"agent:payloads.pruned"}`, firstSum, hex.EncodeToString(root[:])))
		},
		"no archive": func(c *company) {
			root := c.mark(0, 4).Frontier.Root()
			c.addAction(1, "payloads.pruned", fmt.Sprintf(`{"archive":"","records":4,"root":%q,"subject":"payloads"}`, hex.EncodeToString(root[:])))
		},
		"a name in another place": func(c *company) {
			c.add(1, `{"actionType":"payloads.pruned","payload":{"records":4,"subject":"payloads"}}`)
		},
		"an action in the other log": func(c *company) {
			root := c.mark(0, 4).Frontier.Root()
			c.addAction(0, "payloads.pruned", fmt.Sprintf(`{"archive":%q,"records":4,"root":%q,"subject":"payloads"}`, firstSum, hex.EncodeToString(root[:])))
			c.add(1, `{}`)
		},
	} {
		c := sample(t)
		sign(c)
		v := checkArchive(t, pin(1), c.archiveFrom(4, 7, 3, chain.FormatTime(c.now.Add(1e6)))...)
		if v.Outcome != evidence.Fails || v.Code != lines.Missing && v.Code != lines.BadCheckpoint {
			t.Errorf("%s: %+v", what, v)
		}
	}
	// nor do its own lines without their payloads
	pruned := slices.Clone(text)
	for i, l := range pruned {
		if kind, log := kindOf(t, l); kind == lines.TypeRecord && log == evidence.Actions {
			r := c.logs[0].records[4]
			r.Payload = nil
			pruned[i] = string(lines.AppendRecord(nil, c.id, "", evidence.Actions, &r))
			break
		}
	}
	if v := checkArchive(t, pin(1), pruned...); v.Outcome != evidence.Fails {
		t.Errorf("a record without its payload: %+v", v)
	}
	for i := range text {
		if v := checkArchive(t, pin(1), slices.Delete(slices.Clone(text), i, i+1)...); v.Outcome != evidence.Fails {
			t.Errorf("without line %d: %+v", i+1, v)
		}
	}
}

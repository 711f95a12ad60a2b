package lines_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/evidence/evidencetest"
	"attestd/chain/lines"
	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// archive makes an archive of the first records of both logs, up to the newest checkpoints.
func (c *company) archive(actions, control int64) []string {
	c.t.Helper()
	return c.archiveFrom(0, actions, control, chain.FormatTime(c.now.Add(1)))
}

// archiveFrom makes an archive of the actions from an index on, and of the first control records.
func (c *company) archiveFrom(from, actions, control int64, before string) []string {
	c.t.Helper()
	return c.archiveFromControl(from, actions, 0, control, before)
}

// archiveFromControl is archiveFrom with control records from an index on, as no archive has them.
func (c *company) archiveFromControl(from, actions, fromControl, control int64, before string) []string {
	c.t.Helper()
	f := &evidence.File{CompanyID: c.id}
	for _, l := range c.logs {
		f.Logs = append(f.Logs, l.Log)
	}
	for n := range c.keys {
		f.Keys = append(f.Keys, public(n))
	}
	var logs [2]lines.Archived
	opens, sizes := [2]int64{fromControl, from}, [2]int64{control, actions}
	for i, log := range []int{1, 0} {
		logs[i] = lines.Archived{Opening: c.mark(log, opens[i]), End: c.mark(log, sizes[i]), Checkpoint: c.sign(log, sizes[i])}
	}
	frame := lines.NewFrame(f, before, logs)
	text := slices.Clone(frame.Head)
	for i, log := range []int{1, 0} {
		text = append(text, frame.Logs[i].Opening)
		for r := range frame.Logs[i].Records {
			text = append(text, string(lines.AppendRecord(nil, c.id, "", c.logs[log].Name, &c.logs[log].records[opens[i]+r])))
		}
		text = append(text, frame.Logs[i].Checkpoint)
	}
	return text
}

// sign returns a checkpoint of the first size records of a log.
func (c *company) sign(log int, size int64) []byte {
	c.t.Helper()
	note, err := tlog.Checkpoint{Origin: c.logs[log].Origin, Tree: c.mark(log, size).Frontier.Tree()}.Sign(evidencetest.Private(c.keys - 1))
	must.OK(c.t, err)
	return note
}

// archived is a company with two keys, more records than are archived, and that archive.
func archived(t testing.TB) (*company, []string) {
	c := sample(t)
	c.now = c.now.Add(1e9)
	return c, c.archive(6, 2)
}

func checkArchive(t testing.TB, o lines.Options, text ...string) lines.Verdict {
	t.Helper()
	v, err := lines.CheckArchive(strings.NewReader(strings.Join(text, "\n")+"\n"), o)
	must.OK(t, err)
	return v
}

// An archive holds alone, with any key of the company that is pinned, and with a policy.
func TestArchiveHolds(t *testing.T) {
	t.Parallel()
	c, text := archived(t)
	for n := range byte(2) {
		v := checkArchive(t, pin(n), text...)
		if v.Outcome != evidence.Holds || v.Archive == nil || len(v.Archive.SHA256) != 64 || len(v.Logs) != 2 ||
			v.Logs[0] != (lines.Part{Log: "control", Next: 2, To: 2, Openings: 1}) || v.Logs[1] != (lines.Part{Log: "actions", Next: 6, To: 6, Openings: 1}) {
			t.Errorf("key %d: %+v", n, v)
		}
		if !strings.Contains(strings.Join(v.Checked, "\n"), "the first 6 records, all there and unchanged: the beginning of a log of 7 records") {
			t.Errorf("key %d: %q", n, v.Checked)
		}
	}
	if v := checkArchive(t, lines.Options{}, text...); v.Outcome != evidence.SelfConsistent {
		t.Errorf("without a key: %+v", v)
	}
	if v := checkArchive(t, pin(9), text...); v.Code != evidence.KeyUntrusted {
		t.Errorf("with another key: %+v", v)
	}
	o := pin(0)
	o.CompanyID = "globex"
	if v := checkArchive(t, o, text...); v.Code != evidence.Malformed {
		t.Errorf("of another company: %+v", v)
	}
	policy := func(key byte, quorum string) lines.Options {
		p, err := tlog.ParsePolicy([]byte("log " + tlog.VKey{Name: c.logs[0].Origin, Type: tlog.TypeEd25519, Public: public(key)}.String() + "\n" + quorum))
		must.OK(t, err)
		return lines.Options{Trust: evidence.Trust{Policy: p}}
	}
	if v := checkArchive(t, policy(1, "quorum none\n"), text...); v.Outcome != evidence.Holds {
		t.Errorf("with a policy: %+v", v)
	}
	w := tlog.VKey{Name: "witness", Type: tlog.TypeCosignature, Public: public(7)}
	for _, o := range []lines.Options{policy(0, "quorum none\n"), policy(1, "witness w "+w.String()+"\nquorum w\n")} {
		if v := checkArchive(t, o, text...); v.Code != lines.Uncovered {
			t.Errorf("with a policy that does not accept it: %+v", v)
		}
	}
	if v := checkArchive(t, pin(1), c.archive(0, 2)...); v.Outcome != evidence.Holds {
		t.Errorf("without actions: %+v", v)
	}
}

// Every line that was deleted, doubled, moved to another place or added is found, and every end
// that was cut off.
func TestArchiveLinesDeletedDoubledMovedAdded(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	c, text := archived(t)
	fails := func(what string, at int, changed []string) {
		t.Helper()
		if v := checkArchive(t, pin(0), changed...); v.Outcome != evidence.Fails || v.Archive != nil || len(v.NotProven) > 0 {
			t.Errorf("%s, line %d: %+v", what, at+1, v)
		}
	}
	for i, l := range text {
		fails("deleted", i, slices.Delete(slices.Clone(text), i, i+1))
		for _, j := range []int{0, i, i + 1, len(text)} {
			fails("doubled", i, slices.Insert(slices.Clone(text), j, l))
		}
		for j := i + 1; j < len(text); j += 3 {
			moved := slices.Clone(text)
			moved[i], moved[j] = moved[j], moved[i]
			fails("moved", i, moved)
		}
		if i > 0 {
			fails("cut off", i, text[:i])
		}
		fails("in a syslog header", i, slices.Replace(slices.Clone(text), i, i+1, "host attestd: "+l))
	}
	further := string(lines.AppendRecord(nil, c.id, "", "actions", &c.logs[0].records[6]))
	for i := range len(text) + 1 {
		fails("added", i, slices.Insert(slices.Clone(text), i, further))
		fails("added", i, slices.Insert(slices.Clone(text), i, ""))
	}
	whole := strings.Join(text, "\n") + "\n"
	for at := 0; at < len(whole); at += 251 {
		v, err := lines.CheckArchive(strings.NewReader(whole[:at]), pin(0))
		if err != nil || v.Outcome != evidence.Fails {
			t.Errorf("cut off at byte %d: %+v, %v", at, v, err)
		}
	}
	if v, err := lines.CheckArchive(strings.NewReader(whole[:len(whole)-1]), pin(0)); err != nil || v.Code != evidence.Malformed {
		t.Errorf("without the last line feed: %+v, %v", v, err)
	}
	broken := errors.New("broken")
	if _, err := lines.CheckArchive(io.MultiReader(strings.NewReader(whole[:500]), failing{broken}), pin(0)); !errors.Is(err, broken) {
		t.Errorf("a read that fails: %v", err)
	}
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// A change of any byte is found, unless the byte means nothing: the time of a line that is no
// record, which nothing proves, and the moment of the archive, which the records bound.
func TestArchiveChangedInAnyByte(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	_, text := archived(t)
	random := rand.New(rand.NewPCG(1, 2))
	const each = 67 // bytes from one change to the next
	for i, l := range text {
		isRecord := strings.Contains(l, `"type":"record"`)
		for at := random.IntN(each); at < len(l); at += 1 + random.IntN(2*each-1) {
			b := []byte(l)
			if b[at] ^= byte(1 << random.IntN(7)); b[at] == '\n' {
				continue
			}
			changed := slices.Clone(text)
			changed[i] = string(b)
			v := checkArchive(t, pin(0), changed...)
			if v.Outcome == evidence.Fails || same(l, string(b)) || !isRecord && same(without(l), without(string(b))) {
				continue
			}
			t.Errorf("line %d, byte %d, %q became %q: %+v", i+1, at, l[max(0, at-10):at+1], b[max(0, at-10):at+1], v)
		}
	}
	if v := checkArchive(t, pin(0), append([]string{strings.Replace(text[0], `"before":"2026-11-21T09:00`, `"before":"2026-11-21T08:00`, 1)}, text[1:]...)...); v.Code != lines.BadRecord {
		t.Errorf("records from after the moment: %+v", v)
	}
}

// without returns a line without the times that nothing proves.
func without(l string) string {
	for _, name := range []string{`"@timestamp":"`, `"before":"`} {
		if _, after, ok := strings.Cut(l, name); ok && len(after) > 24 {
			l = strings.Replace(l, name+after[:24], name, 1)
		}
	}
	return l
}

// A forger who changes the first line too, so that the rest fits, needs a checkpoint that the
// company has signed at that size.
func TestArchiveThatEndsEarlierNeedsTheKey(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	c, text := archived(t)
	short := c.archive(4, 2)
	// the proofs of the shorter one are anybody's to compute; its first line is not
	for _, first := range []string{text[0], strings.Replace(text[0], `"index":6`, `"index":4`, 1)} {
		if v := checkArchive(t, pin(0), append([]string{first}, short[1:]...)...); v.Outcome != evidence.Fails {
			t.Errorf("%+v", v)
		}
	}
	if v := checkArchive(t, pin(0), short...); v.Outcome != evidence.Holds {
		t.Errorf("%+v", v)
	}
	// a former key, which may have been stolen since, signs none for those who trust a later one
	stolen := sample(t)
	stolen.keys--
	for _, log := range stolen.logs {
		log.Keys = log.Keys[:1]
		log.records, log.leaves = log.records[:1], log.leaves[:1]
	}
	old := stolen.archive(1, 1)
	if v := checkArchive(t, pin(1), old...); v.Code != evidence.KeyUntrusted {
		t.Errorf("%+v", v)
	}
	old[1] = text[1]
	if v := checkArchive(t, pin(1), old...); v.Code != lines.Uncovered {
		t.Errorf("%+v", v)
	}
	// nor is another history one
	other := newCompany(t, "acme")
	for range 7 {
		other.add(0, `{"other":true}`)
	}
	other.rotate()
	mixed := slices.Concat(text[:6], other.archive(6, 1)[5:])
	if v := checkArchive(t, pin(0), mixed...); v.Outcome != evidence.Fails {
		t.Errorf("%+v", v)
	}
	// nor one of another company, whose keys are its own
	globex := newCompany(t, "globex")
	globex.add(0, `{}`)
	foreign := globex.archive(1, 0)
	for i, l := range foreign {
		foreign[i] = strings.ReplaceAll(l, "globex", "acme")
	}
	if v := checkArchive(t, pin(0), foreign...); v.Outcome != evidence.Fails {
		t.Errorf("%+v", v)
	}
}

// No text makes the check of an archive fail otherwise than with a verdict, and none holds that has
// other records than the company's.
func FuzzArchive(f *testing.F) {
	c, text := archived(f)
	whole := strings.Join(text, "\n") + "\n"
	f.Add([]byte(whole))
	for i := range text {
		f.Add([]byte(strings.Join(text[:i], "\n") + "\n"))
		f.Add([]byte(strings.Join(slices.Concat(text[:i], text[i+1:]), "\n") + "\n"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := lines.CheckArchive(bytes.NewReader(text), pin(0))
		if err != nil {
			t.Fatal(err)
		}
		if v.Outcome == evidence.Fails {
			return
		}
		all := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		if err := wrongVerdict(t, c, all, v); err != nil || len(v.Logs) != 2 || v.Logs[0].Next != 2 || v.Logs[1].Next != 6 {
			t.Errorf("a wrong verdict: %+v, %v", v, err)
		}
	})
}

// An archive can be held against a newer checkpoint of a log: from where it ends, or from the size
// that the log had when it was made.
func TestArchiveWithANewerCheckpoint(t *testing.T) {
	t.Parallel()
	c, text := archived(t)
	other := sample(t) // of the same keys and logs
	for _, c := range []*company{c, other} {
		c.add(0, `{"more":true}`)
	}
	other.logs[0].leaves[3][0] ^= 1
	newer := func(c *company, log int, from int64) evidence.Trust {
		asked, err := witness.ParseRequest(c.mark(log, from).Consistency)
		must.OK(t, err)
		return evidence.Trust{Fingerprint: fingerprint(0),
			Newer: &evidence.Newer{From: asked.Old, Proof: asked.Proof, Checkpoint: asked.Checkpoint}}
	}
	for what, n := range map[string]struct {
		trust evidence.Trust
		code  evidence.Code
	}{
		"from the end of the archive":   {newer(c, 0, 6), ""},
		"from when it was made":         {newer(c, 0, 7), ""},
		"of the control log":            {newer(c, 1, 2), ""},
		"from a size in the archive":    {newer(c, 0, 5), evidence.NotFollowed},
		"of a history that was changed": {newer(other, 0, 6), evidence.NotFollowed},
	} {
		v := checkArchive(t, lines.Options{Trust: n.trust}, text...)
		if v.Code != n.code || (v.Outcome == evidence.Holds) != (n.code == "") {
			t.Errorf("%s: %s %s: %s", what, v.Outcome, v.Code, v.Reason)
		}
		if answer := strings.Contains(strings.Join(v.Checked, "\n"), "the newer checkpoint of "); answer != (n.code == "") {
			t.Errorf("%s: %q", what, v.Checked)
		}
	}
}

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

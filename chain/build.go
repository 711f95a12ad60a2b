package chain

import (
	"time"

	"attestd/chain/tlog"
)

// group is the part of a batch that goes to one chain, in order of arrival.
type group struct {
	chain   int64
	from    signedHead
	drafts  []*Draft
	ahead   []*sealed // of the drafts; nil where there is none
	waiters []*waiter // with a draft for this chain

	used int // of ahead: how many are at their places
}

// groupByChain groups the drafts of a batch by chain.
func groupByChain(batch []*waiter) []group {
	var groups []group
	places := make(map[int64]int)
	for _, s := range batch {
		for i := range s.drafts {
			d := &s.drafts[i]
			if s.err != nil || s.source(i) != (source{}) {
				continue
			}
			place, known := places[d.Chain]
			if !known {
				place = len(groups)
				places[d.Chain] = place
				groups = append(groups, group{chain: d.Chain})
			}
			g := &groups[place]
			g.drafts = append(g.drafts, d)
			var early *sealed
			if s.ahead != nil {
				early = &s.ahead[i]
			}
			g.ahead = append(g.ahead, early)
			if n := len(g.waiters); n == 0 || g.waiters[n-1] != s {
				g.waiters = append(g.waiters, s)
			}
		}
	}
	return groups
}

// keys returns the keys of the records that the drafts become.
func (g *group) keys() (keys []RecordKey) {
	for i, d := range g.drafts {
		for _, k := range d.Keys {
			keys = append(keys, RecordKey{k, g.from.Length + int64(i)})
		}
		if d.Series != (Series{}) {
			index := g.from.Length + int64(i)
			keys = append(keys, RecordKey{Key{Name: d.Series.At(index), Request: Hash(d.Series), Unique: true}, index})
		}
	}
	return keys
}

// build makes the extensions of a batch on copies of the heads. It takes the records that were
// sealed ahead, and sets indices and times of the others, so that their hashes and signatures can
// be computed in parallel. Drafts that are to Complete come after all others. An error is that of a
// draft.
func build(groups []group, now time.Time) (all []Extension, failed *Draft, err error) {
	type job struct {
		record    *Record
		canonical []byte
		from      *signedHead
		leaf      *tlog.Hash
		draft     *Draft
	}
	var jobs, late []job
	leaves := make([][]tlog.Hash, len(groups))
	extensions := make([]Extension, len(groups))
	timestamp := FormatTime(now)
	for i := range groups {
		g := &groups[i]
		records := make([]Record, len(g.drafts))
		leaves[i] = make([]tlog.Hash, len(g.drafts))
		last := g.from.Timestamp
		for j, d := range g.drafts {
			index, early := g.from.Length+int64(j), g.ahead[j]
			if early.isAt(index, &g.from, last, timestamp) {
				g.used++
				records[j], leaves[i][j], last = early.record, early.leaf, early.record.Timestamp
				continue
			}
			last = max(last, timestamp) // the clock may have been set back
			records[j] = d.record(index, last)
			made := job{&records[j], d.Canonical, &g.from, &leaves[i][j], d}
			if d.Complete != nil {
				late = append(late, made)
			} else {
				jobs = append(jobs, made)
			}
		}
		extensions[i] = Extension{Chain: g.chain, From: g.from.Head, Epoch: g.from.epoch, Records: records, Keys: g.keys()}
	}
	seal := func(j *job) {
		j.record.seal(j.canonical, j.from.key)
		*j.leaf = j.record.leafHash(&j.from.keyDigest)
	}
	parallel(len(jobs), func(i int) { seal(&jobs[i]) })
	for i := range jobs {
		if err := jobs[i].draft.sealed(jobs[i].record); err != nil {
			return nil, jobs[i].draft, err
		}
	}
	for i := range late {
		j := &late[i]
		if j.canonical, err = j.draft.Complete(); err != nil {
			return nil, j.draft, err
		}
		j.record.Payload = j.canonical
		seal(j)
		if err := j.draft.sealed(j.record); err != nil {
			return nil, j.draft, err
		}
	}
	for i := range extensions {
		extensions[i].grow(leaves[i])
	}
	return extensions, nil, nil
}

// sealed tells the draft which record it has become.
func (d *Draft) sealed(r *Record) error {
	if d.Sealed == nil {
		return nil
	}
	return d.Sealed(r)
}

// record returns the record that the draft becomes, before it is sealed.
func (d *Draft) record(index int64, timestamp string) Record {
	return Record{Index: index, Timestamp: timestamp, Payload: d.Payload, Delegation: d.Delegation}
}

// grow derives nodes and head from the records and their leaf hashes in the log tree.
func (e *Extension) grow(leaves []tlog.Hash) {
	t := tree{e.From.Length, e.From.Frontier}.clone()
	for i := range e.Records {
		e.Nodes = t.append(e.Records[i].Hash, e.Nodes)
	}
	log, nodes := e.From.Log.Append(leaves...)
	for i := range nodes { // both trees complete the same subtrees in the same order
		e.Nodes[i].LogHash = nodes[i].Hash
	}
	e.Head = Head{t.length, t.root(), t.frontier, e.Records[len(e.Records)-1].Timestamp, log, log.Root(), e.bytes()}
}

// bytes returns how many bytes the chain has after the extension.
func (e *Extension) bytes() int64 {
	n := e.From.Bytes
	for i := range e.Records {
		n += int64(len(e.Records[i].Payload) + len(e.Records[i].Delegation))
	}
	return n
}

package lines

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
)

const (
	// MaxLine is the length of the longest line, in bytes.
	MaxLine   = evidence.MaxSize
	maxHeader = 1024 // bytes before the object
	maxDepth  = 170  // of a line: a record nests at most 160 deep
	maxIndex  = 1<<53 - 1
	maxRoots  = 60
)

// line is one line that was read. Its parts alias the text.
type line struct {
	kind, company, log string
	run                string // "" for none
	at                 string
	index              int64
	hash               [32]byte

	record      []byte
	ring        []byte
	previous    int64
	frontier    tlog.Frontier
	consistency witness.Request

	header bool // there is text before the object
	isOCSF bool
}

// members returns the members of an object, which MUST have these and no others, but for the
// optional one; "" for none.
func members(src []byte, optional string, names ...string) (map[string][]byte, error) {
	found := make(map[string][]byte, len(names))
	var unknown error
	has := 0
	err := strictjson.EachMember(src, maxDepth, func(name, value []byte) {
		switch {
		case slices.Contains(names, string(name)):
			has++
		case optional == "" || string(name) != optional:
			unknown = fmt.Errorf("it has an unknown member %.100q", name)
			return
		}
		found[string(name)] = value
	})
	switch {
	case err != nil:
		return nil, err
	case unknown != nil:
		return nil, unknown
	case has < len(names):
		return nil, fmt.Errorf("it has not all of the members %q", names)
	}
	return found, nil
}

// parse reads one line from its carrier.
func parse(text []byte) (l line, err error) {
	at := bytes.IndexByte(text, '{')
	if at < 0 || at > maxHeader {
		return l, errors.New("there is no object in it")
	}
	object := text[at:]
	if err := evidence.Bounded(object); err != nil {
		return l, err
	}
	if inner, is := carriedByOCSF(object); is {
		l, err = parseLine(inner)
		if err == nil {
			err = sameEvent(object, inner)
		}
		l.isOCSF = true
	} else {
		l, err = parseLine(object)
	}
	l.header = at > 0
	return l, err
}

// carriedByOCSF returns the line in an OCSF event.
func carriedByOCSF(object []byte) (inner []byte, is bool) {
	var unmapped []byte
	err := strictjson.EachMember(object, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "class_uid":
			is = true
		case "unmapped":
			unmapped = value
		}
	})
	if err != nil || !is {
		return nil, false
	}
	_ = strictjson.EachMember(unmapped, maxDepth, func(name, value []byte) {
		if string(name) == "attestd" {
			inner = value
		}
	})
	return inner, true
}

// sameEvent checks that an event is the one that OCSF makes of the line in it.
func sameEvent(event, inner []byte) error {
	want, err := OCSF(nil, inner)
	if err != nil {
		return err
	}
	a, err := jcs.Append(nil, event, maxDepth+2)
	if err != nil {
		return err
	}
	b, err := jcs.Append(nil, want, maxDepth+2)
	if err != nil {
		return err
	}
	if !bytes.Equal(a, b) {
		return errors.New("the OCSF event says something else than the line in it")
	}
	return nil
}

// parseLine reads a line that is no longer in a carrier.
func parseLine(text []byte) (l line, err error) {
	var kind []byte
	err = strictjson.EachMember(text, maxDepth, func(name, value []byte) {
		if string(name) == "type" {
			kind = value
		}
	})
	if err != nil {
		return l, err
	}
	common := []string{"format", "type", "@timestamp", "companyId"}
	l.kind, _ = strictjson.AsString(kind)
	var own []string
	switch l.kind {
	case TypeRecord:
		own = []string{"log", "index", "hash", "record"}
	case TypeCheckpoint:
		own = []string{"log", "index", "hash", "previous", "frontier", "consistency"}
	case TypeOpening:
		own = []string{"log", "index", "hash", "frontier", "consistency"}
	case TypeKeys:
		own = []string{"ring"}
	default:
		return l, errors.New("its type is not record, checkpoint, opening or keys")
	}
	m, err := members(text, "run", slices.Concat(common, own)...)
	if err != nil {
		return l, err
	}
	if format, _ := strictjson.AsString(m["format"]); format != Format {
		return l, fmt.Errorf("its format is not %s", Format)
	}
	l.at, _ = strictjson.AsString(m["@timestamp"])
	if !chain.IsTimestamp(l.at) {
		return l, errors.New("its @timestamp is no timestamp")
	}
	var ok bool
	if l.company, ok = strictjson.AsString(m["companyId"]); !ok {
		return l, errors.New("its companyId is not a string")
	}
	if run, has := m["run"]; has {
		if l.run, _ = strictjson.AsString(run); !isRun(l.run) {
			return l, fmt.Errorf("its run is not 1 to %d letters, digits, hyphens and underscores", maxRun)
		}
	}
	if l.kind == TypeKeys {
		l.ring = m["ring"]
		return l, nil
	}
	return l, l.readPlace(m)
}

// readPlace reads the members of a line about a log.
func (l *line) readPlace(m map[string][]byte) (err error) {
	if l.log, _ = strictjson.AsString(m["log"]); l.log != evidence.Actions && l.log != evidence.Control {
		return errors.New("its log is neither actions nor control")
	}
	var ok bool
	if l.index, ok = parseIndex(m["index"]); !ok {
		return errors.New("its index is no whole number from 0 to 2⁵³-1")
	}
	text, _ := strictjson.AsString(m["hash"])
	if l.hash, ok = hash(text); !ok {
		return errors.New("its hash is not 64 digits of lower-case hex")
	}
	if l.kind == TypeRecord {
		l.record = m["record"]
		return nil
	}
	if l.kind == TypeCheckpoint {
		if l.previous, ok = parseIndex(m["previous"]); !ok {
			return errors.New("its previous is no whole number from 0 to 2⁵³-1")
		}
	}
	return l.readProof(m)
}

// readProof reads a frontier and a consistency proof, which must be of the line's index.
func (l *line) readProof(m map[string][]byte) error {
	l.frontier.Size = l.index
	count, valid := 0, true
	err := strictjson.EachElement(m["frontier"], maxDepth, func(value []byte) {
		if count++; count > maxRoots {
			return
		}
		text, _ := strictjson.AsString(value)
		root, ok := tlog.ParseHash(text)
		valid = valid && ok
		l.frontier.Roots = append(l.frontier.Roots, root)
	})
	if err != nil || !valid || count > maxRoots {
		return errors.New("its frontier is no list of hashes")
	}
	if err := l.frontier.Check(l.hash); err != nil {
		return errors.New("its frontier does not give its hash")
	}
	text, ok := strictjson.AsString(m["consistency"])
	if !ok {
		return errors.New("its consistency is not a string")
	}
	if l.consistency, err = witness.ParseRequest([]byte(text)); err != nil || l.consistency.Old != l.index {
		return errors.New("its consistency is no proof from its index")
	}
	return nil
}

// parseIndex reads a whole number from 0 to 2⁵³-1.
func parseIndex(value []byte) (int64, bool) {
	n, ok := strictjson.AsInteger(value)
	return n, ok && n <= maxIndex
}

package lines

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/crypto/jcs"
	"attestd/crypto/keys"
	"attestd/crypto/strictjson"
)

// TypeArchive is the type of the first line of an archive.
//
// An archive is one file with all records of both logs of a company from before a moment. It is
// NDJSON of the lines of this package, in this order and with no others:
//
//	archive     "before","logs"
//	keys
//	opening     of control, with index 0
//	record      of control, all that are from before the moment
//	checkpoint  of control, after the last of them
//	opening     of actions, with index 0, or with that of the last prune
//	record      …
//	checkpoint  …
//
// An archive continues another one where the payloads of the first actions were pruned: its actions
// begin with the first that was not. The control log says so: of its records with the actionType
// payloads.pruned and the subject payloads, the last one has the index as records, the root of the
// log tree of that size as root, and the SHA-256 of the archive that has these actions as archive.
// If it is not from before the moment, the control log ends with it.
//
// before is the moment, a timestamp. logs is [{"log","index","checkpoint"},…], of control and of
// actions: how many records follow, and a checkpoint of that size, which the key has signed that
// signed the checkpoint in the checkpoint line. So without that key no one ends an archive earlier,
// unless the company has signed a checkpoint at that place.
//
// The check reads the file once. It makes the checks of lines, and:
//
//   - MALFORMED. Lines are as above, without a carrier and without a run, and the file ends with a
//     line feed.
//   - MISSING. Each line is the one that is next.
//   - RECORD. The time of each record is before the moment; but for the control records up to the
//     prune that the archive continues, if that is their last one.
//   - CHECKPOINT. Each checkpoint of the archive line is of the records that follow. An opening
//     line with an index above 0 has the tree that the control log names, as above.
//   - UNCOVERED. The checkpoint line of each log counts, also of one without records.
//
// An archive proves that its records are the first of both logs. That the logs had no further ones
// from before the moment is the word of who made it. One that continues another proves with which
// SHA-256 that was pruned.
const TypeArchive = "archive"

// archiveOrder is the order of the logs in an archive: what was changed before what was done.
var archiveOrder = [2]string{evidence.Control, evidence.Actions}

// archiveBegin is how every archive begins.
const archiveBegin = `{"format":"` + Format + `","type":"` + TypeArchive + `",`

// IsArchive reports whether a file is an archive, by how it begins, and reads nothing from src.
func IsArchive(src *bufio.Reader) bool {
	begin, _ := src.Peek(len(archiveBegin))
	return string(begin) == archiveBegin
}

// Frame is an archive without its records, as lines without their line feeds.
type Frame struct {
	CompanyID string       `json:"companyId"`
	Before    string       `json:"before"`
	Signer    string       `json:"signer"` // fingerprint of the key that has signed the checkpoints
	Head      []string     `json:"head"`
	Logs      [2]FramedLog `json:"logs"` // in the order of the file
}

// FramedLog is one log in a Frame.
type FramedLog struct {
	Log        string `json:"log"`
	From       int64  `json:"from,omitempty"` // index of the first record
	Records    int64  `json:"records"`        // between the two lines
	Opening    string `json:"opening"`
	Checkpoint string `json:"checkpoint"`
}

// Archived is what an archive says of one log. Opening is of no records, or of those of the last
// prune.
type Archived struct {
	Opening, End Mark
	Checkpoint   []byte // signed, of the size of End
}

// NewFrame returns the frame of an archive. The file has the company, both logs, and their keys;
// logs are in the order of the file.
func NewFrame(f *evidence.File, before string, logs [2]Archived) Frame {
	at := logs[0].End.At
	frame := Frame{CompanyID: f.CompanyID, Before: before, Signer: keys.Describe(f.Keys[len(f.Keys)-1]).Fingerprint}
	first := append(jcs.AppendString(append(head(nil, TypeArchive, chain.FormatTime(at), f.CompanyID, ""), `,"before":`...), before), `,"logs":[`...)
	for i := range logs {
		l := &logs[i]
		if i > 0 {
			first = append(first, ',')
		}
		first = append(append(append(first, `{"log":"`...), l.End.Log...), `","index":`...)
		first = append(strconv.AppendInt(first, l.End.Frontier.Size, 10), `,"checkpoint":`...)
		first = append(jcs.AppendString(first, string(l.Checkpoint)), '}')
		from := l.Opening.Frontier.Size
		frame.Logs[i] = FramedLog{l.End.Log, from, l.End.Frontier.Size - from,
			string(l.Opening.AppendOpening(nil)), string(l.End.AppendCheckpoint(nil, from))}
	}
	frame.Head = []string{string(append(first, "]}"...)), string(AppendKeys(nil, "", f, at))}
	return frame
}

// archiveLine is the first line of an archive.
type archiveLine struct {
	company, at, before string
	logs                [2]struct {
		index      int64
		checkpoint string
	}
}

// parseArchive reads the first line of an archive.
func parseArchive(text []byte) (a archiveLine, err error) {
	if err := evidence.Bounded(text); err != nil {
		return a, err
	}
	m, err := members(text, "", "format", "type", "@timestamp", "companyId", "before", "logs")
	if err != nil {
		return a, err
	}
	if !bytes.HasPrefix(text, []byte(archiveBegin)) {
		return a, fmt.Errorf("it does not begin with %s", archiveBegin)
	}
	a.company, _ = strictjson.AsString(m["companyId"])
	a.at, _ = strictjson.AsString(m["@timestamp"])
	a.before, _ = strictjson.AsString(m["before"])
	if !chain.IsTimestamp(a.at) || !chain.IsTimestamp(a.before) {
		return a, fmt.Errorf("its @timestamp or before is no timestamp")
	}
	count := 0
	err = strictjson.EachElement(m["logs"], maxDepth, func(value []byte) {
		count++
		if count > len(a.logs) || err != nil {
			return
		}
		l := &a.logs[count-1]
		m, failed := members(value, "", "log", "index", "checkpoint")
		if failed != nil {
			err = failed
			return
		}
		name, _ := strictjson.AsString(m["log"])
		var isIndex, isText bool
		l.index, isIndex = parseIndex(m["index"])
		l.checkpoint, isText = strictjson.AsString(m["checkpoint"])
		if name != archiveOrder[count-1] || !isIndex || !isText {
			err = fmt.Errorf("its log %d is not %s with an index and a checkpoint", count, archiveOrder[count-1])
		}
	})
	if err == nil && count != len(a.logs) {
		err = fmt.Errorf("it has not two logs")
	}
	return a, err
}

// tree returns the tree of a checkpoint that says how many records a log of the archive has, and
// which key has signed it.
func (a *archiveLine) tree(ring *evidence.Ring, i int) (tlog.Tree, int, error) {
	l := &a.logs[i]
	checkpoint, signer, err := ring.Open(archiveOrder[i], l.checkpoint)
	if err == nil && (checkpoint.Size != l.index || bytes.Count([]byte(l.checkpoint), []byte("\n")) != 5) {
		err = fmt.Errorf("it is not one of %d records with one signature", l.index)
	}
	return checkpoint.Tree, signer, err
}

// The actionType and subject of control records about pruned payloads.
const (
	pruneAction  = "payloads.pruned"
	pruneSubject = "payloads"
)

// prune is what a control record says of pruned payloads.
type prune struct {
	index   int64 // of the record
	records int64 // how many actions have no payload any more
	root    tlog.Hash
	archive string // SHA-256 of the archive that has them, in lower-case hex
}

// readPrune reads what a control record, which was checked, says of pruned payloads. ok is false
// for a record of another kind. A form that the service does not write is another kind too.
func readPrune(index int64, record []byte) (p prune, ok bool) {
	if !bytes.Contains(record, []byte(`"`+pruneAction+`"`)) {
		return p, false
	}
	var payload, details []byte
	var action, subject, root string
	var isIndex bool
	err := strictjson.EachMember(record, maxDepth, func(name, value []byte) {
		if string(name) == "payload" {
			payload = value
		}
	})
	if err == nil {
		err = strictjson.EachMember(payload, maxDepth, func(name, value []byte) {
			switch string(name) {
			case "actionType":
				action, _ = strictjson.AsString(value)
			case "payload":
				details = value
			}
		})
	}
	if err != nil || action != pruneAction {
		return p, false
	}
	p.index = index
	err = strictjson.EachMember(details, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "subject":
			subject, _ = strictjson.AsString(value)
		case "records":
			p.records, isIndex = parseIndex(value)
		case "root":
			root, _ = strictjson.AsString(value)
		case "archive":
			p.archive, _ = strictjson.AsString(value)
		}
	})
	sum, isRoot := hash(root)
	_, isSum := hash(p.archive)
	p.root = tlog.Hash(sum)
	return p, err == nil && subject == pruneSubject && isIndex && p.records > 0 && isRoot && isSum
}

// hash reads 64 digits of lower-case hex.
func hash(text string) (sum [32]byte, ok bool) {
	data, err := hex.DecodeString(text)
	if err != nil || len(data) != len(sum) || hex.EncodeToString(data) != text {
		return sum, false
	}
	return [32]byte(data), true
}

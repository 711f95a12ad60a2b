package lines

import (
	"bytes"
	"encoding/hex"

	"attestd/chain/tlog"
	"attestd/crypto/strictjson"
)

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

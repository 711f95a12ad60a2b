// Package lines is the form in which the logs of companies leave the service, one JSON object a
// line, and the check of such lines. The package is pure: bytes in, verdict out.
//
// # Lines
//
// Every line is a JSON object (RFC 8259) of at most 64 MiB that begins
//
//	{"format":"attestd-lines/v1","type":TYPE,"@timestamp":TIME,"companyId":COMPANY, …
//
// and continues by its type, behind "run":RUN in the lines of an export. There are no other
// members:
//
//	record      "log","index","hash","record"
//	checkpoint  "log","index","hash","previous","frontier","consistency"
//	opening     "log","index","hash","frontier","consistency"
//	keys        "ring"
//
// log is "actions" or "control". The two logs of a company, and those of several companies, may
// alternate in any way; the lines of one log and one run have an order.
//
// run names a run of the export: one holding of the duty to export by a server, one start of the
// server of a file, or one attestd export. It has 1 to 64 letters, digits, hyphens and underscores.
// A server that was halted may send a batch when another one has gone on for it. So the lines of
// two runs may alternate too. Lines that were written before there were runs have no run: these
// are one run. An archive has none.
//
// A record line has a record as GET /v1/chain has it, without line feeds, carriage returns and tabs
// between its tokens; a DEL in a string is written \u007f. index, hash and @timestamp repeat those
// of the record.
//
// A checkpoint line follows record index-1 and says what the tree of the first index records is.
// hash is the root of the log tree of that size (package tlog) in lower-case hex. frontier is the
// roots of its perfect subtrees in base64, the largest first. consistency is the response of GET
// /v1/log/{logId}/consistency?from=index: a consistency proof from this tree to a checkpoint of at
// least that size, and that signed checkpoint, with cosignatures where there are any. previous is
// the index of the checkpoint or opening line before it in its run.
//
// An opening line says that records from index on follow. Its other members are those of a
// checkpoint line, without previous. There is one of both logs wherever an exporter starts or
// starts again, in every new file, and after a delivery that was not acknowledged. In the last case
// its index may be below that of a record that was sent already: these records come again, with the
// same bytes but for the run.
//
// A keys line has all keys of the company and their rotations: {"companyId","logs","keys"}, as in
// the header of a report (package evidence). It comes before an opening, and comes again when there
// is another key. The records may precede it.
//
// @timestamp of lines that are no records is the time at which they were written, by the clock of
// the exporter. Nothing proves it.
//
// Sorted by log, index, type and previous, the lines of a company are in an order that holds too,
// if records that came twice are there once.
//
// An archive, which is one file, begins with one more type of line: see [TypeArchive].
//
// # Carriers
//
// The check reads three carriers of lines:
//
//   - NDJSON: the line itself, as files, HTTPS receivers and Elastic documents have it.
//   - syslog: text without a brace before the object, at most 1,024 bytes, which is the header that
//     a receiver has written. Nothing proves it.
//   - OCSF: an OCSF event with the line as unmapped.attestd. The check makes the event again from
//     the line, and refuses one that differs (see [OCSF]).
//
// # Check
//
// A check reads one or more files in the order in which their lines were sent. All of it is about
// one company. First it looks for the keys line with the most keys. Then, of each line in order:
//
//  1. MALFORMED. The line is of the form above, and repeats what it repeats.
//  2. KEYS. Keys are as check 2 of package evidence wants them, and those of each keys line are a
//     beginning of the ones chosen.
//  3. RECORD. The record has the form, the company, the log and the hash of check 3 of package
//     evidence, and the key of its index signed it. Its time is not before that of its predecessor.
//  4. MISSING. No index is left out: record and checkpoint lines have the index that is next in
//     their run. They may leave out records that another run has sent, as where a destination
//     drops what it has already. The first line of a log has index 0 or is an opening line, so
//     that the lines say themselves that they begin later. In the end there are lines of both logs.
//  5. REPEATED. An index comes again in a run only after an opening line with that index or a
//     lower one, and in any run only with the same leaf, byte for byte. The check remembers the
//     last 262,144 records, and the last 256 runs of a log.
//  6. CHECKPOINT. The frontier gives hash, which is the root of the tree that the records so far
//     make; where the lines begin above index 0, with the frontier of the opening line. The
//     consistency proof leads from it to the checkpoint, which a key of the company has signed that
//     signed at that size. A later tree of the checkpoint's size has the checkpoint's root.
//     previous is the index of the checkpoint or opening line before in the run, if there is one;
//     or of one of the last 1,024 before, if the checkpoint line before has a lower index or
//     another time.
//  7. KEY, POLICY. The key that you trust is one of the company's. A checkpoint counts when that
//     key, or one that follows it, has signed it; or when the policy accepts it.
//  8. UNCOVERED. Each log has a checkpoint that counts and covers a record, or every record.
//
// What precedes the first line of a log is not in the lines, and what follows the last checkpoint
// that counts is not covered: each of these records was signed by the company, but one that is
// missing at the outer end is missing unseen. The verdict says which these are. It is "holds" when
// all checks pass and "self-consistent" where nothing is trusted.
//
// Some lines are no loss when they are gone, and may be gone unseen: a keys line while there is
// another one, an opening line at the index of the line before it, a checkpoint line that an
// opening line follows before another checkpoint, a record line that comes again, and the last
// lines of a run that another run has sent too.
package lines

import (
	"encoding/hex"
	"strconv"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/crypto/jcs"
)

// Format is the first member of every line.
const Format = "attestd-lines/v1"

// The types of lines.
const (
	TypeRecord     = "record"
	TypeCheckpoint = "checkpoint"
	TypeOpening    = "opening"
	TypeKeys       = "keys"
)

// maxRun is the length of the longest name of a run.
const maxRun = 64

// isRun reports whether text may name a run.
func isRun(text string) bool {
	for _, c := range []byte(text) {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return text != "" && len(text) <= maxRun
}

// head appends the members that all lines have. run may be "" for none.
func head(dst []byte, kind, at, company, run string) []byte {
	dst = append(dst, `{"format":"`+Format+`","type":"`...)
	dst = append(append(dst, kind...), `","@timestamp":"`...)
	dst = append(append(dst, at...), `","companyId":`...)
	dst = jcs.AppendString(dst, company)
	if run != "" {
		dst = append(append(append(dst, `,"run":"`...), run...), '"')
	}
	return dst
}

// place appends log, index and hash.
func place(dst []byte, log string, index int64, hash []byte) []byte {
	dst = append(append(append(dst, `,"log":"`...), log...), `","index":`...)
	dst = append(strconv.AppendInt(dst, index, 10), `,"hash":"`...)
	return append(hex.AppendEncode(dst, hash), '"')
}

// AppendRecord appends the line of a record, without its line feed. run is "" in an archive.
func AppendRecord(dst []byte, company, run, log string, r *chain.Record) []byte {
	dst = place(head(dst, TypeRecord, r.Timestamp, company, run), log, r.Index, r.Hash[:])
	dst = append(dst, `,"record":`...)
	start := len(dst)
	dst = append(r.AppendLine(dst), '}')
	escape := 0
	for i, c := range dst[start:] {
		switch c {
		case '\t':
			dst[start+i] = ' '
		case 0x7f:
			escape++
		}
	}
	if escape > 0 { // receivers of syslog change control characters
		text := string(dst[start:])
		dst = dst[:start]
		for i := range len(text) {
			if text[i] == 0x7f {
				dst = append(dst, `\u007f`...)
			} else {
				dst = append(dst, text[i])
			}
		}
	}
	return dst
}

// Mark is what a checkpoint or opening line says of a log.
type Mark struct {
	CompanyID, Log string
	Run            string        // "" in an archive
	Frontier       tlog.Frontier // of the records before it
	// response of GET /v1/log/{logId}/consistency?from=Frontier.Size
	Consistency []byte
	At          time.Time
}

// AppendCheckpoint appends a checkpoint line, without its line feed. previous is the index of the
// checkpoint or opening line before it.
func (m *Mark) AppendCheckpoint(dst []byte, previous int64) []byte {
	dst = m.place(dst, TypeCheckpoint)
	dst = strconv.AppendInt(append(dst, `,"previous":`...), previous, 10)
	return m.prove(dst)
}

// AppendOpening appends an opening line, without its line feed.
func (m *Mark) AppendOpening(dst []byte) []byte { return m.prove(m.place(dst, TypeOpening)) }

func (m *Mark) place(dst []byte, kind string) []byte {
	root := m.Frontier.Root()
	return place(head(dst, kind, chain.FormatTime(m.At), m.CompanyID, m.Run), m.Log, m.Frontier.Size, root[:])
}

func (m *Mark) prove(dst []byte) []byte {
	dst = append(dst, `,"frontier":[`...)
	for i, root := range m.Frontier.Roots {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), root.String()...), '"')
	}
	dst = append(dst, `],"consistency":`...)
	return append(jcs.AppendString(dst, m.Consistency), '}')
}

// AppendKeys appends a keys line, without its line feed. The file has the company, both logs, and
// their keys. run is "" in an archive.
func AppendKeys(dst []byte, run string, f *evidence.File, at time.Time) []byte {
	dst = head(dst, TypeKeys, chain.FormatTime(at), f.CompanyID, run)
	return append(f.AppendRing(append(dst, `,"ring":`...)), '}')
}

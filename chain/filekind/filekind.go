// Package filekind says what a file of attestd is, by how it begins, and who checks it. A checker
// that is given a file of a kind that it does not read says so, and comes to no verdict: such a
// file may be as genuine as any. The checkers in JavaScript and Python do what this package does;
// kinds.json has a sample of each kind.
//
// # Kinds
//
// Only the first 8 MiB count. A file is of the first of these kinds whose form it has:
//
//	TlogProof    the first line is c2sp.org/tlog-proof@v1
//	Consistency  the first line is old and a number
//	Checkpoint   the first line is not empty, and has no brace; the second is a number, and the
//	             third a hash in base64
//	Token        the text is one compact JWS, with white space around it or none
//
// or else by a JSON object, in the first line or as the entire file. The object has the bounds of
// evidence, no name twice, and an RFC 8785 form:
//
//	Evidence, Session, Report, Lines, Archive  by the member format; the latter two by type too
//	Lines                                      in an OCSF event too: class_uid and unmapped.attestd
//	Saved                                      type is attestd-evidence
//	Proof                                      it has record, proof and root
//	Record                                     … index, timestamp, payload, hash and signature
//	Status                                     … jti, status, checkedAt and signature
//	Passport                                   … passport and caPublicKey
//	Keys                                       … keys, and origin or fingerprint
//
// In the first line, text without a brace may precede lines, at most 1,024 bytes: the header
// of syslog. Whatever has format is of no kind from Saved on. A file of none of these kinds is
// Unknown, and every checker checks it as what it reads: it fails as MALFORMED.
package filekind

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"attestd/chain/evidence"
	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
	"attestd/internal/lazyregexp"
)

// Kind is what a file is.
type Kind string

// The kinds of files.
const (
	Unknown     Kind = ""
	Evidence    Kind = "evidence"    // of one record: GET /v1/evidence/{index}
	Session     Kind = "session"     // of signed statements: GET /v1/sessions/{agentId}/{sid}
	Report      Kind = "report"      // of a period: GET /v1/report
	Archive     Kind = "archive"     // of attestd archive
	Lines       Kind = "lines"       // of attestd export
	Proof       Kind = "proof"       // GET /v1/proof/{index}
	Record      Kind = "record"      // GET /v1/chain/{index}
	Status      Kind = "status"      // of a passport
	Passport    Kind = "passport"    // the answer that has it
	Token       Kind = "token"       // a passport, or another JWT
	Keys        Kind = "keys"        // GET /v1/ca/public-key or -keys
	Checkpoint  Kind = "checkpoint"  // GET /v1/log/{logId}/checkpoint
	Consistency Kind = "consistency" // GET /v1/log/{logId}/consistency
	TlogProof   Kind = "tlog-proof"  // GET /v1/log/{logId}/proof/{index}
	Saved       Kind = "saved"       // evidence of consoles before the format evidence
)

// words are what a file is, and who checks it. Every checker says the same.
var words = map[Kind][2]string{
	Evidence: {"evidence of a record", "attestd check, check.py, check.mjs, verifier.html and the page Proof of the console check it"},
	Session:  {"the file of a session", "attestd check, check.py, check.mjs and verifier.html check it"},
	Report:   {"a report", "attestd check, attestd report and the page Report of the console check it"},
	Archive:  {"an archive", "attestd check checks it, by itself"},
	Lines:    {"a file of exported lines", "attestd check --lines checks it"},
	Proof:    {"a proof", "check.py and check.mjs check it, with a file of the company's keys after it"},
	Record: {"a record", "functions of check.py and check.mjs check it, with the company's keys; " +
		"GET /v1/evidence/{index} is a file about it that attestd check reads"},
	Status:   {"the status of a passport", "functions of check.py and check.mjs check it, with the company's keys"},
	Passport: {"an answer with a passport", "functions of check.py and check.mjs check it, with the company's keys; the page Passports of the console checks the token in it"},
	Token:    {"a token", "functions of check.py and check.mjs check a passport, with the company's keys, and the page Passports of the console"},
	Keys:     {"a file of a company's keys", "check.py and check.mjs take it after a proof"},
	Checkpoint: {"a checkpoint", "the page Checkpoints of the console checks it; " +
		"with GET /v1/log/{logId}/consistency, attestd check --newer compares it with an older file"},
	Consistency: {"the proof that a log goes on", "attestd check --newer takes it, with an older file"},
	TlogProof: {"a tlog-proof", "tools of c2sp.org check it; " +
		"GET /v1/evidence/{index} has it in a file that attestd check reads"},
	Saved: {"evidence that an earlier console saved", "the page Proof of the console checks it"},
}

// All returns all kinds but Unknown.
func All() []Kind { return slices.Sorted(maps.Keys(words)) }

// Is returns what a file of the kind is, and who checks it, in words.
func (k Kind) Is() string {
	w := words[k]
	return fmt.Sprintf("%s: %s", w[0], w[1])
}

const (
	maxHeader = 1024 // bytes before lines
	maxDepth  = 160  // of evidence
)

var (
	consistencyForm = lazyregexp.New(`^old (0|[1-9][0-9]*)\n`)
	checkpointForm  = lazyregexp.New(`^[^{\n]+\n(0|[1-9][0-9]*)\n[A-Za-z0-9+/]{43}=\n`)
	tokenForm       = lazyregexp.New(`^[ \t\r\n]*[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+[ \t\r\n]*$`)
)

// Of returns what a file is, and reads nothing from src, which [evidence.Reader] makes.
func Of(src *bufio.Reader) Kind {
	for n := 4096; ; n *= 2 {
		n = min(n, src.Size())
		begin, err := src.Peek(n)
		if complete := errors.Is(err, io.EOF); err != nil || n == src.Size() {
			return of(begin, complete)
		}
	}
}

// of returns what a file is that begins so. complete is true where begin is all of it.
func of(begin []byte, complete bool) Kind {
	switch {
	case bytes.HasPrefix(begin, []byte("c2sp.org/tlog-proof@v1\n")):
		return TlogProof
	case consistencyForm().Match(begin):
		return Consistency
	case checkpointForm().Match(begin):
		return Checkpoint
	case complete && tokenForm().Match(begin):
		return Token
	}
	line := begin
	end := bytes.IndexByte(begin, '\n')
	if end >= 0 {
		line = begin[:end]
	}
	if end < 0 && !complete {
		return Unknown
	}
	at := bytes.IndexByte(line, '{')
	if at >= 0 && at <= maxHeader {
		if kind := ofObject(line[at:]); kind != Unknown && (at == 0 || kind == Lines) {
			return kind
		}
	}
	if complete && end >= 0 {
		return ofObject(begin)
	}
	return Unknown
}

// ofObject returns what the file is whose first line, or all of which, is a JSON object.
func ofObject(text []byte) Kind {
	if evidence.Bounded(text) != nil {
		return Unknown
	}
	if _, err := jcs.Append(nil, text, maxDepth); err != nil {
		return Unknown
	}
	m, ok := membersOf(text)
	if !ok {
		return Unknown
	}
	if inner, ok := membersOf(m["unmapped"]); ok && m["class_uid"] != nil {
		if carried, ok := membersOf(inner["attestd"]); ok && ofFormat(carried) == Lines {
			return Lines
		}
	}
	if m["format"] != nil {
		return ofFormat(m)
	}
	kind, _ := strictjson.AsString(m["type"])
	has := func(names ...string) bool {
		for _, name := range names {
			if m[name] == nil {
				return false
			}
		}
		return true
	}
	switch {
	case kind == "attestd-evidence":
		return Saved
	case has("record", "proof", "root"):
		return Proof
	case has("index", "timestamp", "payload", "hash", "signature"):
		return Record
	case has("jti", "status", "checkedAt", "signature"):
		return Status
	case has("passport", "caPublicKey"):
		return Passport
	case has("keys") && (has("origin") || has("fingerprint")):
		return Keys
	}
	return Unknown
}

// ofFormat returns the kind that format names.
func ofFormat(m map[string][]byte) Kind {
	format, _ := strictjson.AsString(m["format"])
	if format == "attestd-lines/v1" {
		kind, _ := strictjson.AsString(m["type"])
		return map[string]Kind{"archive": Archive, "record": Lines, "checkpoint": Lines, "opening": Lines, "keys": Lines}[kind]
	}
	return map[string]Kind{evidence.Format: Evidence, evidence.SessionFormat: Session, evidence.ReportFormat: Report}[format]
}

// membersOf returns the members of an object.
func membersOf(text []byte) (map[string][]byte, bool) {
	m := make(map[string][]byte)
	err := strictjson.EachMember(text, maxDepth, func(name, value []byte) { m[string(name)] = value })
	return m, err == nil
}

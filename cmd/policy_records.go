package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"attestd/chain/evidence"
	"attestd/chain/filekind"
	"attestd/chain/lines"
	"attestd/cmd/cli"
	"attestd/crypto/strictjson"
	"attestd/internal/linereader"
)

// fileRecord is a record in a file, which nothing here verifies. Its parts alias the text.
type fileRecord struct {
	index     int64
	timestamp string
	payload   []byte // its object; nil where it was pruned
}

// maxRecordDepth is more than a line or a file of evidence nests.
const maxRecordDepth = 256

// maxLineHeader is how many bytes of syslog may be before the object of a line.
const maxLineHeader = 1024

// eachFileRecord calls yield for each record in a file: what attestd records prints, what attestd
// export, archive and serve --export-to write, and files of evidence, sessions and reports.
func eachFileRecord(path string, yield func(fileRecord) error) error {
	f, err := cli.OpenNamed(path)
	if err != nil {
		return err
	}
	defer f.Close()
	src := evidence.Reader(f)
	if filekind.Of(src) == filekind.Evidence {
		text, err := cli.BoundedText(f, src, evidence.MaxSize)
		if err == nil && len(text) > evidence.MaxSize {
			err = fmt.Errorf("it is longer than %d bytes", evidence.MaxSize)
		}
		if err == nil {
			err = eachOfText(text, yield)
		}
		return inRecords(path, err)
	}
	return inRecords(path, eachOfLines(src, yield))
}

// inRecords names the file of an error of its contents.
func inRecords(path string, err error) error {
	var own *os.PathError // names it already
	if err == nil || errors.As(err, &own) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

func eachOfLines(src io.Reader, yield func(fileRecord) error) error {
	in := linereader.New(src, lines.MaxLine)
	for n := 1; ; n++ {
		text, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil || errors.Is(err, linereader.ErrCut) {
			err = eachOfText(text, yield)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// eachOfText calls yield for the record of an object, if it has one.
func eachOfText(text []byte, yield func(fileRecord) error) error {
	at := bytes.IndexByte(text, '{')
	if at < 0 || at > maxLineHeader {
		return errNotRecords
	}
	r, err := readFileRecord(text[at:])
	if err != nil || r == nil || r.payload == nil {
		return err
	}
	return yield(*r)
}

var errNotRecords = errors.New("it has no records: wanted is a file of attestd records, export or archive, or one of evidence, a session or a report")

// readFileRecord returns the record of an object: of a line or of evidence, in an OCSF event, or
// the object itself; nil where it is another line of such a file.
func readFileRecord(object []byte) (*fileRecord, error) {
	if err := evidence.Bounded(object); err != nil {
		return nil, err
	}
	m, err := fileMembers(object, "format", "unmapped", "record", "index", "timestamp", "payload")
	if err != nil {
		return nil, err
	}
	if m["unmapped"] != nil {
		event, err := fileMembers(m["unmapped"], "attestd")
		if err != nil || event["attestd"] == nil {
			return nil, errors.Join(err, errNotRecords)
		}
		return readFileRecord(event["attestd"])
	}
	if m["record"] != nil {
		if m, err = fileMembers(m["record"], "index", "timestamp", "payload"); err != nil {
			return nil, err
		}
	} else if m["format"] != nil {
		return nil, nil
	}
	var r fileRecord
	var isIndex, isTime bool
	r.index, isIndex = strictjson.AsInteger(m["index"])
	r.timestamp, isTime = strictjson.AsString(m["timestamp"])
	if !isIndex || !isTime || m["payload"] == nil {
		return nil, errNotRecords
	}
	if r.payload = m["payload"]; string(r.payload) == "null" {
		r.payload = nil
	}
	return &r, nil
}

// fileMembers returns members of an object, by their names.
func fileMembers(object []byte, names ...string) (map[string][]byte, error) {
	found := make(map[string][]byte, len(names))
	err := strictjson.EachMember(object, maxRecordDepth, func(name, value []byte) {
		for _, wanted := range names {
			if string(name) == wanted {
				found[wanted] = value
			}
		}
	})
	return found, err
}

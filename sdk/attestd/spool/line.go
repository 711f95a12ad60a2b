package spool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"

	"attestd/sdk/attestd"
)

// checksumSize is the length of a line's beginning: eight hex digits and a space.
const checksumSize = 9

func checksum(text []byte) uint32 { return crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)) }

// appendLine appends a prepared attestation. Line breaks between the values of its payload become
// spaces, which mean the same.
func appendLine(dst []byte, a attestd.Attestation) []byte {
	text := a.AppendJSON(nil)
	for i, c := range text {
		if c == '\n' {
			text[i] = ' '
		}
	}
	return append(append(fmt.Appendf(dst, "%08x ", checksum(text)), text...), '\n')
}

// readLine reads a line without its end.
func readLine(line []byte) (a attestd.Attestation, ok bool) {
	if len(line) < checksumSize || line[checksumSize-1] != ' ' {
		return a, false
	}
	want, err := strconv.ParseUint(string(line[:checksumSize-1]), 16, 32)
	text := line[checksumSize:]
	if err != nil || checksum(text) != uint32(want) {
		return a, false
	}
	var read struct {
		AgentID, ActionType, Delegation, IdempotencyKey, Statement string
		Payload                                                    json.RawMessage
	}
	if json.Unmarshal(text, &read) != nil || read.IdempotencyKey+read.Statement == "" {
		return a, false
	}
	a = attestd.Attestation{
		AgentID: read.AgentID, ActionType: read.ActionType, Payload: read.Payload, Delegation: read.Delegation,
		IdempotencyKey: read.IdempotencyKey, Statement: read.Statement,
	}
	a, err = a.Prepare()
	return a, err == nil
}

// isLive reports whether a line is to be sent.
func isLive(line []byte) bool { return len(line) == 0 || line[0] != sentMark }

// lines are the whole lines of a queue, without their ends: what comes after them was never
// acknowledged.
func lines(queue []byte) (list [][]byte) {
	for line := range bytes.Lines(queue) {
		if line, whole := bytes.CutSuffix(line, []byte("\n")); whole {
			list = append(list, line)
		}
	}
	return list
}

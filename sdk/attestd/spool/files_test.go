package spool

import (
	"bytes"
	"encoding/json"
	"testing"

	"attestd/sdk/attestd"
)

// Whatever a queue contains, reading it panics nowhere and loses no byte of a complete line; lines
// that Add wrote are found between all else.
func FuzzRead(f *testing.F) {
	f.Add([]byte(""), "bot", `{"a":1}`, []byte("00000000 {}\n"))
	f.Add([]byte("deadbeef {}\n\n"), "é\"\\\n", "[1.0,\n\"\\ud83d\"]", []byte("\x00\x00\n\x00"))
	f.Fuzz(func(t *testing.T, before []byte, agent, payload string, after []byte) {
		a, err := attestd.Attestation{AgentID: agent, ActionType: "a", Payload: json.RawMessage(payload)}.Prepare()
		if err != nil {
			a, err = attestd.Attestation{AgentID: "bot", ActionType: "a", Payload: payload}.Prepare()
		}
		if err != nil {
			t.Fatal(err)
		}
		line := appendLine(nil, a)
		if bytes.IndexByte(line, '\n') != len(line)-1 {
			t.Fatalf("%q", line)
		}
		if len(before) > 0 {
			before = append(before, '\n')
		}
		queue := append(append(bytes.Clone(before), line...), after...)
		found, size := false, 0
		for _, l := range lines(queue) {
			size += len(l) + 1
			item, ok := readLine(l)
			found = found || ok && item.IdempotencyKey == a.IdempotencyKey && bytes.Equal(appendLine(nil, item), line)
		}
		if !found {
			t.Errorf("%q is not found", line)
		}
		if size != bytes.LastIndexByte(queue, '\n')+1 {
			t.Errorf("the lines have %d bytes of %d", size, len(queue))
		}
	})
}

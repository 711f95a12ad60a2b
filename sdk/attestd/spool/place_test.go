package spool

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A line that is read as that of a plain statement says what a parser of JSON reads in it.
func FuzzPlainPlace(f *testing.F) {
	f.Add(`{"sid":"a~1","seq":7,"hash":"0f"}`)
	f.Add(`{"sid":"a","seq":12,"hash":"0f","jti":"j","action":"ac"}`)
	f.Add(`{"sid":"a","seq":0,"hash":"0f","jti":"j","action":"ac","end":true,"names":[[1,2]]}`)
	f.Add(`{"sid":"a","seq":01,"hash":"0f"}`)
	f.Add(`{"sid":"\u003c","seq":1,"hash":"0f"}`)
	f.Fuzz(func(t *testing.T, line string) {
		var want place
		plain, ok := plainPlace(line)
		if !ok {
			return
		}
		if err := json.Unmarshal([]byte(line), &want); err != nil || !reflect.DeepEqual(plain, want) {
			t.Errorf("%q is %+v, and %+v as JSON: %v", line, plain, want, err)
		}
	})
}

// Statements are written as plain lines, so that a long session is read soon.
func TestStatementsArePlainLines(t *testing.T) {
	t.Parallel()
	for _, p := range []place{{Session: "s", Seq: 3, Hash: "h"}, {Session: "s~2", Seq: 3, Hash: "h", ID: "j", Action: "a"}} {
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := plainPlace(string(text)); !ok || !reflect.DeepEqual(got, p) {
			t.Errorf("%s is read as %+v, %v", text, got, ok)
		}
	}
}

func BenchmarkReadPlaces(b *testing.B) {
	path := filepath.Join(b.TempDir(), "places")
	for seq := range int64(1000) {
		p := place{Session: "139669a7-0e88-4f3b-af3a-3f7cdcac4207", Seq: seq, Hash: strings.Repeat("0f", 32), ID: strings.Repeat("j", 43), Action: strings.Repeat("a1", 32)}
		if err := appendPlace(path, p); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if p, err := readPlaces(path); err != nil || len(p.lines) != 1000 || p.broken {
			b.Fatal(err)
		}
	}
}

package test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"attestd/internal/must"
)

// The agent's keys of the samples: each follows from the one before it. The last one belongs to no
// agent.
var agentKeys = [...]string{
	"rmqQfGdG6AHIBRiK_myuURlwB-jCJkJqP1hdDDXhgag", "TPyGtlHQixXw3XXNcox5ype3veqUv0hVTe3auh_FhQs", "WhlIT0HTwF6yZDONyo6NMnrstKfPhO74Xg-5inZ6raA",
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
}

// statementCases are records that an agent has signed, with a key of the agent and without one:
// genuine, in odd forms, and forged with the company's key.
func statementCases(t *testing.T) (all []evidenceCase) {
	t.Helper()
	pinned := func(name, file, pin string, message ...string) {
		message = slices.DeleteFunc(message, func(text string) bool { return text == "" })
		all = append(all, evidenceCase{Name: name + ", with a key", File: []byte(file), Key: sampleKey, AgentKey: pin, Says: message},
			evidenceCase{Name: name, File: []byte(file), AgentKey: pin, Says: message})
	}
	signed := evidenceSample(t, "signed.json")
	for i, pin := range agentKeys {
		message := "own key " + agentKeys[2] + " signed this"
		if i == len(agentKeys)-1 {
			message = ""
		}
		pinned("signed.json, pinned "+pin, signed, pin, message)
		pinned("whole.json, pinned "+pin, evidenceSample(t, "whole.json"), pin, "")
	}
	pinned("signed.json, not pinned", signed, "", "key that the company enrolled for this agent signed this: "+agentKeys[2]+
		", enrolled at 2026-11-21T09:00:06.000Z by the key before it, "+agentKeys[1])
	pinned("admitted.json, not pinned", evidenceSample(t, "admitted.json"), "", "key that the company enrolled for this agent signed this: "+agentKeys[0]+
		", enrolled at 2026-11-21T09:00:01.000Z by an admin's credential, api-key:9f86d081884c7d65")

	var forged []struct{ Name, File, Pin, Code, Says string }
	must.OK(t, json.Unmarshal([]byte(evidenceSample(t, "forged.json")), &forged))
	for _, f := range forged {
		pinned("forged: "+f.Name+", pinned", f.File, f.Pin, "")
		pinned("forged: "+f.Name, f.File, "", f.Says)
		for _, c := range all[len(all)-4 : len(all)-2] {
			if got := c.verdict(); got != "fails STATEMENT" {
				t.Errorf("%s: %s", c.Name, got)
			}
		}
	}
	for kind, name := range map[string]string{"odd: ": "odd_statements.jsonl.gz", "case: ": "statement_cases.jsonl.gz"} {
		eachLine(t, name, func(line []byte) {
			var c struct {
				Name, File, Code, Pin string
				Says                  []string
			}
			must.OK(t, json.Unmarshal(line, &c))
			one := evidenceCase{Name: kind + c.Name, File: []byte(c.File), Key: sampleKey, AgentKey: c.Pin, Says: c.Says}
			all = append(all, one)
			if got := one.verdict(); !strings.HasSuffix(strings.TrimSuffix(got, " said"), c.Code) || c.Code == "" && strings.TrimSuffix(got, " said") != "holds" {
				t.Errorf("%s: %s, want %s", c.Name, got, c.Code)
			}
		})
	}
	return all
}

// eachLine calls yield for each line of a sample that is compressed.
func eachLine(t *testing.T, name string, yield func([]byte)) {
	t.Helper()
	zipped, err := os.Open("../chain/evidence/testdata/" + name)
	must.OK(t, err)
	defer zipped.Close()
	text, err := gzip.NewReader(zipped)
	must.OK(t, err)
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		yield(lines.Bytes())
	}
	must.OK(t, lines.Err())
}

// sessionCases are files of sessions: complete, open, with records missing, and changed in lines
// and in values.
func sessionCases(t *testing.T) (all []evidenceCase) {
	t.Helper()
	for name, state := range map[string]string{
		"session-complete.jsonl": "4 records, complete: 0 to 3, sealed", "session-one.jsonl": "1 records, complete: 0 to 0, sealed",
		"session-open.jsonl": "6 records, open at 5", "session-missing.jsonl": "3 records, missing 0, 2, open at 4",
	} {
		text := evidenceSample(t, name)
		for i, pin := range []string{"", agentKeys[0], agentKeys[1]} {
			message := []string{state}
			if i == 2 {
				message = nil
			}
			all = append(all, evidenceCase{Name: name + ", pinned " + pin, File: []byte(text), Key: sampleKey, AgentKey: pin, Says: message},
				evidenceCase{Name: name + ", with nothing, pinned " + pin, File: []byte(text), AgentKey: pin, Says: message},
				evidenceCase{Name: name + ", with another policy, pinned " + pin, File: []byte(text), AgentKey: pin, Policy: evidenceSample(t, "policy")})
		}
		for how, changed := range changedSession(t, text) {
			all = append(all, evidenceCase{Name: name + " " + how, File: []byte(changed), Key: sampleKey})
		}
	}
	text := evidenceSample(t, "session-missing.jsonl")
	header, rest, _ := strings.Cut(text, "\n")
	for i, line := range []string{header, rest[:strings.Index(rest, "\n")]} {
		everyValue(t, line, func(path, changed string) {
			file := changed + "\n" + rest
			if i == 1 {
				file = header + "\n" + changed + rest[strings.Index(rest, "\n"):]
			}
			all = append(all, evidenceCase{Name: path + " of line " + string(rune('1'+i)) + " of a session", File: []byte(file), Key: sampleKey})
		})
	}
	return all
}

// changedSession are the lines of a session in other orders and numbers, and other texts.
func changedSession(t *testing.T, session string) map[string]string {
	t.Helper()
	lines := strings.SplitAfter(session, "\n")
	lines = lines[:len(lines)-1]
	header := func(members map[string]any) string {
		return text(t, object(parsed(t, lines[0]).(map[string]any), members)) + "\n" + strings.Join(lines[1:], "")
	}
	other := strings.SplitAfter(evidenceSample(t, "session-complete.jsonl"), "\n")
	changed := map[string]string{
		"without its last line feed": session[:len(session)-1], "with an empty line": session + "\n", "with a space": session + " ", "with a line more": session + lines[len(lines)-1],
		"with carriage returns": strings.ReplaceAll(session, "\n", "\r\n"), "with an empty line first": "\n" + session, "with a byte order mark": "\ufeff" + session, "its header alone": lines[0],
		"with more records":              header(map[string]any{"records": len(lines)}),
		"with no records":                header(map[string]any{"records": 0}),
		"with too many records":          header(map[string]any{"records": 1_000_001}),
		"of another agent":               header(map[string]any{"agentId": "other"}),
		"of another session":             header(map[string]any{"sid": "other"}),
		"of an impossible session":       header(map[string]any{"sid": "a/b"}),
		"of another key":                 header(map[string]any{"kid": agentKeys[2]}),
		"of no key":                      header(map[string]any{"kid": "x"}),
		"with the sentences of evidence": header(map[string]any{"notProven": parsed(t, evidenceSample(t, "signed.json")).(map[string]any)["notProven"]}),
		"with a line of another session": lines[0] + other[1] + strings.Join(lines[2:], ""),
		"as evidence":                    strings.Replace(session, "attestd-session/v1", "attestd-evidence/v1", 1),
		"of a later version":             strings.Replace(session, "attestd-session/v1", "attestd-session/v2", 1),
		"a statement left out":           strings.Replace(session, `,"statement":"`, `,"statemen":"`, 1),
		"indented":                       indented(t, lines[0]) + strings.Join(lines[1:], ""),
	}
	if len(lines) == 2 { // one of the samples is enough to be this large
		pad := func(line string, size int) string {
			return strings.TrimSuffix(line, "\n") + strings.Repeat(" ", size-len(line)) + "\n"
		}
		changed["with a line as long as may be"] = lines[0] + pad(lines[1], 8<<20)
		changed["with a line that is too long"] = lines[0] + pad(lines[1], 8<<20+1)
		changed["with a header that is too long"] = pad(lines[0], 8<<20+1) + lines[1]
	}
	for i := range lines {
		n := string(rune('0' + i))
		changed["without line "+n] = strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "")
		changed["with line "+n+" twice"] = strings.Join(slices.Insert(slices.Clone(lines), i, lines[i]), "")
		if i > 1 {
			swapped := slices.Clone(lines)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			changed["with line "+n+" before the one before"] = strings.Join(swapped, "")
			changed["without line "+n+", as the header says"] = text(t, object(parsed(t, lines[0]).(map[string]any), map[string]any{"records": len(lines) - 2})) + "\n" +
				strings.Join(slices.Delete(slices.Clone(lines), i, i+1)[1:], "")
		}
	}
	return changed
}

func indented(t *testing.T, line string) string {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, json.Indent(&b, []byte(line), "", " "))
	return b.String()
}

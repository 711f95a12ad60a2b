package web_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// The console comes to the verdict and the code of attestd report on every report: the genuine one,
// and one in which a line is missing, doubled or moved, or a character is another. What is no UTF-8
// fails too, with a code.
func TestConsoleChecksReportsAsTheCommandDoes(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	t.Parallel()
	text, err := os.ReadFile("../chain/evidence/testdata/report.jsonl")
	must.OK(t, err)
	lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n")+"\n", "\n")
	lines = lines[:len(lines)-1]
	join := func(lines []string) []byte { return []byte(strings.Join(lines, "")) }
	reports := [][]byte{text, bytes.TrimSuffix(text, []byte("\n")), nil, append(slices.Clone(text), '\n'), []byte(lines[0])}
	two := `ends.","That what payloads`
	if !strings.Contains(lines[0], two) {
		t.Fatalf("the sample has no %s", two)
	}
	for _, between := range []string{" ", `\n`, `,`} { // two sentences in one
		reports = append(reports, bytes.Replace(text, []byte(two), []byte(`ends.`+between+`That what payloads`), 1))
	}
	reports = append(reports, append(slices.Clone(text), "junk"...), append(slices.Clone(text), "\n\n"...), append(slices.Clone(text), lines[len(lines)-1]...))
	for i, line := range lines {
		reports = append(reports, join(slices.Delete(slices.Clone(lines), i, i+1)), join(slices.Insert(slices.Clone(lines), i, line)))
		if i > 0 {
			swapped := slices.Clone(lines)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			reports = append(reports, join(swapped))
		}
		for at := i % 3; at < len(line)-1; at += 3 {
			other := slices.Clone(lines)
			for _, bit := range []byte{1, 0x80} { // another character, or no UTF-8
				changed := []byte(line)
				changed[at] ^= bit
				if other[i] = string(changed); bit == 1 || at%5 == 0 {
					reports = append(reports, join(other))
				}
			}
		}
	}
	for _, junk := range []string{"\xff", "\xff\xfe{\x00}", "\xef\xbb\xbf" + lines[0], "\xed\xa0\x80\n"} {
		reports = append(reports, []byte(junk), append(slices.Clone(text), junk...))
	}
	var in bytes.Buffer
	for _, report := range reports {
		fmt.Fprintln(&in, base64.StdEncoding.EncodeToString(report))
	}
	cmd := exec.CommandContext(t.Context(), testenv.Path(t, "node"), "console_test/report_codes.js")
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	must.OK(t, err)
	answers := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(answers) != len(reports) {
		t.Fatalf("%d answers to %d reports", len(answers), len(reports))
	}
	seen := map[string]int{}
	for i, report := range reports {
		v := evidence.CheckReport(bytes.NewReader(report), evidence.Trust{}, func(*evidence.Report) {}, func(*evidence.Event) {})
		want := fmt.Sprintf("%s %s", v.Outcome, v.Code)
		seen[want]++
		if answers[i] != want {
			t.Errorf("report %d: %q, and %q (%s) by the command:\n%s", i, answers[i], want, v.Reason, report)
		}
	}
	if len(seen) < 6 {
		t.Errorf("only these verdicts were compared: %v", seen)
	}
}

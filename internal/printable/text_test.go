package printable_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"

	"attestd/internal/printable"
)

type textCase struct{ Text, Printed string }

func textCases(t *testing.T) (cases []textCase) {
	t.Helper()
	text, err := os.ReadFile("cases.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil || len(cases) < 15 {
		t.Fatal(len(cases), err)
	}
	return cases
}

// All functions for printing follow the cases of the rule.
func TestPrintedText(t *testing.T) {
	t.Parallel()
	for _, c := range textCases(t) {
		if got := printable.Text(c.Text); got != c.Printed {
			t.Errorf("%q is printed as %q, want %q", c.Text, got, c.Printed)
		}
		if got := printable.Text(c.Printed); got != c.Printed {
			t.Errorf("%q becomes %q the second time", c.Printed, got)
		}
		if got := printable.Sprintf("%s|%d|%v\n", c.Text, 1, errors.New(c.Text)); got != c.Printed+"|1|"+c.Printed+"\n" {
			t.Errorf("%q is formatted as %q", c.Text, got)
		}
		var line bytes.Buffer
		if err := printable.JSON(&line, c.Text); err != nil {
			t.Error(err)
		}
		var back string
		if err := json.Unmarshal(line.Bytes(), &back); err != nil || back != c.Text || hides(strings.TrimSuffix(line.String(), "\n")) {
			t.Errorf("%q is %q as JSON: %v", c.Text, line.String(), err)
		}
	}
	if got := printable.Text("a\x9b31m\xff"); got != "a\ufffd31m\ufffd" {
		t.Errorf("bytes that are not UTF-8 are printed as %q", got)
	}
}

// hides reports whether a text has unprintable characters by Unicode's categories.
func hides(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
	})
}

// The rule covers every character of Unicode.
func TestPrintedTextOfEveryCharacter(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		s := string(r)
		if got := printable.Text(s); hides(got) || hides(s) == (got == s) {
			t.Errorf("U+%04X is printed as %q", r, got)
		}
	}
}

// Error prints one line for each joined error.
func TestPrintedErrors(t *testing.T) {
	t.Parallel()
	bad := errors.New("server: 400 no\nattestd: holds")
	const is = `server: 400 no\u000aattestd: holds`
	for want, err := range map[string]error{
		is:                        bad,
		"a\\u000ab: " + is:        fmt.Errorf("a\nb: %w", bad),
		is + "\nsecond\\u000a":    errors.Join(bad, errors.New("second\n")),
		"x: " + is + "\ny; " + is: fmt.Errorf("x: %w; %w", errors.Join(bad, errors.New("y")), bad),
	} {
		if got := printable.Error(err); got != want {
			t.Errorf("%q is printed as %q, want %q", err, got, want)
		}
	}
}

// CopyTable preserves rows for all cells and read sizes.
func TestPrintedTable(t *testing.T) {
	t.Parallel()
	var rows bytes.Buffer
	w := csv.NewWriter(&rows)
	w.UseCRLF = true
	cases := textCases(t)
	for _, c := range cases {
		// which that writer changes
		if err := w.Write([]string{"1", strings.ReplaceAll(c.Text, "\r\n", "\r"), "x"}); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush()
	var out bytes.Buffer
	if err := printable.CopyTable(&out, iotest.OneByteReader(io.MultiReader(&rows, strings.NewReader("a\rb\n")))); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != len(cases)+1 || lines[len(cases)] != `a\u000db` {
		t.Errorf("%d lines of %d cases: %q", len(lines), len(cases), lines)
	}
	for i, line := range lines {
		if hides(strings.TrimSuffix(line, "\r")) {
			t.Errorf("line %d is %q", i, line)
		}
	}
}

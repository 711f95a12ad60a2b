package web_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/web"
)

// canonicalizeInJavaScript returns, for each source, "ok <canonical form>" or "refused".
func canonicalizeInJavaScript(t *testing.T, sources [][]byte) []string {
	t.Helper()
	var in bytes.Buffer
	for _, source := range sources {
		fmt.Fprintln(&in, base64.StdEncoding.EncodeToString(source))
	}
	cmd := exec.CommandContext(t.Context(), testenv.Path(t, "node"), "console_test/canonicalize.js")
	cmd.Stdin = &in
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(sources) {
		t.Fatalf("%d answers for %d texts", len(lines), len(sources))
	}
	return lines
}

func TestConsoleModules(t *testing.T) {
	t.Parallel()
	tests, err := filepath.Glob("console_test/*.test.js")
	if err != nil || len(tests) == 0 {
		t.Fatal("no tests found: ", err)
	}
	cmd := exec.CommandContext(t.Context(), testenv.Path(t, "node"), append([]string{"--test"}, tests...)...)
	reference := filepath.Join(t.TempDir(), "openapi.json")
	must.OK(t, os.WriteFile(reference, web.OpenAPI(), 0o600))
	cmd.Env = append(cmd.Environ(), "ATTESTD_TEST_OPENAPI="+reference)
	if testenv.Long() {
		cmd.Env = append(cmd.Env, "ATTESTD_TEST_LONG=1")
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestConsoleCanonicalizesThePublishedVectors(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cyberphone/json-canonicalization").Output()
	if err != nil {
		t.Fatal("go list: ", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "testdata")
	inputs, err := filepath.Glob(filepath.Join(dir, "input", "*.json"))
	if err != nil || len(inputs) == 0 {
		t.Fatal("no vectors found: ", err)
	}
	var sources [][]byte
	var want []string
	for _, input := range inputs {
		source, err := os.ReadFile(input)
		if err != nil {
			t.Fatal(err)
		}
		canonical, err := os.ReadFile(filepath.Join(dir, "output", filepath.Base(input)))
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(input); name == "values.json" {
			// The published input holds 333333333.33333329, which is not the double that it
			// becomes: here such a number is refused, by design. Its neighbours are what this
			// vector is about.
			source = bytes.ReplaceAll(source, []byte("333333333.33333329"), []byte("333333333.3333333"))
		}
		sources, want = append(sources, source), append(want, "ok "+strings.TrimSuffix(string(canonical), "\n"))
	}
	for i, got := range canonicalizeInJavaScript(t, sources) {
		if got != want[i] {
			t.Errorf("%s:\n got %s\nwant %s", filepath.Base(inputs[i]), got, want[i])
		}
	}
}

func TestConsoleCanonicalizesLikeTheService(t *testing.T) {
	t.Parallel()
	const documents = 3000
	random := rand.New(rand.NewPCG(8785, 1))
	sources := make([][]byte, documents)
	for i := range sources {
		sources[i] = document(random)
	}
	accepted := 0
	for i, got := range canonicalizeInJavaScript(t, sources) {
		want := "refused"
		canonical, err := jcs.Append(nil, sources[i], 128)
		var refusal *strictjson.Error
		switch {
		case err == nil:
			want = "ok " + string(canonical)
			accepted++
		case !errors.As(err, &refusal):
			t.Fatalf("%q: %v", sources[i], err)
		}
		if got != want {
			t.Errorf("%q:\n  console %s\n  service %s (%v)", sources[i], got, want, err)
		}
	}
	// Both roads must be travelled: enough documents that pass, and enough that do not.
	if accepted < 1000 || documents-accepted < 500 {
		t.Errorf("%d of %d documents accepted: the generator is lopsided", accepted, documents)
	}
}

// document returns a JSON text with odd spellings; some are damaged on purpose.
func document(r *rand.Rand) []byte {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	space(r, w)
	value(r, w, 0)
	space(r, w)
	w.Flush()
	source := b.Bytes()
	switch r.IntN(8) {
	case 0: // a damaged byte
		source[r.IntN(len(source))] ^= 1 << r.IntN(8)
	case 1: // cut off
		source = source[:r.IntN(len(source))]
	}
	return source
}

func value(r *rand.Rand, w *bufio.Writer, depth int) {
	kind := r.IntN(10)
	if depth > 5 {
		kind = r.IntN(7)
	}
	switch kind {
	case 0:
		w.WriteString([]string{"true", "false", "null"}[r.IntN(3)])
	case 1, 2, 3:
		number(r, w)
	case 4, 5, 6:
		text(r, w)
	case 7:
		list(r, w, "[]", func() { value(r, w, depth+1) })
	default:
		list(r, w, "{}", func() {
			if r.IntN(2) == 0 {
				fmt.Fprintf(w, "%q", []string{"9", "10", "a", "A", "__proto__", "constructor", "toString", ""}[r.IntN(8)])
			} else {
				text(r, w)
			}
			space(r, w)
			w.WriteByte(':')
			space(r, w)
			value(r, w, depth+1)
		})
	}
}

func list(r *rand.Rand, w *bufio.Writer, brackets string, item func()) {
	w.WriteByte(brackets[0])
	for i := range r.IntN(4) {
		if i > 0 {
			w.WriteByte(',')
		}
		space(r, w)
		item()
		space(r, w)
	}
	w.WriteByte(brackets[1])
}

func space(r *rand.Rand, w *bufio.Writer) {
	w.WriteString([]string{"", "", "", " ", "\n", "\t\r "}[r.IntN(6)])
}

func number(r *rand.Rand, w *bufio.Writer) {
	switch r.IntN(8) {
	case 0:
		w.WriteString([]string{"-0", "0.0", "1E5", "1e-7", "1e21", "123e-20", "5e-324", "1.7976931348623157e308", "1e400", "-1e-400",
			"9007199254740991", "9007199254740993", "12345678901234567890", "0.1", "1.10", "100000000000000000000", "0e99999999999999999999"}[r.IntN(17)])
	case 1, 2: // any double, in its shortest spelling
		f := math.Float64frombits(r.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			f = 1
		}
		w.WriteString(strconv.FormatFloat(f, "eE"[r.IntN(2)], -1, 64))
	case 3:
		w.WriteString(strconv.FormatFloat(r.NormFloat64()*1000, 'f', r.IntN(12), 64))
	default:
		w.WriteString(strconv.FormatInt(r.Int64()>>r.IntN(63), 10))
	}
}

// text writes a string whose characters come raw or escaped, now and then as a lone surrogate.
func text(r *rand.Rand, w *bufio.Writer) {
	w.WriteByte('"')
	for range r.IntN(6) {
		c := []rune{'a', 'Z', '"', '\\', '/', '\b', '\n', 0x1f, 0x7f, 'é', 0x2028, '€', 0xfffd, 0xfb33, '😀', 0x10ffff, '<', '&', 0}[r.IntN(19)]
		switch {
		case r.IntN(200) == 0:
			fmt.Fprintf(w, `\u%04x`, 0xd800+r.IntN(0x800))
		case c > 0xffff && r.IntN(2) == 0:
			fmt.Fprintf(w, `\u%04X\u%04x`, 0xd800+(c-0x10000)>>10, 0xdc00+(c-0x10000)&0x3ff)
		case c == '"' || c == '\\' || c == '/' && r.IntN(2) == 0:
			fmt.Fprintf(w, `\%c`, c)
		case c < 0x20 || c <= 0xffff && r.IntN(4) == 0:
			fmt.Fprintf(w, `\u%04x`, c)
		default:
			w.WriteRune(c)
		}
	}
	w.WriteByte('"')
}

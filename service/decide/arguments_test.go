package decide_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go/types"

	"attestd/internal/testenv"
	"attestd/service/decide"
)

// mapped is the arguments in the form that Go, Python and JavaScript share.
type mapped struct {
	Value   any      `json:"value"`
	Dropped []string `json:"dropped"`
}

// text is the one spelling of what was mapped: sets are sorted, and have nothing twice.
func (m mapped) text() string {
	slices.Sort(m.Dropped)
	text, err := json.Marshal([]any{sortedSets(m.Value), append([]string{}, m.Dropped...)})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func sortedSets(value any) any {
	of, is := value.(map[string]any)
	if !is {
		return value
	}
	for kind, inner := range of {
		switch inner := inner.(type) {
		case []any:
			texts := make([]string, len(inner))
			for i, element := range inner {
				text, err := json.Marshal(sortedSets(element))
				if err != nil {
					panic(err)
				}
				texts[i] = string(text)
			}
			slices.Sort(texts)
			of[kind] = slices.Compact(texts)
		case map[string]any:
			for name, member := range inner {
				inner[name] = sortedSets(member)
			}
		}
	}
	return of
}

func mapGo(text string) mapped {
	record, dropped := decide.Arguments([]byte(text))
	return mapped{neutral(record), dropped}
}

func neutral(value types.Value) any {
	switch v := value.(type) {
	case types.Boolean:
		return map[string]any{"bool": bool(v)}
	case types.Long:
		return map[string]any{"long": fmt.Sprint(int64(v))}
	case types.Decimal:
		return map[string]any{"decimal": v.String()}
	case types.String:
		return map[string]any{"string": string(v)}
	case types.Set:
		elements := []any{}
		for element := range v.All() {
			elements = append(elements, neutral(element))
		}
		return map[string]any{"set": elements}
	case types.Record:
		members := map[string]any{}
		for name, member := range v.All() {
			members[string(name)] = neutral(member)
		}
		return map[string]any{"record": members}
	}
	panic(fmt.Sprintf("%T", value))
}

type argumentsCase struct {
	Text string `json:"text"`
	mapped
}

func argumentsCases(t testing.TB) (cases []argumentsCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/arguments.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// The table that Go, Python and JavaScript share.
func TestArguments(t *testing.T) {
	t.Parallel()
	for _, c := range argumentsCases(t) {
		if got, want := mapGo(c.Text).text(), c.text(); got != want {
			t.Errorf("%.100s\ngot  %.300s\nwant %.300s", c.Text, got, want)
		}
	}
}

// largest are arguments at the limits, and what they leave out.
func largest() map[string][]string {
	repeat := func(text string, n int) string { return strings.TrimSuffix(strings.Repeat(text+",", n), ",") }
	members := make([]string, 500)
	pointers := make([]string, 500)
	for i := range members {
		members[i], pointers[i] = fmt.Sprintf(`"m%d":1e400`, i), fmt.Sprintf("/m%d", i)
	}
	slices.Sort(pointers)
	long := strings.Repeat("x", 30_000)
	return map[string][]string{
		`{"a":"` + strings.Repeat("y", decide.MaxArguments-8) + `"}`:          nil,
		`{"a":"` + strings.Repeat("y", decide.MaxArguments-7) + `"}`:          {""},
		`{"a":"` + strings.Repeat("é", decide.MaxArguments/2-4) + `"}`:        nil,
		`{"a":"` + strings.Repeat("é", decide.MaxArguments/2-3) + `"}`:        {""},
		"{" + strings.Join(members, ",") + "}":                                pointers,
		"{" + strings.Join(members, ",") + `,"z":1e400}`:                      {""},
		`{"` + long + `":{"a":1e400,"b":1e400}}`:                              {"/" + long + "/a", "/" + long + "/b"},
		`{"` + long + `":{"a":1e400,"b":1e400,"c":1e400}}`:                    {""},
		`{"a":[` + repeat("1", 300) + `],"b":[` + repeat("1e400", 300) + "]}": {"/a", "/b"},
	}
}

func TestLargestArguments(t *testing.T) {
	t.Parallel()
	for text, want := range largest() {
		if _, got := decide.Arguments([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%.50s… of %d bytes leaves out %.100q", text, len(text), got)
		}
	}
}

// A text that is no UTF-8 is carried nowhere.
func TestArgumentsAreUTF8(t *testing.T) {
	t.Parallel()
	if got := mapGo("{\"a\":\"\xff\"}").text(); got != `[{"record":{}},[""]]` {
		t.Error(got)
	}
}

const pythonMaps = `
import base64, json, sys
sys.path.insert(0, sys.argv[1])
sys.modules["attestd"] = type(sys)("attestd")
sys.modules["attestd"].__path__ = [sys.argv[1] + "/attestd"]
from attestd._cedar import cedar_arguments
for line in open(sys.argv[2]):
    value, dropped = cedar_arguments(base64.b64decode(line))
    print(json.dumps({"value": value, "dropped": dropped}))
`

const nodeMaps = `
import { readFileSync } from 'node:fs';
const { cedarArguments } = await import(process.argv[1]);
const plain = (_, value) => value instanceof Map ? Object.fromEntries(value) : value;
const out = [];
for (const line of readFileSync(process.argv[2], 'utf8').trimEnd().split('\n')) {
  const bytes = Buffer.from(line, 'base64');
  let text;
  try { text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes); } catch { text = '!'; }
  out.push(JSON.stringify(cedarArguments(text), plain));
}
process.stdout.write(out.join('\n') + '\n');
`

// Go, Python and JavaScript map the shared table and many odd texts alike.
func TestArgumentsInAllLanguages(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, testenv.NotRaced)
	var texts []string
	for _, c := range argumentsCases(t) {
		texts = append(texts, c.Text)
	}
	for text := range largest() {
		texts = append(texts, text)
	}
	r := rand.New(rand.NewPCG(42, 1))
	for range testenv.Rounds(6_000, 60_000) {
		texts = append(texts, oddText(r))
	}
	var lines bytes.Buffer
	for _, text := range texts {
		lines.WriteString(base64.StdEncoding.EncodeToString([]byte(text)) + "\n")
	}
	file := filepath.Join(t.TempDir(), "texts")
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for program, args := range map[string][]string{
		"python3": {"-c", pythonMaps, root + "/sdk/python", file},
		"node":    {"--input-type=module", "-e", nodeMaps, "file://" + root + "/web/console/lib/cedar_context.js", file},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), testenv.Path(t, program), args...).Output()
			if err != nil {
				t.Fatalf("%v %s", err, stderr(err))
			}
			answers := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			if len(answers) != len(texts) {
				t.Fatalf("%d answers to %d texts", len(answers), len(texts))
			}
			for i, answer := range answers {
				var m mapped
				if err := json.Unmarshal([]byte(answer), &m); err != nil {
					t.Fatal(err)
				}
				if got, want := m.text(), mapGo(texts[i]).text(); got != want {
					t.Fatalf("%.200q\n%s: %.300s\ngo: %.300s", texts[i], program, got, want)
				}
			}
		})
	}
}

func stderr(err error) string {
	if failed, is := err.(*exec.ExitError); is {
		return string(failed.Stderr)
	}
	return ""
}

// oddText draws arguments, most of them valid, with what implementations read differently.
func oddText(r *rand.Rand) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	digits := func(most int) string {
		text := fmt.Sprint(r.Uint64())
		return text[:1+r.IntN(min(most, len(text)))]
	}
	number := func() string {
		text := pick("", "-") + pick("0", "1", "9223372036854775807", "9223372036854775808", "922337203685477", digits(20))
		text += pick("", "", "."+digits(6), ".0", ".5807", ".50000", ".00001")
		return text + pick("", "", "e"+pick("", "+", "-")+digits(3), "E"+pick("", "-")+pick("0", "1", "4", "5", "18", "007", "9999999"))
	}
	str := func() string {
		return `"` + pick("", "a", "b", "__a", "é", "~/", `\u0061`, `\ud83d\ude00`, "😀", `\n`, "_", `\/`, "constructor") + pick("", "", "", "x", `\ud800`, "\t", "\xff", `\q`) + `"`
	}
	var value func(depth int) string
	value = func(depth int) string {
		kind := r.IntN(10)
		if depth > 4 {
			kind = r.IntN(6)
		}
		switch kind {
		case 0:
			return pick("true", "false", "null")
		case 1, 2, 3:
			return number()
		case 4, 5:
			return str()
		case 6, 7:
			parts := make([]string, r.IntN(4))
			for i := range parts {
				parts[i] = value(depth + 1)
			}
			return "[" + strings.Join(parts, ",") + "]"
		}
		parts := make([]string, r.IntN(4))
		for i := range parts {
			parts[i] = str() + pick(":", " : ") + value(depth+1)
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	text := pick("", "", "", " ", "\n", "\ufeff") + `{"a":` + value(1) + `,"b":` + value(1) + "}"
	if r.IntN(10) == 0 { // broken somewhere
		i := r.IntN(len(text))
		text = text[:i] + pick("", ",", "}", "]", "0", "\"", "\\", "\x00", "+") + text[i+r.IntN(2):]
	}
	return text
}

// FuzzArguments holds that what is mapped has nothing that Cedar's own reader would take for an
// entity, and that it is the same each time.
func FuzzArguments(f *testing.F) {
	for _, c := range argumentsCases(f) {
		if len(c.Text) < 1000 {
			f.Add(c.Text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		first := mapGo(text).text()
		if strings.Contains(strings.SplitN(first, "],[", 2)[0], `{"__`) || first != mapGo(text).text() {
			t.Fatal(first)
		}
	})
}

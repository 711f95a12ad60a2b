package setup

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

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

var keyForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// checkKey checks the form of an API key that a server returned. The error does not repeat the
// text, which may contain terminal or shell sequences.
func checkKey(key string) error {
	if !keyForm.MatchString(key) {
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

// RemoveUser removes the line for these settings. left reports whether other settings use the file.
func RemoveUser(text, settings string) (rest string, left bool) {
	rest = strings.TrimPrefix(strings.Replace("\n"+text, "\n"+userLine(settings), "\n", 1), "\n")
	return rest, strings.Contains("\n"+rest, "\n"+usedBy)
}

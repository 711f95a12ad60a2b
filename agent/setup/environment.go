package setup

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"attestd/internal/printable"
)

// Environment is the text of a file that a shell can read: an assignment for each name and value.
func Environment(assignments ...[2]string) string {
	var b strings.Builder
	for _, a := range assignments {
		b.WriteString(a[0] + "=" + printable.ShellQuoted(a[1]) + "\n")
	}
	return b.String()
}

// ParseEnvironment reads the assignments of such a file. Lines of other forms are comments. A value
// may also stand bare, or in double quotes.
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

// checkKey refuses what a server has answered in place of an API key. It does not repeat it: it may
// be meant for a terminal or a shell.
func checkKey(key string) error {
	if !keyForm.MatchString(key) {
		return errors.New("the server's answer holds no API key (those have letters, digits, _ and - alone); nothing was written")
	}
	return nil
}

// usedBy begins a line of such a file that names settings whose hooks need it.
const usedBy = "# used by "

// userLine names settings on one line, whatever stands in their path.
func userLine(settings string) string { return usedBy + strconv.Quote(settings) + "\n" }

// AddUser notes in the text of an environment file that the hooks of these settings need it.
func AddUser(text, settings string) string {
	if HasUser(text, settings) {
		return text
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + userLine(settings)
}

// HasUser says whether the hooks of these settings are noted.
func HasUser(text, settings string) bool {
	return strings.Contains("\n"+text, "\n"+userLine(settings))
}

// RemoveUser takes the note away. left says whether hooks of other settings need the file.
func RemoveUser(text, settings string) (rest string, left bool) {
	rest = strings.TrimPrefix(strings.Replace("\n"+text, "\n"+userLine(settings), "\n", 1), "\n")
	return rest, strings.Contains("\n"+rest, "\n"+usedBy)
}

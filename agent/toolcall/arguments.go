package toolcall

import (
	"path"
	"regexp"
	"strings"
)

// MaskArguments returns the arguments of a command with the secrets in them masked, those too that
// follow an option in an argument of their own: --password hunter2.
func MaskArguments(arguments []string) []string {
	shown := make([]string, len(arguments))
	var c command
	for i, argument := range arguments {
		shown[i] = c.mask(argument)
	}
	return shown
}

// MaskText returns a text with the secrets in it masked.
func MaskText(text string) string { return mask(text) }

// command is what was read of a command whose arguments are strings of their own, as in an array.
type command struct {
	curl   bool   // it is one of curl
	before string // the argument before; "" for none
}

// userOption matches an option whose value is a name and a password, with any program.
var userOption = regexp.MustCompile(`^(?:-u|--user|--proxy-user)$`)

// userID matches what such an option has too, as of docker run: no secret.
var userID = regexp.MustCompile(`^[0-9]*:?[0-9]*$`)

// mask masks the next argument as it would stand in a line behind those before.
func (c *command) mask(argument string) string {
	before := c.before
	c.before = argument
	if path.Base(argument) == "curl" {
		c.curl = true
	}
	option := strings.HasPrefix(before, "-")
	if option && argument != "" && secretOption.MatchString(before) {
		return masked
	}
	if userOption.MatchString(before) && strings.Contains(argument, ":") && !userID.MatchString(argument) {
		return masked
	}
	lead := ""
	if c.curl {
		lead = "curl "
	}
	if option {
		lead += before + " "
	}
	line := mask(lead + argument)
	shown, whole := strings.CutPrefix(line, lead)
	switch {
	case !whole: // the option itself holds a secret
		return mask(argument)
	case option && strings.HasPrefix(shown, masked): // a value with spaces is one value
		return masked
	}
	if name, _, found := strings.Cut(argument, "="); found && strings.HasPrefix(name, "-") && strings.HasPrefix(shown, name+"="+masked) {
		return name + "=" + masked
	}
	return shown
}

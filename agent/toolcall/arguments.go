package toolcall

import (
	"path"
	"regexp"
	"strings"
)

// MaskArguments returns the arguments of a command with their secrets masked. It also masks a
// secret that is the argument after its option, as in --password hunter2.
func MaskArguments(arguments []string) []string {
	shown := make([]string, len(arguments))
	var c command
	for i, argument := range arguments {
		shown[i] = c.mask(argument)
	}
	return shown
}

// MaskText returns a text with its secrets masked.
func MaskText(text string) string { return mask(text) }

// command is the state between the arguments of a command line that is an array of strings.
type command struct {
	curl   bool   // one of the arguments was curl
	before string // the previous argument; "" for none
}

// userOption matches an option whose value is name:password for any program.
var userOption = regexp.MustCompile(`^(?:-u|--user|--proxy-user)$`)

// userID matches numeric user IDs, which docker run takes in the same option. They are no secret.
var userID = regexp.MustCompile(`^[0-9]*:?[0-9]*$`)

// mask masks the next argument as if it followed the previous ones on a command line.
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

package toolcall

import "strings"

// MaskArguments returns the arguments of a command with the secrets in them masked, those too that follow an option in an argument of their own: --password hunter2.
func MaskArguments(arguments []string) []string {
	shown := make([]string, len(arguments))
	for i, argument := range arguments {
		shown[i] = mask(argument)
		if i == 0 {
			continue
		}
		before := arguments[i-1] + " "
		if strings.HasPrefix(before, "-") && strings.HasPrefix(mask(before+argument), before+masked) {
			shown[i] = masked
		}
	}
	return shown
}

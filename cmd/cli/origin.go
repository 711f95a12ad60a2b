package cli

import (
	"fmt"
	"slices"
	"strings"

	"attestd/internal/lazyregexp"

	"github.com/spf13/pflag"
)

// origin annotates a flag that is set, and not by the command line: by what (OriginEnvironment or
// OriginFile), and the variable or the line.
const (
	Origin            = "origin"
	OriginEnvironment = "environment"
	OriginFile        = "file"
)

// OriginOfFlag returns what has set a flag, and where.
func OriginOfFlag(f *pflag.Flag) (from, at string) {
	switch by := f.Annotations[Origin]; {
	case !f.Changed:
		return "default", ""
	case len(by) == 2:
		return by[0], by[1]
	}
	return "flag", ""
}

var flagInText = lazyregexp.New(`--([a-z0-9-]+)`)

// WithPlaces adds to an error where the flags come from that it names and nobody has typed.
func WithPlaces(flags *pflag.FlagSet, err error) error {
	var places []string
	for _, m := range flagInText().FindAllStringSubmatch(err.Error(), -1) {
		f := flags.Lookup(m[1])
		if f == nil {
			continue
		}
		if by, at := OriginOfFlag(f); at != "" {
			if place := fmt.Sprintf("%s is set by the %s %s", f.Name, by, at); !slices.Contains(places, place) {
				places = append(places, place)
			}
		}
	}
	if len(places) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(places, ", "))
}

package httpapi

import (
	"fmt"
	"reflect"
	"slices"

	"attestd/crypto/strictjson"
)

// A token names at most maxAudiences audiences, each of at most maxAudience bytes.
const (
	maxAudiences = 10
	maxAudience  = 1024
)

var AudienceForm = fmt.Sprintf(" of 1 to %d bytes without spaces and control characters", maxAudience)

// IsAudience reports whether a text may be an audience. White space in one is always a mistake, and
// what is not ASCII may look like another one.
func IsAudience(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return len(text) >= 1 && len(text) <= maxAudience
}

// audience reads the audiences of a token: a string or an array of strings, in a []string.
func audience(v value, into reflect.Value) error {
	if IsAbsent(v.json) {
		return errMissing
	}
	given, ok := strictjson.AsStrings(v.json)
	if one, is := AsText(v.json); is {
		given, ok = []string{one}, true
	}
	different := slices.Compact(slices.Sorted(slices.Values(given)))
	if !ok || len(given) == 0 || len(given) > maxAudiences || len(different) < len(given) ||
		slices.ContainsFunc(given, func(text string) bool { return !IsAudience(text) }) {
		return Invalid(v.Name, fmt.Sprintf("must be an audience, or an array of 1 to %d different ones, each%s", maxAudiences, AudienceForm))
	}
	into.Set(reflect.ValueOf(given))
	return nil
}

// Package lazyregexp has regular expressions that take no memory before they are used. Commands
// that run for an agent are many processes, and use few of them.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that compiles an expression once, at its first call.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

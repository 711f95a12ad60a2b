// Package spelling finds the name that a misspelt one may mean.
package spelling

import (
	"slices"
	"strings"
)

// longest bounds the names that are compared. A longer one means none.
const longest = 64

// Nearest returns the one of names that a misspelt name most likely means, or "". That is the one
// with the fewest edits, if those are few for its length; otherwise one that has the misspelt name
// as its first or last words, which hyphens separate.
func Nearest(name string, names []string) string {
	if len(name) > longest {
		return ""
	}
	best, fewest := "", 0
	for _, n := range slices.Sorted(slices.Values(names)) {
		if d := Edits(name, n); d <= Few(n) && (best == "" || d < fewest) {
			best, fewest = n, d
		}
	}
	if best != "" || name == "" {
		return best
	}
	for _, n := range slices.Sorted(slices.Values(names)) {
		if strings.HasSuffix(n, "-"+name) || strings.HasPrefix(n, name+"-") {
			return n
		}
	}
	return ""
}

// Few returns how many edits a misspelling of a name has at most.
func Few(name string) int {
	switch {
	case len(name) < 5:
		return 1
	case len(name) < 14:
		return 2
	}
	return 3
}

// Edits returns how many letters of two short names are changed, added, left out, or exchanged with
// the next one.
func Edits(a, b string) int {
	x, y := []rune(a), []rune(b)
	row, before := make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		next := make([]int, len(y)+1)
		next[0] = i + 1
		for j := range y {
			change := row[j]
			if x[i] != y[j] {
				change++
			}
			next[j+1] = min(change, next[j]+1, row[j+1]+1)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(y)]
}

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// link is the target of a link, which counts for no width, for it cannot be wrapped.
var link = regexp.MustCompile(`\]\([^)\s]*\)`)

// markdown measures prose: what is not in a fence, a row of a table or the target of a link.
func markdown(text []byte) (findings []finding) {
	fence := ""
	for i, line := range lines(text) {
		trimmed := strings.TrimLeft(line, " ")
		mark := fenceOf(trimmed)
		switch {
		case fence == "" && mark != "":
			fence = mark
		case fence != "":
			if trimmed == fence {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "|"), !wraps(trimmed):
		default:
			findings = append(findings, tooWide(i+1, link.ReplaceAllString(line, "]"), maxProse, "prose")...)
		}
	}
	return findings
}

// fenceOf returns the backticks that begin a line of code, three or more.
func fenceOf(line string) string {
	mark := line[:len(line)-len(strings.TrimLeft(line, "`"))]
	if len(mark) < 3 {
		return ""
	}
	return mark
}

// readme holds the first page to its size, code and links included.
func readme(text []byte) (findings []finding) {
	all := lines(text)
	for i, line := range all {
		findings = append(findings, tooWide(i+1, line, maxProse, "a line")...)
	}
	if n := len(all); n > maxReadme {
		findings = append(findings, finding{line: n, what: fmt.Sprintf("%d lines, at most %d", n, maxReadme)})
	}
	return findings
}

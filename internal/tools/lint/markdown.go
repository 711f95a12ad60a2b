package main

import (
	"fmt"
	"regexp"
	"strings"
)

// link matches the target of a link, which cannot be wrapped and does not count.
var link = regexp.MustCompile(`\]\([^)\s]*\)`)

// markdown finds wide prose outside of fences, table rows and link targets.
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

// fenceOf returns the three or more backticks that open a fence, or "".
func fenceOf(line string) string {
	mark := line[:len(line)-len(strings.TrimLeft(line, "`"))]
	if len(mark) < 3 {
		return ""
	}
	return mark
}

// readme checks the length and width of README.md, including code and links.
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

package main

import (
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
)

// directive is a comment for a tool, which must stand in one line.
var directive = regexp.MustCompile(`^//[a-z]+:`)

// goComments measures the comments of Go. A word that is longer than a line, such as a URL, cannot
// be wrapped; a directive must not be.
func goComments(text []byte) (findings []finding) {
	if isGenerated(text) {
		return nil
	}
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	all := lines(text)
	for {
		at, kind, literal := s.Scan()
		if kind == token.EOF {
			return findings
		}
		if kind != token.COMMENT {
			continue
		}
		number := file.Line(at)
		for i := range strings.Split(literal, "\n") {
			line := all[number-1+i]
			comment := strings.TrimLeft(line, "\t ")
			most := maxComment
			switch {
			case i == 0 && !strings.HasPrefix(comment, "//") && !strings.HasPrefix(comment, "/*"):
				// behind code
			case directive.MatchString(comment), !wraps(strings.TrimPrefix(comment, "//")):
				continue
			case strings.HasPrefix(comment, "//\t"):
				most = maxPreformatted
			}
			findings = append(findings, tooWide(number+i, line, most, "a comment")...)
		}
	}
}

// isGenerated says whether a tool has made a file of Go.
func isGenerated(text []byte) bool {
	for _, line := range lines(text) {
		if strings.HasPrefix(line, "// Code generated ") && strings.HasSuffix(line, " DO NOT EDIT.") {
			return true
		}
		if strings.HasPrefix(line, "package ") {
			break
		}
	}
	return false
}

// slashComments measures comments of JavaScript, TypeScript and CSS.
func slashComments(text []byte) (findings []finding) {
	inside := false
	for i, line := range lines(text) {
		comment := strings.TrimLeft(line, "\t ")
		if !inside && strings.HasPrefix(comment, "/*") {
			inside = true
		}
		if (inside || strings.HasPrefix(comment, "//") || endsInComment(line, "//")) && wraps(comment) {
			findings = append(findings, tooWide(i+1, line, maxComment, "a comment")...)
		}
		if inside && strings.Contains(comment, "*/") {
			inside = false
		}
	}
	return findings
}

// markedComments measures comments that a mark begins.
func markedComments(mark string) func([]byte) []finding {
	return func(text []byte) (findings []finding) {
		for i, line := range lines(text) {
			comment, is := strings.CutPrefix(strings.TrimLeft(line, "\t "), mark)
			is = is && !strings.HasPrefix(comment, "!") || endsInComment(line, mark)
			if is && wraps(comment) {
				findings = append(findings, tooWide(i+1, line, maxComment, "a comment")...)
			}
		}
		return findings
	}
}

// endsInComment says whether a comment stands behind code. It goes by the quotes before the mark,
// and knows nothing of strings over several lines.
func endsInComment(line, mark string) bool {
	code, _, is := strings.Cut(line, " "+mark+" ")
	for _, quote := range []string{`"`, "'", "`"} {
		is = is && strings.Count(code, quote)%2 == 0
	}
	return is
}

// sqlComments measures comments that have lines of their own. What stands inside a statement is
// part of the schema that databases hold, and cannot be wrapped any more.
func sqlComments(text []byte) (findings []finding) {
	for i, line := range lines(text) {
		if strings.HasPrefix(line, "--") && wraps(line) {
			findings = append(findings, tooWide(i+1, line, maxComment, "a comment")...)
		}
	}
	return findings
}

// wraps says whether a text has a place to break it.
func wraps(text string) bool { return len(strings.Fields(text)) > 1 }

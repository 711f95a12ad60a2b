package main

import (
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
)

// directive matches a comment for a tool, which must be on one line.
var directive = regexp.MustCompile(`^//[a-z]+:`)

// goComments finds wide comments in Go. It allows a long word, such as a URL, and a directive,
// which cannot be wrapped.
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

// isGenerated reports whether a Go file is generated.
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

// slashComments finds wide comments in JavaScript, TypeScript and CSS.
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

// markedComments finds wide comments that begin with a mark.
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

// endsInComment reports whether a comment follows code. It counts the quotes before the mark, and
// does not recognize multi-line strings.
func endsInComment(line, mark string) bool {
	code, _, is := strings.Cut(line, " "+mark+" ")
	for _, quote := range []string{`"`, "'", "`"} {
		is = is && strings.Count(code, quote)%2 == 0
	}
	return is
}

// sqlComments finds wide comments outside of statements. Comments inside a statement are part of
// the schema in existing databases and must not change.
func sqlComments(text []byte) (findings []finding) {
	for i, line := range lines(text) {
		if strings.HasPrefix(line, "--") && wraps(line) {
			findings = append(findings, tooWide(i+1, line, maxComment, "a comment")...)
		}
	}
	return findings
}

// wraps reports whether a text can be wrapped.
func wraps(text string) bool { return len(strings.Fields(text)) > 1 }

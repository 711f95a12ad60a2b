package main

import (
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
)

// directive is a comment for a tool, which must stand in one line.
var directive = regexp.MustCompile(`^//[a-z]+:`)

// goComments measures the comments of Go that have lines of their own. A word that is longer than a
// line, such as a URL, cannot be wrapped; a directive must not be.
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
				continue // behind code
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

// slashComments measures comments of JavaScript, TypeScript and CSS that have lines of their own.
func slashComments(text []byte) (findings []finding) {
	inside := false
	for i, line := range lines(text) {
		comment := strings.TrimLeft(line, "\t ")
		if !inside && strings.HasPrefix(comment, "/*") {
			inside = true
		}
		if (inside || strings.HasPrefix(comment, "//")) && wraps(comment) {
			findings = append(findings, tooWide(i+1, line, maxComment, "a comment")...)
		}
		if inside && strings.Contains(comment, "*/") {
			inside = false
		}
	}
	return findings
}

// markedComments measures comments that a mark begins, in a line of their own.
func markedComments(mark string) func([]byte) []finding {
	return func(text []byte) (findings []finding) {
		for i, line := range lines(text) {
			comment, is := strings.CutPrefix(strings.TrimLeft(line, "\t "), mark)
			if is && !strings.HasPrefix(comment, "!") && wraps(comment) {
				findings = append(findings, tooWide(i+1, line, maxComment, "a comment")...)
			}
		}
		return findings
	}
}

// wraps says whether a text has a place to break it.
func wraps(text string) bool { return len(strings.Fields(text)) > 1 }

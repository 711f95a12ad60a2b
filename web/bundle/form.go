package bundle

import (
	"regexp"
	"strings"

	"attestd/internal/lazyregexp"
)

// form is a form of text, which begins with a word. A search for the word finds it many times
// faster than one for the expression would, and a console is joined while its first visitor waits.
type form struct {
	word       string
	after      func(byte) bool       // whether the word may follow this byte; nil for any
	indented   bool                  // blanks that begin the line of the word are of the form
	expression func() *regexp.Regexp // begins with \A
}

func lineEnd(c byte) bool { return c == '\n' }

func statementEnd(c byte) bool { return c == '\n' || c == ';' }

func noWord(c byte) bool {
	return c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
}

// The forms of import and export that our modules and the vendored ones have; what is left of
// others is refused by unmatched.
var (
	importForm  = form{word: "import ", after: lineEnd, expression: lazyregexp.New(`\Aimport (\{[^}]*\}|\* as \w+) from ['"](\.[^'"]+)['"];`)}
	dynamicForm = form{word: "import(", after: noWord, expression: lazyregexp.New(`\Aimport\(['"](\.[^'"]+)['"]\)`)}
	listForm    = form{word: "export", after: statementEnd, expression: lazyregexp.New(`\Aexport ?\{([^}]*)\};?(?m:$)`)}
	exportForm  = form{word: "export ", after: lineEnd, expression: lazyregexp.New(`\Aexport ((?:async )?function\*?|const|class) (\w+)`)}
	// Types and what they are of are in comments of their own lines: for the editor of a module,
	// and not for its user. Licences (/*!) stay.
	docComment = form{word: "/**", after: lineEnd, indented: true, expression: lazyregexp.New(`\A/\*\*[ \n](?:[^*]|\*+[^*/])*\*+/\n`)}
	comment    = form{word: "/*", expression: lazyregexp.New(`(?s)\A/\*.*?\*/`)}
)

// forbiddenForms are the forms that no module may have in the end.
var forbiddenForms = []form{
	{word: "import", after: lineEnd, expression: lazyregexp.New(`\Aimport\b`)},
	{word: "export", after: lineEnd, expression: lazyregexp.New(`\Aexport\b`)},
	{word: "import", after: noWord, expression: lazyregexp.New(`\Aimport(\(|\.meta)`)},
	{word: "</script", expression: lazyregexp.New(`\A</script`)},
	{word: "<!--", expression: lazyregexp.New(`\A<!--`)},
}

// next returns the first place of the form that begins at from or later, and what the groups of the
// expression matched there; nil where there is none.
func (f form) next(text string, from int) (begin, end int, m []string) {
	for {
		at := strings.Index(text[from:], f.word)
		if at < 0 {
			return 0, 0, nil
		}
		at += from
		from = at + len(f.word)
		begin = at
		if f.indented {
			begin = len(strings.TrimRight(text[:at], " \t"))
		}
		if begin > 0 && f.after != nil && !f.after(text[begin-1]) {
			continue
		}
		if m = f.expression().FindStringSubmatch(text[at:]); m != nil {
			return begin, at + len(m[0]), m
		}
	}
}

// replace returns text with each place of the form replaced; with is given what was matched there.
func (f form) replace(text string, with func(m []string) string) string {
	var out strings.Builder
	done := 0 // so much of text is written
	for {
		begin, end, m := f.next(text, done)
		if m == nil {
			out.WriteString(text[done:])
			return out.String()
		}
		out.WriteString(text[done:begin])
		out.WriteString(with(m))
		done = end
	}
}

func (f form) remove(text string) string {
	return f.replace(text, func([]string) string { return "" })
}

// unmatched returns what of a module has no form here, outside comments; "" where there is nothing.
func unmatched(text string) string {
	text = comment.remove(text)
	for _, f := range forbiddenForms {
		if _, _, m := f.next(text, 0); m != nil {
			return m[0]
		}
	}
	return ""
}

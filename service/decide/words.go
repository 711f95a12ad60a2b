package decide

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// assignments finds the variables to which a text gives values that are in it. A variable is known
// from where a statement of the text gives it a value, if nothing in the text may give it another.
func (s *shell) assignments(file *syntax.File) {
	of := func(name string) *variable {
		v := s.values[name]
		if v == nil {
			v = new(variable)
			s.values[name] = v
		}
		return v
	}
	fed, scoped := s.fedReads(file), map[*syntax.Assign]bool{}
	// first what may change a variable, since a later part of the text may run before
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.ParamExp:
			if n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) && n.Param != nil {
				of(n.Param.Value).tainted = true
			}
		case *syntax.CallExpr:
			if len(n.Args) > 0 && n.Args[0].Lit() == "read" {
				for _, a := range n.Assigns {
					scoped[a] = true
				}
			}
			if len(n.Args) > 0 && fed[n] == nil && slices.Contains([]string{"read", "printf", "mapfile", "readarray", "unset", "getopts", "let", "eval", "source", "."}, n.Args[0].Lit()) {
				for _, w := range n.Args {
					of(w.Lit()).tainted = true
				}
				switch n.Args[0].Lit() {
				case "eval", "source", ".":
					of("").tainted = true // all of them
				}
			}
		case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause:
			syntax.Walk(n, func(node syntax.Node) bool {
				if lit, is := node.(*syntax.Lit); is {
					of(lit.Value).tainted = true
				}
				return true
			})
		case *syntax.Assign:
			if n.Name != nil && !scoped[n] && (n.Append || n.Index != nil || n.Array != nil || n.Name.Value == "IFS") {
				of(n.Name.Value).tainted = true
				if n.Name.Value == "IFS" {
					of("").tainted = true
				}
			}
		case *syntax.ForClause:
			if loop, is := n.Loop.(*syntax.CStyleLoop); is {
				syntax.Walk(loop, func(node syntax.Node) bool {
					if lit, is := node.(*syntax.Lit); is {
						of(lit.Value).tainted = true
					}
					return true
				})
			}
		}
		return true
	})
	statements := map[*syntax.CallExpr]bool{}
	for _, stmt := range file.Stmts {
		s.certain(stmt, statements)
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.CallExpr:
			for i := 1; fed[n] != nil && i < len(n.Args); i++ {
				if name := n.Args[i].Lit(); name != "" && name[0] != '-' {
					s.assignFields(of(name), fed[n], n.End())
				}
			}
			for _, a := range n.Assigns {
				if a.Name == nil || len(n.Args) > 0 { // of one command alone
					continue
				}
				s.assign(of(a.Name.Value), a.Value, statements[n], n.End())
			}
		case *syntax.DeclClause:
			for _, a := range n.Args {
				if a.Name != nil && !a.Naked {
					s.assign(of(a.Name.Value), a.Value, false, n.End())
				}
			}
		case *syntax.WordIter:
			v := of(n.Name.Value)
			if !n.InPos.IsValid() {
				v.tainted = true
				break
			}
			for _, w := range n.Items {
				s.assignFields(v, s.fields(w), n.End())
			}
		}
		return true
	})
}

// certain finds the assignments that run in any case, in the order of the text.
func (s *shell) certain(stmt *syntax.Stmt, found map[*syntax.CallExpr]bool) {
	if stmt.Background || stmt.Negated {
		return
	}
	switch c := stmt.Cmd.(type) {
	case *syntax.CallExpr:
		found[c] = true
	case *syntax.BinaryCmd:
		if c.Op == syntax.AndStmt || c.Op == syntax.OrStmt {
			s.certain(c.X, found)
		}
	}
}

// assign gives a variable the values that a word may have.
func (s *shell) assign(v *variable, w *syntax.Word, certain bool, at syntax.Pos) {
	const longest = 4 << 10 // bytes of a value
	values, known := []string{""}, true
	if w != nil {
		values, known = s.expand(w.Parts, false)
	}
	for _, value := range values {
		known = known && len(value) <= longest
	}
	if !known || len(v.values)+len(values) > maxValues {
		v.tainted = true
		return
	}
	v.values = append(v.values, values...)
	if certain && v.certain == 0 {
		v.certain = at.Offset()
	}
}

// assignFields gives a variable one of several values.
func (s *shell) assignFields(v *variable, fields []field, at syntax.Pos) {
	for _, f := range fields {
		if !f.known || len(v.values) >= maxValues {
			v.tainted = true
			return
		}
		v.values = append(v.values, f.text)
	}
	if v.certain == 0 {
		v.certain = at.Offset()
	}
}

// fields expands a word.
func (s *shell) fields(w *syntax.Word) []field {
	if w == nil {
		return nil
	}
	if slices.ContainsFunc(w.Parts, hasBraces) {
		return s.braces(w)
	}
	values, known := s.expand(w.Parts, false)
	if !known {
		return []field{{quoted: !s.splits(w.Parts)}}
	}
	if c, is := w.Parts[0].(*syntax.CmdSubst); is && len(w.Parts) == 1 {
		if listed, ok := s.listed(c); ok {
			return listed
		}
	}
	var fields []field
	for _, value := range values {
		switch {
		case !s.splits(w.Parts) || !strings.ContainsAny(value, " \t\n"):
			fields = append(fields, field{text: value, known: true, one: len(values) > 1})
		case len(w.Parts) == 1 && len(values) == 1:
			fields = append(fields, literals(strings.Fields(value))...)
		default:
			return []field{{}}
		}
	}
	return fields
}

func literals(texts []string) []field {
	fields := make([]field, len(texts))
	for i, text := range texts {
		fields[i] = field{text: text, known: true}
	}
	return fields
}

// splits reports whether a part of a word is split after its expansion.
func (s *shell) splits(parts []syntax.WordPart) bool {
	return slices.ContainsFunc(parts, func(part syntax.WordPart) bool {
		switch part.(type) {
		case *syntax.ParamExp, *syntax.CmdSubst:
			return true
		}
		return false
	})
}

// expand returns the values that the parts of a word may have, or that they are not known.
func (s *shell) expand(parts []syntax.WordPart, quoted bool) ([]string, bool) {
	values := []string{""}
	for _, part := range parts {
		more, ok := s.part(part, quoted)
		if !ok || len(values)*len(more) > maxValues {
			return nil, false
		}
		joined := make([]string, 0, len(values)*len(more))
		for _, value := range values {
			for _, m := range more {
				if len(value)+len(m) > MaxArguments {
					return nil, false
				}
				joined = append(joined, value+m)
			}
		}
		values = joined
	}
	return values, true
}

func (s *shell) part(part syntax.WordPart, quoted bool) ([]string, bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		return []string{unescape(p.Value, quoted)}, true
	case *syntax.SglQuoted:
		if p.Dollar {
			text, ok := ansiC(p.Value)
			return []string{text}, ok
		}
		return []string{p.Value}, true
	case *syntax.DblQuoted:
		return s.expand(p.Parts, true)
	case *syntax.ParamExp:
		return s.parameter(p)
	case *syntax.CmdSubst:
		return s.output(p)
	case *syntax.ArithmExp:
		return []string{"0"}, true
	case *syntax.ProcSubst:
		return []string{"/dev/fd/63"}, true
	}
	return nil, false
}

// unescape removes the backslashes of a literal part.
func unescape(text string, quoted bool) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (!quoted || strings.IndexByte("$`\"\\\n", text[i+1]) >= 0) {
			i++
			if text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// ansiC decodes the escapes of $'…'.
func ansiC(text string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		digits := func(most, base int) (rune, bool) {
			n := i + 1
			for n < len(text) && n-i-1 < most && strings.IndexByte("0123456789abcdefABCDEF"[:map[int]int{8: 8, 16: 22}[base]], text[n]) >= 0 {
				n++
			}
			v, err := strconv.ParseUint(text[i+1:n], base, 32)
			i = n - 1
			return rune(v), err == nil
		}
		switch c := text[i]; c {
		case 'n', 't', 'r', 'a', 'b', 'f', 'v', 'e', 'E':
			b.WriteByte(map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'a': 7, 'b': 8, 'f': '\f', 'v': '\v', 'e': 27, 'E': 27}[c])
		case '\\', '\'', '"', '?':
			b.WriteByte(c)
		case 'x', 'u', 'U':
			r, ok := digits(map[byte]int{'x': 2, 'u': 4, 'U': 8}[c], 16)
			if !ok || r == 0 {
				return "", false
			}
			if c == 'x' {
				b.WriteByte(byte(r))
			} else {
				b.WriteRune(r)
			}
		case '0', '1', '2', '3', '4', '5', '6', '7':
			i--
			r, ok := digits(3, 8)
			if !ok || r == 0 {
				return "", false
			}
			b.WriteByte(byte(r))
		default:
			return "", false
		}
	}
	return b.String(), utf8.ValidString(b.String())
}

// parameter returns the values of a variable.
func (s *shell) parameter(p *syntax.ParamExp) ([]string, bool) {
	if p.Param == nil {
		return nil, false
	}
	name := p.Param.Value
	if p.Length {
		return []string{"0"}, true
	}
	if p.Excl || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 || p.NestedParam != nil || len(p.Modifiers) > 0 || p.Flags != nil {
		return nil, false
	}
	if v := s.values[name]; v != nil {
		all := s.values[""]
		if v.tainted || all != nil && all.tainted || v.certain == 0 || p.Pos().Offset() < v.certain {
			return nil, false
		}
		return trimmed(v.values, p.Exp)
	}
	if p.Exp != nil {
		return nil, false
	}
	switch name {
	case "?", "#", "$", "!":
		return []string{"0"}, true
	case "HOME":
		return []string{"~"}, true
	case "PWD":
		if s.base == "" {
			return []string{"."}, true
		}
		return []string{s.base}, true
	}
	return nil, false
}

// output returns the output of a substitution where the text says it.
func (s *shell) output(c *syntax.CmdSubst) ([]string, bool) {
	if len(c.Stmts) != 1 {
		return nil, false
	}
	stmt := c.Stmts[0]
	call, is := stmt.Cmd.(*syntax.CallExpr)
	if !is || len(call.Assigns) > 0 || len(call.Args) == 0 {
		return nil, false
	}
	switch call.Args[0].Lit() {
	case "cat":
		if len(call.Args) > 1 || len(stmt.Redirs) != 1 || stmt.Redirs[0].Hdoc == nil {
			return nil, false
		}
		values, known := s.expand(stmt.Redirs[0].Hdoc.Parts, true)
		if stmt.Redirs[0].Word.Lit() == "" { // a quoted delimiter: the text as it is
			values, known = []string{""}, true
			for _, part := range stmt.Redirs[0].Hdoc.Parts {
				if lit, is := part.(*syntax.Lit); is {
					values[0] += lit.Value
				}
			}
		}
		for i, value := range values {
			values[i] = strings.TrimRight(value, "\n")
		}
		return values, known
	case "pwd":
		if len(call.Args) > 1 || len(stmt.Redirs) > 0 {
			return nil, false
		}
		return s.parameter(&syntax.ParamExp{Param: &syntax.Lit{Value: "PWD"}})
	case "echo":
		var words []string
		for _, w := range call.Args[1:] {
			for _, f := range s.fields(w) {
				if !f.known || f.one || strings.ContainsAny(f.text, "\\-") {
					return nil, false
				}
				words = append(words, f.text)
			}
		}
		return []string{strings.Join(words, " ")}, len(stmt.Redirs) == 0
	case "date":
		for _, w := range call.Args[1:] {
			for _, f := range s.fields(w) {
				if !f.known || strings.Trim(strings.ReplaceAll(f.text, "%", ""), "+-_:.YmdHMSNsjFTuabBZIz0123456789") != "" {
					return nil, false
				}
			}
		}
		return []string{"0"}, true
	case "nproc", "seq":
		return []string{"0"}, true
	}
	if listed, ok := s.listed(c); ok {
		values := make([]string, len(listed))
		for i, f := range listed {
			values[i] = f.text
		}
		return values, true
	}
	return nil, false
}

// trimmed returns what ${name%.go} and the like make of values, for the patterns that are common.
func trimmed(values []string, exp *syntax.Expansion) ([]string, bool) {
	if exp == nil {
		return values, true
	}
	pattern := exp.Word.Lit()
	var cut func(value string) string
	switch literal := pattern != "" && !strings.ContainsAny(pattern, `*?[\`); {
	case literal && (exp.Op == syntax.RemSmallSuffix || exp.Op == syntax.RemLargeSuffix):
		cut = func(value string) string { return strings.TrimSuffix(value, pattern) }
	case literal && (exp.Op == syntax.RemSmallPrefix || exp.Op == syntax.RemLargePrefix):
		cut = func(value string) string { return strings.TrimPrefix(value, pattern) }
	case pattern == "*/" && exp.Op == syntax.RemLargePrefix:
		cut = func(value string) string { return value[strings.LastIndexByte(value, '/')+1:] }
	case (pattern == ".*" || pattern == "/*") && exp.Op == syntax.RemSmallSuffix:
		cut = func(value string) string {
			if i := strings.LastIndexByte(value, pattern[0]); i >= 0 {
				return value[:i]
			}
			return value
		}
	default:
		return nil, false
	}
	cutValues := make([]string, len(values))
	for i, value := range values {
		cutValues[i] = cut(value)
	}
	return cutValues, true
}

func hasBraces(part syntax.WordPart) bool {
	lit, is := part.(*syntax.Lit)
	return is && strings.Contains(lit.Value, "{") && (strings.Contains(lit.Value, ",") || strings.Contains(lit.Value, ".."))
}

// braces expands a word with braces. mvdan.cc/sh takes {a,../b} for a sequence, so it is done here.
func (s *shell) braces(w *syntax.Word) []field {
	lit, is := w.Parts[0].(*syntax.Lit)
	if !is || len(w.Parts) > 1 || strings.Count(lit.Value, "{") > maxValues {
		return []field{{}}
	}
	texts, ok := expandBraces(lit.Value)
	if !ok {
		return []field{{}}
	}
	for i, text := range texts {
		texts[i] = unescape(text, false)
	}
	return literals(texts)
}

var numbers = regexp.MustCompile(`^(-?[0-9]+)\.\.-?[0-9]+(?:\.\.-?[0-9]+)?$`)

// expandBraces returns what the braces of a text stand for. A sequence of numbers stands for its
// first, which is as harmless as the others; others are not understood.
func expandBraces(text string) (texts []string, ok bool) {
	for start := 0; start < len(text); start++ {
		if text[start] == '\\' {
			start++
			continue
		}
		if text[start] != '{' {
			continue
		}
		end, commas := closing(text, start)
		if end < 0 {
			continue
		}
		var elements []string
		inside := text[start+1 : end]
		switch m := numbers.FindStringSubmatch(inside); {
		case len(commas) > 0:
			from := start + 1
			for _, comma := range append(commas, end) {
				elements = append(elements, text[from:comma])
				from = comma + 1
			}
		case m != nil:
			elements = []string{m[1]}
		case strings.Contains(inside, ".."):
			return nil, false
		default:
			continue
		}
		rest, ok := expandBraces(text[end+1:])
		if !ok {
			return nil, false
		}
		for _, element := range elements {
			of, ok := expandBraces(element)
			if !ok || len(texts)+len(of)*len(rest) > maxValues {
				return nil, false
			}
			for _, value := range of {
				for _, tail := range rest {
					texts = append(texts, text[:start]+value+tail)
				}
			}
		}
		return texts, true
	}
	return []string{text}, true
}

// closing returns the bracket that closes the one at start, or -1, and the commas between them.
func closing(text string, start int) (end int, commas []int) {
	depth := 0
	for i := start; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i, commas
			}
		case ',':
			if depth == 1 {
				commas = append(commas, i)
			}
		}
	}
	return -1, nil
}

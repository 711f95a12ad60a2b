package decide

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// listed returns what a substitution gives a command as arguments, where it lists names of files.
func (s *shell) listed(c *syntax.CmdSubst) ([]field, bool) {
	const deepest = 2 // lists within lists, since each is read twice
	if len(c.Stmts) != 1 || s.listing == deepest {
		return nil, false
	}
	s.listing++
	defer func() { s.listing-- }()
	return s.lists(c.Stmts[0])
}

// lists returns what a statement prints, where that is a list of names: what echo says, or one name
// below each place where a program such as find looks.
func (s *shell) lists(stmt *syntax.Stmt) ([]field, bool) {
	for _, r := range stmt.Redirs {
		if r.N == nil || r.N.Value != "2" { // errors are no part of the list
			return nil, false
		}
	}
	switch c := stmt.Cmd.(type) {
	case *syntax.BinaryCmd:
		if c.Op != syntax.Pipe || !s.filters(c.Y) {
			return nil, false
		}
		return s.lists(c.X)
	case *syntax.CallExpr:
		args, ok := s.literal(c)
		if !ok {
			return nil, false
		}
		return listedBy(args)
	}
	return nil, false
}

// literal returns the words of a command, if they are known.
func (s *shell) literal(c *syntax.CallExpr) ([]string, bool) {
	if len(c.Assigns) > 0 || s.exhausted(0, len(c.Args)) {
		return nil, false
	}
	var words []string
	for _, w := range c.Args {
		for _, f := range s.fields(w) {
			if !f.known || f.one {
				return nil, false
			}
			words = append(words, f.text)
		}
	}
	return words, len(words) > 0
}

// filters reports whether a statement prints some lines of its input, and nothing else.
func (s *shell) filters(stmt *syntax.Stmt) bool {
	c, is := stmt.Cmd.(*syntax.CallExpr)
	if !is || len(stmt.Redirs) > 0 {
		return false
	}
	words, ok := s.literal(c)
	if !ok {
		return false
	}
	operands, most := 0, 0
	switch words[0] {
	case "head", "tail", "sort", "uniq", "cat":
	case "grep":
		most = 1
	default:
		return false
	}
	for _, w := range words[1:] {
		switch {
		case w != "" && w[0] == '-' && (words[0] == "head" || words[0] == "tail" || isAny(w, "viEFuVnrz0123456789")):
		case w != "" && strings.Trim(w, "0123456789") == "" && most == 0:
		default:
			operands++
		}
	}
	return operands <= most && !isNumbering(words)
}

// isNumbering reports whether cat or grep print more than the lines.
func isNumbering(words []string) bool {
	for _, w := range words[1:] {
		if (words[0] == "cat" || words[0] == "grep" || words[0] == "uniq") && isShort(w, 'n') {
			return true
		}
	}
	return false
}

// isAny reports whether a word is short options of some letters.
func isAny(word, letters string) bool {
	return len(word) > 1 && word[0] == '-' && strings.Trim(word[1:], letters) == ""
}

// below is a name below a place.
func below(place string) string { return strings.TrimSuffix(place, "/") + "/_" }

// listedBy returns the names that a command prints.
func listedBy(words []string) ([]field, bool) {
	program, args := words[0], words[1:]
	var places []string
	switch program {
	case "echo":
		for len(args) > 0 && isAny(args[0], "neE") {
			args = args[1:]
		}
		if slices.ContainsFunc(args, func(w string) bool { return strings.Contains(w, `\`) }) {
			return nil, false
		}
		return literals(strings.Fields(strings.Join(args, " "))), true
	case "find":
		for _, w := range args {
			switch {
			case strings.HasPrefix(w, "-print") && w != "-print" && w != "-print0", strings.HasPrefix(w, "-exec"), strings.HasPrefix(w, "-ok"),
				strings.HasPrefix(w, "-fprint"), w == "-fls", w == "-ls", w == "-files0-from":
				return nil, false
			}
		}
		places = findRoots(literals(args))
	case "fd", "fdfind":
		for _, w := range args {
			if isShort(w, 'x') || isShort(w, 'X') || strings.HasPrefix(w, "--exec") || strings.HasPrefix(w, "--format") {
				return nil, false
			}
		}
		places = append(operands(args), ".")
	case "ls":
		for _, w := range args {
			if strings.HasPrefix(w, "-") && !isAny(w, "1trSdRhA") {
				return nil, false
			}
		}
		places = append(operands(args), ".")
	case "grep", "rg":
		lists := false
		for _, w := range args {
			if w == "--files-with-matches" || w == "--files" || isShort(w, 'l') || isShort(w, 'L') {
				lists = true
			}
		}
		if !lists {
			return nil, false
		}
		rest := operands(args)
		if hasExpression(program, literals(args)) && len(rest) > 0 {
			rest = rest[1:]
		}
		places = append(rest, ".")
	case "git":
		return listedByGit(args)
	default:
		return nil, false
	}
	fields := make([]field, len(places))
	for i, place := range places {
		fields[i] = field{text: below(place), known: true}
	}
	return fields, true
}

// listedByGit knows the commands of git that print names of files, and hashes or branches.
func listedByGit(args []string) ([]field, bool) {
	if len(args) == 0 {
		return nil, false
	}
	names := literals([]string{below(".")})
	rest := strings.Join(args[1:], " ")
	switch args[0] {
	case "ls-files":
		return names, !strings.Contains(rest, "-s") && !strings.Contains(rest, "--format")
	case "diff":
		return names, strings.Contains(rest, "--name-only")
	case "rev-parse":
		return literals([]string{"0"}), rest == "HEAD" || rest == "--short HEAD" || rest == "--abbrev-ref HEAD" || rest == "HEAD~1"
	case "branch":
		return literals([]string{"0"}), rest == "--show-current"
	case "merge-base":
		return literals([]string{"0"}), true
	}
	return nil, false
}

// operands are the words that are no options.
func operands(args []string) (list []string) {
	for _, w := range args {
		if !strings.HasPrefix(w, "-") {
			list = append(list, w)
		}
	}
	return list
}

// findRoots are the places where find looks.
func findRoots(args []field) []string {
	var roots []string
	for i := 0; i < len(args); i++ {
		text := args[i].text
		switch {
		case text == "-L" || text == "-H" || text == "-P" || strings.HasPrefix(text, "-O"):
		case text == "-D":
			i++
		case text != "" && strings.IndexByte("-(!,)", text[0]) >= 0:
			i = len(args)
		default:
			roots = append(roots, text)
		}
	}
	if len(roots) == 0 {
		return []string{"."}
	}
	return roots
}

// fedReads finds the loops that read names: find … | while read f, and while read f … < <(find …).
func (s *shell) fedReads(file *syntax.File) map[*syntax.CallExpr][]field {
	found := map[*syntax.CallExpr][]field{}
	note := func(loop syntax.Command, from *syntax.Stmt) {
		w, is := loop.(*syntax.WhileClause)
		if !is || w.Until || len(w.Cond) != 1 {
			return
		}
		read, is := w.Cond[0].Cmd.(*syntax.CallExpr)
		if !is || len(read.Args) == 0 || read.Args[0].Lit() != "read" {
			return
		}
		if fields, ok := s.lists(from); ok {
			found[read] = fields
		}
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe && len(n.Y.Redirs) == 0 {
				note(n.Y.Cmd, n.X)
			}
		case *syntax.Stmt:
			if len(n.Redirs) != 1 || n.Redirs[0].Op != syntax.RdrIn || len(n.Redirs[0].Word.Parts) != 1 {
				break
			}
			if p, is := n.Redirs[0].Word.Parts[0].(*syntax.ProcSubst); is && p.Op == syntax.CmdIn && len(p.Stmts) == 1 {
				note(n.Cmd, p.Stmts[0])
			}
		}
		return true
	})
	return found
}

package decide

import (
	"errors"
	"io"
	"maps"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cedar-policy/cedar-go/types"
	"mvdan.cc/sh/v3/syntax"
)

// The limits of the commands of one member.
const (
	maxShellText  = 32 << 10 // bytes of one text
	maxShellTexts = 64 << 10 // bytes of it and of the texts within it
	maxShellDepth = 8        // texts within texts, as of sh -c, and programs that run others
	maxNesting    = 32       // subshells, substitutions, clauses in one another
	maxFrames     = 1_500    // of the parser, which has at most 30 a nesting
	maxFields     = 3_000    // words, after their expansion
	maxValues     = 64       // that a word may have, by brace expansion and loops
)

// command derives from a member that is a command: a text for a shell, or a list of a program and
// its arguments. MCP servers also have the list of arguments in a member of its own.
func (d *derivation) command(m member, base, at string, all []member) {
	s := &shell{d: d, base: base, at: at, spent: new(spent), feeds: map[*syntax.CallExpr][]field{}, aliases: map[string][]string{},
		fetched: map[string]string{}, ran: map[string]string{}}
	switch v := m.value.(type) {
	case types.String:
		s.text(string(v))
		for _, other := range all {
			if other.name == "args" && other.list != nil {
				s.run(literals(append([]string{string(v)}, other.list...)))
			}
		}
	case types.Set:
		if m.list == nil {
			s.unknown()
		}
		s.run(literals(m.list))
	default:
		s.unknown()
	}
	for file, from := range s.fetched {
		if to := s.ran[file]; to != "" {
			s.piped(from, to)
		}
	}
}

// shell reads the commands of one member.
type shell struct {
	d        *derivation
	base, at string
	spent    *spent
	depth    int // of texts and programs in one another
	values   map[string]*variable
	jumps    bool // a part of the text may run after what stands behind it

	listing int                          // lists of names in one another
	feeds   map[*syntax.CallExpr][]field // what programs list for xargs
	stdin   []field                      // of those, for the command that is read
	aliases map[string][]string          // that the text defines
	fetched map[string]string            // the files that it downloads, and by which program
	ran     map[string]string            // the files that it runs, and by which program
}

// spent is what was read so far of a member.
type spent struct{ bytes, fields int }

// exhausted spends, and reports whether that is too much: the rest is not understood then.
func (s *shell) exhausted(bytes, fields int) bool {
	s.spent.bytes += bytes
	s.spent.fields += fields
	if s.spent.bytes > maxShellTexts || s.spent.fields > maxFields {
		s.unknown()
		return true
	}
	return false
}

// variable is one that the text gives a value.
type variable struct {
	values  []string
	certain uint // from which place on it has one of these values, and no other
	tainted bool // it may have others
}

// field is a word after its expansion. It is not known where it follows from the environment or
// from the output of a program.
type field struct {
	text  string
	known bool
	one   bool // of several that the word may be
	// where it is not known: it is one word all the same
	quoted bool
}

// unknown says that something in the command is not understood, and may matter.
func (s *shell) unknown() { s.d.unknown(s.at) }

var errTooDeep = errors.New("nested too deep")

// limited lets a parser read a text in small parts, and ends it where it recurses too deep: a level
// takes up to 4 KiB of stack, and a byte may begin one. That does not make a decision depend on the
// stack: what nests so deep is not understood anyway, because of maxNesting.
type limited struct {
	text   string
	frames int
}

func (l *limited) Read(p []byte) (int, error) {
	const part = 256
	if runtime.Callers(l.frames, make([]uintptr, 1)) > 0 {
		return 0, errTooDeep
	}
	if l.text == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), part)], l.text)
	l.text = l.text[n:]
	return n, nil
}

var parsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }}

func parseShell(text string) (*syntax.File, error) {
	here := runtime.Callers(0, make([]uintptr, maxFrames))
	p := parsers.Get().(*syntax.Parser)
	defer parsers.Put(p)
	return p.Parse(&limited{text, here + maxFrames}, "")
}

// text reads a text for a shell.
func (s *shell) text(text string) {
	if s.exhausted(len(text), 0) || s.depth >= maxShellDepth || len(text) > maxShellText || strings.ContainsRune(text, 0) {
		s.unknown()
		return
	}
	file, err := parseShell(text)
	if err != nil {
		s.unknown()
		return
	}
	// what another text sets is no variable of this one
	outer, jumps := s.values, s.jumps
	s.values = map[string]*variable{}
	s.depth++
	if s.nestsDeep(file) {
		s.unknown()
	} else {
		s.assignments(file)
		s.walk(file)
	}
	s.depth--
	s.values, s.jumps = outer, jumps
}

// nestsDeep reports whether the parts of a text nest deeper than maxNesting. A list or a pipe of
// many commands does not.
func (s *shell) nestsDeep(file *syntax.File) bool {
	deep, depth := false, 0
	var open []int
	const mostOpen = 10 * maxFields // nodes, of which lists have some for each command
	syntax.Walk(file, func(node syntax.Node) bool {
		if node == nil {
			depth -= open[len(open)-1]
			open = open[:len(open)-1]
			return true
		}
		nests := 0
		switch node.(type) {
		case *syntax.FuncDecl, *syntax.WhileClause, *syntax.ForClause:
			s.jumps = true
		}
		switch node.(type) {
		case *syntax.Subshell, *syntax.Block, *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause,
			*syntax.FuncDecl, *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ParamExp, *syntax.ArithmExp, *syntax.ArithmCmd,
			*syntax.BinaryArithm, *syntax.UnaryArithm, *syntax.ParenArithm, *syntax.UnaryTest, *syntax.BinaryTest,
			*syntax.ParenTest, *syntax.TimeClause, *syntax.CoprocClause, *syntax.ArrayExpr, *syntax.FlagsArithm:
			nests = 1
		}
		if depth+nests > maxNesting || len(open) > mostOpen {
			deep = true
			return false
		}
		depth += nests
		open = append(open, nests)
		return true
	})
	return deep
}

// walk runs over every command in a part of a text.
func (s *shell) walk(node syntax.Node) {
	syntax.Walk(node, func(node syntax.Node) bool {
		if s.exhausted(0, 0) {
			return false
		}
		switch n := node.(type) {
		case *syntax.CallExpr:
			s.call(n)
		case *syntax.DeclClause:
			s.word(n.Variant.Value, n.Args)
		case *syntax.Stmt:
			s.redirects(n)
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
				s.pipe(n)
			}
		case *syntax.ExtGlob, *syntax.CoprocClause:
			s.unknown()
		case *syntax.ProcSubst:
			if n.Op == syntax.CmdOut { // its input may be a text for a shell
				for _, stmt := range n.Stmts {
					if slices.ContainsFunc(s.programsOf(stmt), readsCommands) {
						s.unknown()
					}
				}
			}
		}
		return true
	})
}

// word notes a builtin that has a syntax of its own: the values of assignments are walked.
func (s *shell) word(program string, args []*syntax.Assign) {
	s.d.add(s.d.programs, program, s.at)
	for _, a := range args {
		if a.Naked && a.Value != nil {
			for _, f := range s.fields(a.Value) {
				s.d.add(s.d.words, program+" "+f.text, s.at)
			}
		}
	}
}

// call runs a command.
func (s *shell) call(c *syntax.CallExpr) {
	if s.exhausted(0, 1) || len(c.Args) == 0 {
		return
	}
	for _, a := range c.Assigns {
		if a.Name != nil {
			s.variable(a.Name.Value, a.Value)
		}
	}
	s.stdin = s.feeds[c]
	var rest []field
	for _, w := range c.Args[1:] {
		n := len(rest)
		rest = append(rest, s.fields(w)...)
		if s.exhausted(0, len(rest)-n) {
			return
		}
	}
	first := s.fields(c.Args[0])
	if len(first) > 0 && first[0].one {
		for _, f := range first {
			s.run(append([]field{f}, rest...))
		}
		return
	}
	s.run(append(first, rest...))
}

// variable notes a variable of one command. Some are commands.
func (s *shell) variable(name string, w *syntax.Word) {
	switch name {
	case "PAGER", "EDITOR", "VISUAL", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR":
		for _, f := range s.fields(w) {
			if !f.known {
				s.unknown()
			}
			s.text(f.text)
		}
		return
	case "PATH", "IFS": // what is found there is a program like others, and fields know of IFS
		s.d.dropped[s.at] = true
		return
	}
	if dangerousVariable(name) {
		s.unknown()
	}
}

// dangerousVariable is one by which a program runs another, or talks to another host.
func dangerousVariable(name string) bool {
	switch strings.ToUpper(name) {
	case "ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "HOME", "PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "IFS", "PROMPT_COMMAND", "PAGER", "EDITOR", "VISUAL":
		return true
	}
	return strings.HasPrefix(name, "GIT_") && !strings.HasPrefix(name, "GIT_AUTHOR_") && !strings.HasPrefix(name, "GIT_COMMITTER_") &&
		name != "GIT_TERMINAL_PROMPT"
}

// redirects notes the files of a statement's redirections, and the texts that it gives to a shell.
func (s *shell) redirects(stmt *syntax.Stmt) {
	for _, r := range stmt.Redirs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			s.input(stmt, r)
			continue
		case syntax.DplIn, syntax.DplOut:
			if lit := r.Word.Lit(); lit == "-" || strings.Trim(lit, "0123456789-") == "" && lit != "" {
				continue
			}
		}
		writes := r.Op != syntax.RdrIn && r.Op != syntax.DplIn
		for _, f := range s.fields(r.Word) {
			if rest, is := strings.CutPrefix(path.Clean(f.text), "/dev/tcp/"); is {
				s.connection(rest)
			} else if rest, is := strings.CutPrefix(path.Clean(f.text), "/dev/udp/"); is {
				s.connection(rest)
			}
			for _, program := range s.programsOf(stmt) {
				switch {
				case downloaders[program] && writes:
					s.fetch(program, f)
				case readsCommands(program) && !writes:
					s.ran[s.d.folder.resolve(s.base, f.text)] = program
				}
			}
			s.argument(f, writes)
		}
	}
}

// input reads what a shell gets as its input from the text itself.
func (s *shell) input(stmt *syntax.Stmt, r *syntax.Redirect) {
	call, is := stmt.Cmd.(*syntax.CallExpr)
	if !is || len(call.Args) == 0 {
		return
	}
	body := r.Hdoc
	if r.Op == syntax.WordHdoc {
		body = r.Word
	}
	for _, w := range call.Args {
		for _, f := range s.fields(w) {
			if !readsCommands(path.Base(f.text)) && f.text != "source" && f.text != "." {
				continue
			}
			for _, text := range s.fields(body) {
				if !text.known {
					s.unknown()
				}
				s.text(text.text)
			}
			return
		}
	}
}

// pipe notes which programs get the output of which, and reads what a shell gets.
func (s *shell) pipe(n *syntax.BinaryCmd) {
	right := s.programsOf(n.Y)
	left := s.programsOf(n.X)
	for _, to := range right {
		for _, from := range left {
			s.piped(from, to)
			if to == "tee" && downloaders[from] {
				s.tee(from, n.Y)
			}
		}
		if readsCommands(to) {
			s.fed(n.X)
		}
	}
	if call, is := n.Y.Cmd.(*syntax.CallExpr); is {
		for _, r := range n.Y.Redirs {
			if r.N == nil || r.N.Value != "2" {
				return
			}
		}
		if fields, ok := s.lists(n.X); ok {
			s.feeds[call] = fields
		}
	}
}

// piped notes that a program gets the output of another.
func (s *shell) piped(from, to string) {
	s.d.add(s.d.words, from+" | "+to, s.at)
	if downloaders[from] && (shells[to] || interpreters[to]) {
		s.d.add(s.d.words, "download | shell", s.at)
	}
}

// tee notes the files in which tee puts a download.
func (s *shell) tee(from string, stmt *syntax.Stmt) {
	syntax.Walk(stmt, func(node syntax.Node) bool {
		if c, is := node.(*syntax.CallExpr); is {
			for _, w := range c.Args {
				for _, f := range s.fields(w) {
					s.fetch(from, f)
				}
			}
		}
		return true
	})
}

// fetch notes a file that a program downloads.
func (s *shell) fetch(program string, f field) {
	if f.known && len(s.fetched) < maxValues {
		s.fetched[s.d.folder.resolve(s.base, f.text)] = program
	}
}

// connection notes the host of a redirection that opens a connection.
func (s *shell) connection(rest string) {
	host, _, _ := strings.Cut(rest, "/")
	s.d.url(host, s.at)
	s.d.add(s.d.programs, "/dev/tcp", s.at)
}

// programsOf returns the programs that a statement runs, whatever runs them.
func (s *shell) programsOf(stmt *syntax.Stmt) []string {
	inner := newDerivation(s.d.folder)
	sub := &shell{d: inner, base: s.base, at: s.at, spent: s.spent, depth: s.depth, values: s.values, jumps: s.jumps,
		feeds: map[*syntax.CallExpr][]field{}, aliases: maps.Clone(s.aliases), fetched: map[string]string{}, ran: map[string]string{}}
	syntax.Walk(stmt, func(node syntax.Node) bool {
		if c, is := node.(*syntax.CallExpr); is {
			sub.call(c)
		}
		return !s.exhausted(0, 0)
	})
	return sortedKeys(inner.programs)
}

// fed reads what a shell reads from a pipe. That is known only where echo or printf says it.
func (s *shell) fed(from *syntax.Stmt) {
	call, is := from.Cmd.(*syntax.CallExpr)
	if !is || len(call.Args) == 0 || call.Args[0].Lit() != "echo" && call.Args[0].Lit() != "printf" {
		s.unknown()
		return
	}
	var words []string
	for _, w := range call.Args[1:] {
		for _, f := range s.fields(w) {
			if !f.known || strings.ContainsAny(f.text, `\%`) {
				s.unknown()
			}
			words = append(words, f.text)
		}
	}
	s.text(strings.Join(words, " "))
	for _, w := range words { // echo -e TEXT
		s.text(w)
	}
}

var shells = set("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh")

// readsCommands reports whether a program takes its input for commands.
func readsCommands(program string) bool {
	return shells[program] || program == "at" || program == "batch"
}

var (
	interpreters = set("python", "python2", "python3", "node", "deno", "bun", "perl", "ruby", "php", "lua", "osascript", "pwsh", "powershell", "source", ".")
	downloaders  = set("curl", "wget", "fetch", "aria2c", "axel", "lynx", "w3m", "http", "https", "xh", "curlie", "nc", "ncat", "netcat", "lwp-request",
		"GET", "get", "ftp", "scp", "sftp")
)

// run notes one command and what it runs.
func (s *shell) run(fields []field) {
	if s.exhausted(0, len(fields)) || s.depth >= maxShellDepth {
		s.unknown()
		return
	}
	for len(fields) > 0 && fields[0].known && fields[0].text == "" && len(fields) > 1 {
		fields = fields[1:]
	}
	if len(fields) == 0 {
		return
	}
	name := fields[0]
	if !name.known || name.text != "[" && strings.ContainsAny(name.text, "*?[~") {
		s.unknown()
		return
	}
	if text := s.aliases[name.text]; text != nil {
		delete(s.aliases, name.text)
		s.run(append(literals(text), fields[1:]...))
		s.aliases[name.text] = text
	}
	program := strings.TrimSuffix(path.Base(name.text), ".exe")
	if strings.Contains(name.text, "/") {
		s.ran[s.d.folder.resolve(s.base, name.text)] = "sh"
	}
	if dir := path.Dir(name.text); strings.Contains(name.text, "/") && !binaries[dir] {
		s.argument(name, false)
	}
	s.d.add(s.d.programs, program, s.at)
	if lower := strings.ToLower(program); lower != program { // some file systems know no case
		s.run(append([]field{{text: lower, known: true}}, fields[1:]...))
	}
	args := fields[1:]
	s.downloads(program, args)
	s.words(program, args)
	s.arguments(program, args)
	s.depth++
	s.inner(program, args)
	s.depth--
}

var binaries = set("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin")

// downloads notes the files that a program downloads, and those that it runs.
func (s *shell) downloads(program string, args []field) {
	if len(s.ran) >= maxValues {
		s.unknown()
		return
	}
	for i, f := range args {
		switch {
		case !f.known:
		case downloaders[program]:
			s.fetch(program, f)
			s.fetch(program, field{text: path.Base(f.text), known: true})
			if isShort(f.text, 'o') || isShort(f.text, 'O') { // attached
				s.fetch(program, field{text: strings.TrimLeft(f.text, "-sSfLqoO"), known: true})
			} else if _, value, has := strings.Cut(f.text, "="); has {
				s.fetch(program, field{text: value, known: true})
			}
		case shells[program] || interpreters[program] || program == "chmod" && i > 0:
			if s.ran[s.d.folder.resolve(s.base, f.text)] == "" {
				s.ran[s.d.folder.resolve(s.base, f.text)] = map[bool]string{true: "sh", false: program}[program == "chmod"]
			}
		}
	}
}

// longOptions are those that count also where they are abbreviated.
var longOptions = map[string][]string{"rm": {"--recursive"}, "git": {"--force", "--force-with-lease", "--mirror"}}

// gitOptions are the options of git itself whose next word is a value.
var gitOptions = set("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env", "--attr-source")

// gitCommandOf returns the arguments of git from its command on.
func gitCommandOf(args []field) []field {
	for i := 0; i < len(args); i++ {
		switch {
		case gitOptions[args[i].text]:
			i++
		case !strings.HasPrefix(args[i].text, "-"):
			return args[i:]
		}
	}
	return nil
}

// words notes a program's arguments.
func (s *shell) words(program string, args []field) {
	if program == "git" {
		args = gitCommandOf(args)
	}
	const most = 3 // words before an option
	before := make([]string, 0, most)
	note := func(arg string, also bool) {
		s.d.add(s.d.words, program+" "+arg, s.at)
		if also {
			for _, word := range before {
				s.d.add(s.d.words, program+" "+word+" "+arg, s.at)
			}
		}
	}
	for _, f := range args {
		text := f.text
		const longest = 128
		if !f.known || text == "" || len(text) > longest || strings.ContainsAny(text, "\n\x00") {
			continue
		}
		isOption := text[0] == '-' && len(text) > 1
		note(text, isOption || len(before) < most)
		switch {
		case isOption && text[1] == '-':
			option, _, has := strings.Cut(text, "=")
			if has {
				note(option, true)
			}
			for _, long := range longOptions[program] {
				if len(option) > len("--") && strings.HasPrefix(long, option) && long != option {
					note(long, true)
				}
			}
		case isOption:
			for _, letter := range text[1:] {
				if len(text) > 2 && letter != '-' && letter != '=' {
					note("-"+string(letter), true)
				}
			}
		case text[0] == '+':
			note("+", true)
		case len(before) < most:
			before = append(before, text)
		}
	}
}

// inert are the programs that neither read, write nor run what their arguments name.
var inert = set("echo", "printf", "true", "false", ":", "test", "[", "sleep", "exit", "return", "break", "continue", "shift",
	"kill", "wait", "seq", "expr", "basename", "dirname", "pwd", "type", "which", "nproc", "uname", "whoami", "id", "ps", "pgrep",
	"umask", "ulimit", "set", "read", "jobs", "tput", "tr")

// writing are the programs that write, move or remove the files that their arguments name.
var writing = set("ed", "ex", "vi", "vim", "nvim", "nano", "emacs", "sponge", "pax", "cpio", "ditto", "rename", "zip", "mknod", "setfacl", "chattr", "crontab",
	"rm", "rmdir", "mv", "cp", "ln", "install", "rsync", "tee", "touch", "mkdir", "mkfifo", "chmod", "chown", "chgrp", "truncate",
	"dd", "shred", "unlink", "patch", "scp", "split", "csplit", "srm", "trash", "mktemp", "curl", "wget", "aria2c", "axel", "unzip", "7z")

// careless are the programs of which it does not matter what they are asked to do: they neither
// write to where their arguments say, nor show a file, nor talk to a host that they name.
var careless = set("go", "cargo", "make", "npm", "pnpm", "yarn", "bun", "pytest", "jest", "vitest", "mocha", "tsc", "eslint", "docker", "kubectl",
	"gh", "ls", "wc", "stat", "file", "du", "df", "tree", "date", "sha256sum", "md5sum", "realpath", "readlink", "node", "python", "python3",
	"ruby", "mvn", "gradle", "dotnet", "export", "local", "lsof", "cal", "sqlite3", "psql", "pip", "pip3")

// expressive are the programs whose first operand is an expression, unless an option holds it.
var expressive = map[string]string{"grep": "ef", "egrep": "ef", "fgrep": "ef", "rg": "ef", "ag": "ef", "sed": "ef", "awk": "efEi", "gawk": "efEi",
	"jq": "f", "yq": "f"}

// hasExpression reports whether the first operand of a program is an expression, and no file.
func hasExpression(program string, args []field) bool {
	letters, is := expressive[program]
	return is && !slices.ContainsFunc(args, func(f field) bool {
		switch {
		case !f.known:
			return !f.quoted
		case !strings.HasPrefix(f.text, "-"):
			return false
		case strings.HasPrefix(f.text, "--"):
			return slices.ContainsFunc([]string{"--r", "--f", "--e", "--s"}, func(p string) bool { return strings.HasPrefix(f.text, p) })
		}
		return strings.ContainsAny(f.text[1:], letters)
	})
}

// The commands of sed by which it reads, writes or runs what its script names.
var (
	sedFile = regexp.MustCompile(`(?:[^\\A-Za-z]([rRwW])\s+|^[0-9,$! ]*([rRwW])\s*)([^\s;}][^\n;}]*)`)
	sedRun  = regexp.MustCompile(`[/|#,@!][gpiI0-9]*e[gpiI0-9]*\s*(?:$|[;}])|(?:^|[;{}0-9$/])\s*e(?:\s|$)`)
)

// expression returns which of the arguments is an expression, or -1.
func (s *shell) expression(program string, args []field) int {
	i := slices.IndexFunc(args, func(f field) bool { return !strings.HasPrefix(f.text, "-") })
	for _, f := range args {
		if program != "sed" {
			break
		}
		if sedRun.MatchString(f.text) {
			s.unknown()
		}
		for _, m := range sedFile.FindAllStringSubmatch(f.text, maxValues) {
			s.argument(field{text: m[3], known: true}, strings.EqualFold(m[1]+m[2], "w"))
		}
	}
	if !hasExpression(program, args) || i >= 0 && program == "sed" && !args[i].known {
		return -1
	}
	return i
}

// arguments notes the paths and hosts among a program's arguments.
func (s *shell) arguments(program string, args []field) {
	if program == "cd" || program == "pushd" || program == "popd" {
		s.changeFolder(args)
	}
	expression := s.expression(program, args)
	for i, f := range args {
		isMessage := program == "git" && i > 0 && (args[i-1].text == "-m" || args[i-1].text == "-am" || args[i-1].text == "--message")
		if !f.known {
			switch {
			case inert[program]:
			case careless[program] || f.quoted && (i == expression || isMessage):
				s.d.dropped[s.at] = true
			default:
				s.unknown()
			}
			continue
		}
		if inert[program] && program != "test" && program != "[" || i == expression || isMessage {
			continue
		}
		if (program == "rm" || program == "rmdir") && s.d.folder.known() && s.d.folder.resolve(s.base, f.text) == s.d.folder.path {
			s.d.path(s.base, f.text+"/..", true) // what goes is in the folder above
		}
		s.argument(f, s.writes(program, args, i))
	}
	if program == "git" {
		if command := gitCommandOf(args); len(command) > 2 && command[0].text == "config" && (command[1].text == "--global" || command[1].text == "--system") &&
			!strings.HasPrefix(command[2].text, "--get") && command[2].text != "-l" && command[2].text != "--list" {
			s.d.path(s.base, "~/.gitconfig", true)
		}
	}
	if hosts, is := network[program]; is {
		s.network(program, hosts, args)
	}
}

// changeFolder notes where the commands that follow run, if that is outside. Where it is inside,
// paths are still those from the folder before, which are outside sooner.
func (s *shell) changeFolder(args []field) {
	to := "~"
	for _, f := range args {
		if !strings.HasPrefix(f.text, "-") || f.text == "-" {
			to = f.text
		}
	}
	if to == "-" {
		to = "~"
	}
	resolved := s.d.folder.resolve(s.base, to)
	switch inside := s.d.folder.holds(resolved); {
	case !inside:
		s.d.path(s.base, to, false)
		s.base = resolved
		if s.jumps {
			s.unknown()
		}
	case !s.d.folder.holds(s.base):
		s.base = resolved
	}
}

// writes reports whether a program may write the file that an argument names.
func (s *shell) writes(program string, args []field, i int) bool {
	has := func(letters string, options ...string) bool {
		return slices.ContainsFunc(args, func(f field) bool {
			return slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(f.text, o) }) ||
				len(f.text) > 1 && f.text[0] == '-' && f.text[1] != '-' && strings.ContainsAny(f.text[1:], letters)
		})
	}
	previous := ""
	if i > 0 {
		previous = args[i-1].text
	}
	text := args[i].text
	switch program {
	case "cp", "scp", "rsync", "install":
		last := len(args) - 1
		for last > 0 && strings.HasPrefix(args[last].text, "-") {
			last--
		}
		return i == last || has("", "-t", "--t", "--log") || program == "cp" && has("t") || program == "install" && has("dt")
	case "dd":
		return strings.HasPrefix(text, "of=")
	case "sed":
		return has("i", "--i")
	case "perl":
		return has("i")
	case "git":
		command := gitCommandOf(args)
		return len(command) == 0 || !gitReads[command[0].text] || strings.HasPrefix(text, "--output")
	case "gzip", "bzip2", "xz", "zstd":
		return !has("cdlt", "--stdout", "--decompress", "--list", "--test")
	case "tar":
		return !has("", "--list") && !(len(args) > 0 && isAny("-"+strings.TrimPrefix(args[0].text, "-"), "tvzfjJ") && strings.Contains(args[0].text, "t"))
	case "find":
		return strings.HasPrefix(previous, "-fprint") || previous == "-fls" || has("", "-delete") && slices.Contains(findRoots(args[:i+1]), text)
	case "grep", "egrep", "fgrep", "rg", "ls", "ps", "ssh", "stat":
		return false
	}
	return writing[program] || previous == "-o" || strings.HasPrefix(previous, "--out") || strings.HasPrefix(text, "--out") ||
		strings.HasPrefix(text, "-o") || isShort(previous, 'o') && previous[0] == '-' && strings.HasSuffix(previous, "o")
}

// gitReads are the commands of git that write no file.
var gitReads = set("log", "show", "diff", "status", "blame", "grep", "ls-files", "rev-parse", "describe", "shortlog", "cat-file", "ls-tree", "rev-list",
	"merge-base", "ls-remote", "for-each-ref", "name-rev", "show-ref", "whatchanged", "reflog", "check-ignore", "diff-tree", "cherry")

// argument notes the paths that an argument may name, its URLs, and whether it is a key file.
func (s *shell) argument(f field, writes bool) {
	if !f.known {
		s.unknown()
		return
	}
	text := f.text
	if len(text) > MaxArguments || strings.ContainsRune(text, '\n') {
		s.d.patch(text, s.base)
		return // a text, and no path
	}
	if strings.Contains(text, "://") {
		for _, found := range urlWithin.FindAllString(text, maxValues) {
			s.d.url(found, s.at)
		}
		if urlForm.MatchString(text) && !strings.HasPrefix(text, "file://") {
			s.d.url(text, s.at)
			return
		}
	}
	// --option=/path, -I/path, user@host:path, @file, key=path
	parts := []string{text}
	for i := 0; i < len(text) && len(parts) < maxValues; i++ {
		if strings.IndexByte("=@:,<", text[i]) >= 0 && i+1 < len(text) {
			parts = append(parts, text[i+1:])
		}
	}
	if text[:min(1, len(text))] == "-" && len(text) > 2 {
		parts = append(parts, text[2:])
	}
	for _, part := range parts {
		part = strings.TrimPrefix(part, "file://")
		switch {
		case part == "" || strings.HasPrefix(part, "-") && part != text:
		case strings.Contains(part, "/") && !strings.HasPrefix(part, "-") || strings.IndexByte(`~.\`, part[0]) >= 0 || drive.MatchString(part):
			s.d.path(s.base, part, writes)
		case !strings.HasPrefix(part, "-"):
			s.d.keyFile = s.d.keyFile || isKeyFile(part)
			if writes && part == text || part == ".*" {
				s.d.path(s.base, part, writes)
			}
		}
	}
}

// network are the programs that talk to hosts, with their options whose next word is a value.
var network = map[string]string{
	"curl": "AbcCdDeEFhHKmoPQrtTuUwxXyYz", "wget": "aBDeiIlooOPQRtTUwX", "nc": "ipqswXx", "ncat": "ipqswx", "netcat": "ipqsw",
	"ssh": "bcDEeFIiJLlmOopQRSWw", "scp": "cFiJloPS", "sftp": "bcFiJloPS", "rsync": "ef", "telnet": "belnX", "ftp": "P", "socat": "", "http": "apos", "https": "apos",
	"git": "", "aria2c": "dioxsjk", "axel": "no", "lynx": "", "w3m": "", "xh": "apos", "curlie": "", "lwp-request": "",
}

// network notes the hosts that a network program is asked to talk to.
func (s *shell) network(program, valued string, args []field) {
	if program == "git" {
		args = slices.DeleteFunc(slices.Clone(args), func(f field) bool { return !scpForm.MatchString(f.text) })
	}
	for i, f := range args {
		text := f.text
		if lower := strings.ToLower(text); strings.HasPrefix(lower, "proxycommand") || strings.HasPrefix(lower, "localcommand") ||
			strings.HasPrefix(lower, "proxyjump") || strings.HasPrefix(lower, "knownhostscommand") {
			s.unknown()
		}
		if !f.known || text == "" || urlForm.MatchString(text) {
			continue
		}
		if text[0] == '-' {
			if strings.HasPrefix(text, "--url=") {
				s.d.url(text[len("--url="):], s.at)
			}
			if text[1:] != "" && text[1] != '-' && strings.ContainsAny(text[1:], reroutes[program]) || slices.ContainsFunc(rerouting, func(o string) bool { return strings.HasPrefix(text, o) }) {
				s.unknown()
			}
			continue
		}
		if i > 0 && strings.HasPrefix(args[i-1].text, "-") {
			option := args[i-1].text
			if (program == "curl" || program == "wget") && longValued[option] || takesNext(option, valued) {
				continue
			}
		}
		host := text
		if strings.HasPrefix(program, "s") || program == "rsync" || program == "git" {
			remote, rest, has := strings.Cut(text, ":")
			if !has && program != "ssh" && program != "sftp" {
				continue // a local file
			}
			_ = rest
			host = remote
			if j := strings.LastIndexByte(host, '@'); j >= 0 {
				host = host[j+1:]
			}
		} else if port := strings.Trim(text, "0123456789-") == ""; port && slices.Contains([]string{"nc", "ncat", "netcat", "telnet", "ftp"}, program) && i > 0 {
			continue
		}
		s.d.url(host, s.at)
		if program == "ssh" {
			break // the rest is the command
		}
	}
}

var longValued = set("--header", "--data", "--data-raw", "--data-binary", "--data-urlencode", "--request", "--output", "--user", "--user-agent",
	"--form", "--max-time", "--connect-timeout", "--retry", "--retry-delay", "--write-out", "--cookie", "--cookie-jar", "--cacert", "--cert", "--key",
	"--referer", "--json", "--range", "--upload-file", "--output-dir", "--output-document", "--directory-prefix", "--timeout", "--tries", "--post-data")

// rerouting are the options by which curl, wget and ssh talk to another host than they are asked
// to, read what to do from a file, or run a program.
var rerouting = []string{"--config", "--proxy", "--preproxy", "--socks", "--connect-to", "--resolve", "--doh", "--input-file", "--exec", "--sh-exec", "--lua-exec",
	"--use-askpass", "-oProxy", "-oproxy", "-oLocalCommand"}

// reroutes are their short options.
var reroutes = map[string]string{"curl": "Kx", "wget": "ie", "nc": "xec", "ncat": "xec", "netcat": "xec", "ssh": "JF", "scp": "JFS", "sftp": "JFS"}

// scpForm is the form of a remote repository without a scheme.
var scpForm = regexp.MustCompile(`^[A-Za-z0-9_.-]+@[A-Za-z0-9_.-]+:`)

// takesNext reports whether the last of some short options has the next word as its value.
func takesNext(option, valued string) bool {
	if len(option) < 2 || option[0] != '-' || option[1] == '-' {
		return false
	}
	i := strings.IndexAny(option[1:], valued)
	return i == len(option)-2
}

// wrappers are the programs that run their arguments, with their options whose next word is a
// value.
var wrappers = map[string]string{
	"sudo": "ughpCrtTUDR", "doas": "uC", "nohup": "", "setsid": "", "nice": "n", "ionice": "cnp", "time": "fo", "timeout": "sk",
	"command": "", "builtin": "", "exec": "a", "env": "uCS", "stdbuf": "ioe", "xargs": "InPLdaEs", "parallel": "jSIa", "chrt": "T", "taskset": "",
	"strace": "oepsESOP", "ltrace": "oep", "busybox": "", "toybox": "", "caffeinate": "tw", "unbuffer": "", "watch": "n", "flock": "wE", "chroot": "",
	"npx": "p", "bunx": "", "proxychains": "f", "torsocks": "", "systemd-run": "pEup", "firejail": "", "unshare": "", "nsenter": "", "numactl": "",
	"winpty": "", "rlwrap": "", "direnv": "", "catchsegv": "", "coproc": "", "su": "", "script": "", "trap": "",
	"chronic": "", "setarch": "", "gosu": "", "su-exec": "", "fakeroot": "", "xvfb-run": "ns", "eatmydata": "", "pkexec": "", "runuser": "u", "cpulimit": "lp",
	"prlimit": "", "bwrap": "", "valgrind": "", "tsocks": "", "dotenv": "ef", "cross-env": "", "dotenvx": "", "noglob": "", "nocorrect": "", "-": "",
}

// runsTexts are those whose arguments may be commands, each in one word.
var runsTexts = set("hyperfine", "tmux", "screen", "concurrently", "nodemon", "entr", "watchexec", "wsl", "vagrant")

// runners are those whose first words are a subcommand.
var runners = map[string][]string{
	"uv": {"run"}, "poetry": {"run"}, "pipenv": {"run"}, "pdm": {"run"}, "rye": {"run"}, "hatch": {"run"}, "bundle": {"exec"},
	"pnpm": {"exec", "dlx"}, "yarn": {"exec", "dlx"}, "npm": {"exec", "x"}, "mise": {"exec", "x"}, "asdf": {"exec"}, "conda": {"run"}, "op": {"run"},
	"doppler": {"run"}, "nix": {"run"}, "rtx": {"exec"}, "direnv": {"exec"}, "git": {"run"},
}

// inner runs what a program runs of its arguments.
func (s *shell) inner(program string, args []field) {
	texts := func(list ...field) {
		for _, f := range list {
			if !f.known {
				s.unknown()
				continue
			}
			s.text(f.text)
		}
	}
	joined := func(list []field) {
		parts := make([]string, len(list))
		for i, f := range list {
			if !f.known {
				s.unknown()
			}
			parts[i] = f.text
		}
		s.text(strings.Join(parts, " "))
	}
	switch {
	case shells[program] || program == "su" || program == "script":
		for i, f := range args {
			if !f.known || f.text == "/dev/fd/63" {
				s.unknown()
			}
			if isShort(f.text, 'c') || f.text == "--command" {
				// options may come between
				for _, text := range args[i+1:] {
					texts(text)
				}
				return
			}
			if text, is := strings.CutPrefix(f.text, "--command="); is {
				texts(field{text: text, known: f.known})
			}
		}
	case program == "eval" || program == "watch":
		joined(args)
	case runsTexts[program]:
		for _, f := range args {
			if !f.known || strings.Contains(f.text, " ") {
				texts(f)
			}
		}
		if i := slices.IndexFunc(args, func(f field) bool { return !strings.HasPrefix(f.text, "-") }); i >= 0 {
			s.run(args[i:])
		}
	case program == "rsync" || program == "scp":
		for i, f := range args {
			if i > 0 && (args[i-1].text == "-e" || args[i-1].text == "--rsh") {
				texts(f)
			} else if strings.HasPrefix(f.text, "--rsh=") || strings.HasPrefix(f.text, "--rsync-path") || strings.HasPrefix(f.text, "-S") {
				s.unknown()
			}
		}
	case program == "ssh":
		for i := range args {
			if i > 0 {
				joined(args[i:])
			}
			if i > 3 {
				break
			}
		}
	case program == "trap":
		if len(args) > 0 {
			texts(args[0])
		}
	case program == "alias":
		for _, f := range args {
			if name, text, has := strings.Cut(f.text, "="); has {
				texts(field{text: text, known: f.known})
				s.aliases[name] = strings.Fields(text)
			}
		}
	case program == "source" || program == ".":
		if len(args) > 0 && args[0].text == "/dev/fd/63" {
			s.unknown()
		}
	case program == "find" || program == "fd" || program == "fdfind":
		s.found(program, args)
	case program == "git":
		s.git(args, texts, joined)
	}
	if valued, is := wrappers[program]; is {
		s.wrapped(program, valued, args, texts)
	} else if subcommands, is := runners[program]; is && len(args) > 0 && slices.Contains(subcommands, args[0].text) {
		s.wrapped(program, map[bool]string{true: "np"}[program == "conda"], args[1:], texts)
	}
}

// isShort reports whether a word has a short option of a letter.
func isShort(word string, letter byte) bool {
	return len(word) > 1 && (word[0] == '-' || word[0] == '+') && word[1] != '-' && strings.IndexByte(word[1:], letter) >= 0
}

// wrapped runs what a wrapper runs: the words after its options, values and assignments.
func (s *shell) wrapped(program, valued string, args []field, texts func(...field)) {
	place := "" // of an argument
	if program == "parallel" {
		place = "{}"
	}
	for i := 0; i < len(args); i++ {
		f := args[i]
		if !f.known || f.one {
			s.unknown()
		}
		text := f.text
		if program == "xargs" || program == "parallel" {
			switch {
			case text == "-I" && i+1 < len(args):
				place = args[i+1].text
			case strings.HasPrefix(text, "-I"):
				place = text[2:]
			case text == "-i" || strings.HasPrefix(text, "--replace"):
				place = "{}"
			case strings.HasPrefix(text, "-a") || strings.HasPrefix(text, "--arg-file"):
				s.stdin = nil
			}
		}
		switch folder, has := strings.CutPrefix(text, "--chdir="); {
		case has:
			s.changeFolder([]field{{text: folder, known: true}})
		case i+1 < len(args) && (text == "--chdir" || program == "env" && text == "-C" || program == "sudo" && text == "-D"):
			s.changeFolder(args[i+1 : i+2])
		}
		switch {
		case text == "--":
			s.wrapped(program, valued, args[i+1:], texts)
			return
		case program == "env" && (text == "-S" || text == "--split-string") && i+1 < len(args):
			texts(args[i+1])
			i++
		case program == "env" && (strings.HasPrefix(text, "-S") || strings.HasPrefix(text, "--split-string=")):
			texts(field{text: strings.TrimPrefix(strings.TrimPrefix(text, "-S"), "--split-string="), known: true})
		case program == "command" && (text == "-v" || text == "-V"):
			return
		case strings.HasPrefix(text, "-"):
			if last := text[len(text)-1]; len(text) > 1 && text[1] != '-' && len(text) == 2 && strings.IndexByte(valued, last) >= 0 {
				i++
			}
		case strings.IndexByte(text, '=') > 0 && !strings.ContainsAny(text[:strings.IndexByte(text, '=')], "/."):
			if name, _, _ := strings.Cut(text, "="); dangerousVariable(name) {
				s.unknown()
			}
		case program == "timeout" || program == "chrt" || program == "taskset" || program == "flock" || program == "chroot":
			if program == "flock" && i+2 < len(args) && args[i+1].text == "-c" {
				texts(args[i+2:]...)
			} else if i+1 < len(args) { // after a duration, a mask, a file
				s.run(args[i+1:])
			}
			return
		case program == "parallel" && strings.HasPrefix(text, ":::"):
			texts(args[i+1:]...)
			return
		default:
			if program == "xargs" || program == "parallel" {
				s.fill(args[i:], place)
			} else {
				s.run(args[i:])
			}
			return
		}
	}
	if program == "parallel" { // its commands come from the input
		s.unknown()
	}
}

// fill runs a command with the arguments that come from the input, where place stands or at the
// end.
func (s *shell) fill(command []field, place string) {
	input := s.stdin
	if input == nil {
		input = []field{{quoted: true}}
	}
	if place == "" || !slices.ContainsFunc(command, func(f field) bool { return strings.Contains(f.text, place) }) {
		s.run(append(slices.Clone(command), input...))
		return
	}
	for _, one := range input {
		rest := slices.Clone(command)
		for j, f := range rest {
			if strings.Contains(f.text, place) {
				rest[j] = field{text: strings.ReplaceAll(f.text, place, one.text), known: one.known, quoted: true}
			}
		}
		s.run(rest)
	}
}

// found runs what find and fd run for the files that they find.
func (s *shell) found(program string, args []field) {
	places := findRoots(args)
	if program != "find" {
		places = []string{"."}
		for _, f := range args {
			if strings.ContainsAny(f.text, "/~") || f.text == ".." {
				places = append(places, f.text)
			}
		}
	}
	for i, f := range args {
		switch f.text {
		case "-files0-from":
			s.unknown()
		case "-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch":
			end := slices.IndexFunc(args[i+1:], func(f field) bool { return f.text == ";" || f.text == "+" })
			if end < 0 {
				end = len(args) - i - 1
			}
			for _, place := range places {
				rest := slices.Clone(args[i+1 : i+1+end])
				if program != "find" {
					rest = append(rest, field{text: below(place), known: true})
				}
				for j := range rest {
					for _, name := range []string{"{}", "{//}", "{/.}", "{/}", "{.}"} {
						rest[j].text = strings.ReplaceAll(rest[j].text, name, below(place))
					}
				}
				s.run(rest)
			}
		}
	}
}

// git runs what git runs, and refuses settings that are commands.
func (s *shell) git(args []field, texts func(...field), joined func([]field)) {
	for i, f := range args {
		key := strings.ToLower(f.text)
		switch {
		case gitCommand(key) && (i > 0 && args[i-1].text == "-c" || len(args) > 1 && slices.ContainsFunc(args[:i], func(f field) bool { return f.text == "config" })):
			if _, value, has := strings.Cut(f.text, "="); has && (strings.HasPrefix(key, "core.pager=") || strings.HasPrefix(key, "core.editor=") || strings.HasPrefix(key, "pager.") || strings.HasPrefix(key, "sequence.editor=")) {
				texts(field{text: value, known: true})
				continue
			}
			s.unknown()
		case strings.HasPrefix(f.text, "-O") && slices.ContainsFunc(args[:i], func(f field) bool { return f.text == "grep" }), strings.HasPrefix(key, "--open-files"):
			s.unknown()
		case strings.HasPrefix(key, "--config-env") || strings.HasPrefix(key, "--exec-path=") || strings.HasPrefix(key, "--upload-pack") || strings.HasPrefix(key, "--receive-pack"):
			s.unknown()
		case (f.text == "--exec" || f.text == "-x") && i+1 < len(args):
			texts(args[i+1])
		case strings.HasPrefix(f.text, "--exec="):
			texts(field{text: strings.TrimPrefix(f.text, "--exec="), known: f.known})
		case f.text == "foreach" && i > 0 && args[i-1].text == "submodule":
			joined(args[i+1:])
		case f.text == "run" && i > 0 && args[i-1].text == "bisect":
			s.run(args[i+1:])
		case strings.HasSuffix(f.text, "-filter") && i+1 < len(args):
			texts(args[i+1])
		}
	}
}

// gitCommand reports whether a setting of git is a command.
func gitCommand(key string) bool {
	if name, _, _ := strings.Cut(key, "="); strings.HasPrefix(name, "remote.") && (strings.HasSuffix(name, ".push") || strings.HasSuffix(name, ".mirror")) {
		return true // a push without options pushes so
	}
	for _, part := range []string{"alias.", "pager", "editor", "sshcommand", "fsmonitor", "hookspath", "askpass", "gitproxy", "external", "command", "cmd",
		"textconv", "process", "clean", "smudge", "helper", "driver", "program", "include"} {
		if strings.Contains(key, part) {
			return true
		}
	}
	return false
}

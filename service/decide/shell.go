package decide

import (
	"errors"
	"io"
	"path"
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
	s := &shell{d: d, base: base, at: at, spent: new(spent)}
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
}

// shell reads the commands of one member.
type shell struct {
	d        *derivation
	base, at string
	spent    *spent
	depth    int // of texts and programs in one another
	values   map[string]*variable
	jumps    bool // a part of the text may run after what stands behind it
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
}

// unknown says that something in the command is not understood.
func (s *shell) unknown() { s.d.dropped[s.at] = true }

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
		if a.Name != nil && dangerousVariable(a.Name.Value) {
			s.unknown()
		}
	}
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

// dangerousVariable is one by which a program runs another.
func dangerousVariable(name string) bool {
	switch name {
	case "PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "IFS", "PROMPT_COMMAND", "PAGER", "EDITOR", "VISUAL":
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
			if !shells[path.Base(f.text)] {
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
			s.d.add(s.d.words, from+" | "+to, s.at)
		}
		if shells[to] || to == "xargs" || to == "parallel" {
			s.fed(n.X, to)
		}
	}
}

// programsOf returns the programs that a statement runs, whatever runs them.
func (s *shell) programsOf(stmt *syntax.Stmt) []string {
	inner := &derivation{folder: s.d.folder, dropped: map[string]bool{}, hosts: map[string]bool{}, programs: map[string]bool{},
		words: map[string]bool{}, clean: map[string]string{}}
	sub := &shell{d: inner, base: s.base, at: s.at, spent: s.spent, depth: s.depth, values: s.values, jumps: s.jumps}
	syntax.Walk(stmt, func(node syntax.Node) bool {
		if c, is := node.(*syntax.CallExpr); is {
			sub.call(c)
		}
		return !s.exhausted(0, 0)
	})
	return sortedKeys(inner.programs)
}

// fed looks at what a shell or xargs reads from a pipe. A shell's commands are known only where
// echo or printf says them; the arguments of xargs are paths where a program lists them.
func (s *shell) fed(from *syntax.Stmt, to string) {
	if !shells[to] {
		return
	}
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
	program := strings.TrimSuffix(path.Base(name.text), ".exe")
	if dir := path.Dir(name.text); strings.Contains(name.text, "/") && !binaries[dir] {
		s.argument(name, false)
	}
	s.d.add(s.d.programs, program, s.at)
	if lower := strings.ToLower(program); lower != program { // some file systems know no case
		s.run(append([]field{{text: lower, known: true}}, fields[1:]...))
	}
	args := fields[1:]
	s.words(program, args)
	s.arguments(program, args)
	s.depth++
	s.inner(program, args)
	s.depth--
}

var binaries = set("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin")

// words notes a program's arguments.
func (s *shell) words(program string, args []field) {
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
			if option, _, has := strings.Cut(text, "="); has {
				note(option, true)
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
	"umask", "ulimit", "set", "read", "jobs", "tput", "cut", "tr")

// writing are the programs that write, move or remove the files that their arguments name.
var writing = set("rm", "rmdir", "mv", "cp", "ln", "install", "rsync", "tee", "touch", "mkdir", "mkfifo", "chmod", "chown", "chgrp", "truncate",
	"dd", "shred", "unlink", "patch", "scp", "split", "csplit", "srm", "trash", "mktemp", "git", "curl", "wget", "tar", "unzip", "7z", "sed", "perl", "find")

// arguments notes the paths and hosts among a program's arguments.
func (s *shell) arguments(program string, args []field) {
	if program == "cd" || program == "pushd" || program == "popd" {
		s.changeFolder(args)
	}
	for i, f := range args {
		if !f.known {
			if !inert[program] {
				s.unknown()
			}
			continue
		}
		if inert[program] && program != "test" && program != "[" || program == "git" && i > 0 && (args[i-1].text == "-m" || args[i-1].text == "--message") {
			continue
		}
		s.argument(f, s.writes(program, args, i))
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
	has := func(options ...string) bool {
		return slices.ContainsFunc(args, func(f field) bool {
			return slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(f.text, o) })
		})
	}
	previous := ""
	if i > 0 {
		previous = args[i-1].text
	}
	text := args[i].text
	switch program {
	case "cp", "scp", "rsync", "install", "ln":
		return i == len(args)-1 || has("-t", "--target-directory") || program == "ln"
	case "dd":
		return strings.HasPrefix(text, "of=")
	case "sed", "perl":
		return has("-i", "--in-place", "-pi", "-ni", "-Ei", "-ri", "-si")
	case "git":
		return len(args) > 0 && !has("log", "show", "diff", "status", "blame", "grep", "ls-files", "rev-parse", "describe", "shortlog") ||
			strings.HasPrefix(text, "--output")
	case "curl", "wget":
		return previous == "-o" || previous == "--output" || previous == "-O" || previous == "-P" || previous == "--output-dir" ||
			strings.HasPrefix(previous, "-") && strings.HasSuffix(previous, "o") && previous[1] != '-' || strings.HasPrefix(text, "-")
	case "tar":
		return has("x", "-x", "--extract", "c", "-c", "--create", "-C")
	case "find":
		return has("-delete", "-exec", "-ok", "-fprint", "-fls")
	}
	return writing[program]
}

// argument notes the paths that an argument may name, its URLs, and whether it is a key file.
func (s *shell) argument(f field, writes bool) {
	if !f.known {
		s.unknown()
		return
	}
	text := f.text
	if len(text) > MaxArguments || strings.ContainsRune(text, '\n') {
		return // a text, and no path
	}
	if strings.Contains(text, "://") {
		for _, found := range urlWithin.FindAllString(text, maxValues) {
			s.d.url(found, s.at)
		}
		if urlForm.MatchString(text) && !strings.HasPrefix(text, "file://") {
			return
		}
	}
	// --option=/path, -I/path, user@host:path, @file, key=path
	parts := []string{text}
	for i := 0; i < len(text) && len(parts) < maxValues; i++ {
		if strings.IndexByte("=@:,", text[i]) >= 0 && i+1 < len(text) {
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
	"git": "", "dig": "", "nslookup": "", "host": "", "ping": "ciWwst",
}

// network notes the hosts that a network program is asked to talk to.
func (s *shell) network(program, valued string, args []field) {
	if program == "git" {
		args = slices.DeleteFunc(slices.Clone(args), func(f field) bool { return !strings.Contains(f.text, "@") || !strings.Contains(f.text, ":") })
	}
	for i, f := range args {
		text := f.text
		if !f.known || text == "" || text[0] == '-' && program != "curl" || urlForm.MatchString(text) {
			continue
		}
		if text[0] == '-' {
			if text == "-K" || text == "--config" || text == "-x" || text == "--proxy" || strings.HasPrefix(text, "--connect-to") || strings.HasPrefix(text, "--resolve") {
				s.unknown()
			}
			continue
		}
		if i > 0 && strings.HasPrefix(args[i-1].text, "-") {
			option := args[i-1].text
			if strings.HasPrefix(option, "--") && program != "git" && !strings.Contains(option, "=") && longValued[option] ||
				!strings.HasPrefix(option, "--") && strings.IndexByte(valued, option[len(option)-1]) >= 0 {
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
		} else if strings.Trim(text, "0123456789") == "" {
			continue // a port
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

// wrappers are the programs that run their arguments, with their options whose next word is a
// value.
var wrappers = map[string]string{
	"sudo": "ughpCrtTUDR", "doas": "uC", "nohup": "", "setsid": "", "nice": "n", "ionice": "cnp", "time": "fo", "timeout": "sk",
	"command": "", "builtin": "", "exec": "a", "env": "uCS", "stdbuf": "ioe", "xargs": "InPLdaEs", "parallel": "jSIa", "chrt": "T", "taskset": "",
	"strace": "oepsESOP", "ltrace": "oep", "busybox": "", "toybox": "", "caffeinate": "tw", "unbuffer": "", "watch": "n", "flock": "wE", "chroot": "",
	"npx": "p", "bunx": "", "proxychains": "f", "torsocks": "", "systemd-run": "pEup", "firejail": "", "unshare": "", "nsenter": "", "numactl": "",
	"winpty": "", "rlwrap": "", "direnv": "", "catchsegv": "", "coproc": "", "su": "", "script": "", "trap": "",
}

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
			if _, text, has := strings.Cut(f.text, "="); has {
				texts(field{text: text, known: f.known})
			}
		}
	case program == "source" || program == ".":
		if len(args) > 0 && args[0].text == "/dev/fd/63" {
			s.unknown()
		}
	case program == "find" || program == "fd" || program == "fdfind":
		s.found(args)
	case program == "git":
		s.git(args, texts, joined)
	}
	if valued, is := wrappers[program]; is {
		s.wrapped(program, valued, args, texts)
	} else if subcommands, is := runners[program]; is && len(args) > 0 && slices.Contains(subcommands, args[0].text) {
		s.wrapped(program, "", args[1:], texts)
	}
}

// isShort reports whether a word has a short option of a letter.
func isShort(word string, letter byte) bool {
	return len(word) > 1 && (word[0] == '-' || word[0] == '+') && word[1] != '-' && strings.IndexByte(word[1:], letter) >= 0
}

// wrapped runs what a wrapper runs: the words after its options, values and assignments.
func (s *shell) wrapped(program, valued string, args []field, texts func(...field)) {
	for i := 0; i < len(args); i++ {
		f := args[i]
		if !f.known || f.one {
			s.unknown()
		}
		text := f.text
		switch {
		case text == "--":
			s.run(args[i+1:])
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
			if i+1 < len(args) { // after a duration, a mask, a file
				s.run(args[i+1:])
			}
			return
		default:
			rest := args[i:]
			if program == "xargs" || program == "parallel" {
				// the arguments come from the input
				rest = append(slices.Clone(rest), field{})
			}
			s.run(rest)
			return
		}
	}
}

// found runs what find and fd run for the files that they find.
func (s *shell) found(args []field) {
	for i, f := range args {
		switch f.text {
		case "-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch":
			rest := slices.Clone(args[i+1:])
			for j := range rest {
				if rest[j].text == ";" || rest[j].text == "+" {
					rest = rest[:j]
					break
				}
				if rest[j].text == "{}" {
					rest[j].text = "." // one below the folders, which are arguments
				}
			}
			s.run(rest)
		}
	}
}

// git runs what git runs, and refuses settings that are commands.
func (s *shell) git(args []field, texts func(...field), joined func([]field)) {
	for i, f := range args {
		key := strings.ToLower(f.text)
		switch {
		case gitCommand(key) && (i > 0 && args[i-1].text == "-c" || len(args) > 1 && slices.ContainsFunc(args[:i], func(f field) bool { return f.text == "config" })):
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
	for _, part := range []string{"alias.", "pager", "editor", "sshcommand", "fsmonitor", "hookspath", "askpass", "gitproxy", "external", "command", "cmd",
		"textconv", "process", "clean", "smudge", "helper", "driver", "program", "include"} {
		if strings.Contains(key, part) {
			return true
		}
	}
	return false
}

package mask

import (
	"path"
	"strings"
)

// commandOptions says where programs take secrets that no name announces. An option in a list takes
// its value from the next word, or behind it without a space.
type commandOptions struct {
	secret   string // options of one letter whose value is a secret
	exact    bool   // options have names of several letters after one dash
	attached string // those that take it only without a space
	cookies  string // whose value is what a Cookie header has
	pair     string // whose value is user:password or user%password
	long     []string
}

var programs = map[string]commandOptions{

	"curl": {pair: "uU", cookies: "b", long: []string{"--cookie", "--user", "--proxy-user", "--pass", "--oauth2-bearer", "--proxy-pass"}},
	"http": {pair: "a", long: []string{"--auth"}}, "https": {pair: "a", long: []string{"--auth"}},
	"xh": {pair: "a", long: []string{"--auth"}}, "wget": {long: []string{"--user"}},
	"mysql": {attached: "p"}, "mysqldump": {attached: "p"}, "mysqladmin": {attached: "p"},
	"mysqlimport": {attached: "p"}, "mariadb": {attached: "p"}, "mariadb-dump": {attached: "p"},
	"mariadb-admin": {attached: "p"}, "mysqlsh": {attached: "p"}, "mysqlcheck": {attached: "p"},
	"sshpass": {secret: "p"}, "redis-cli": {secret: "a", long: []string{"--pass"}},
	"valkey-cli": {secret: "a", long: []string{"--pass"}}, "mongosh": {secret: "p"}, "mongo": {secret: "p"},
	"mongodump": {secret: "p"}, "mongorestore": {secret: "p"}, "mongoexport": {secret: "p"},
	"mongoimport": {secret: "p"}, "docker": {}, "podman": {}, "nerdctl": {}, "helm": {}, "twine": {secret: "p"},
	"az": {secret: "p"}, "sqlcmd": {secret: "P"}, "bcp": {secret: "P"}, "isql": {}, "clickhouse-client": {},
	"impala-shell": {}, "ldapsearch": {secret: "w"}, "ldapadd": {secret: "w"}, "ldapmodify": {secret: "w"},
	"ldappasswd": {secret: "ws"}, "ldapwhoami": {secret: "w"}, "ldapdelete": {secret: "w"},
	"zip": {secret: "P", long: []string{"--password"}}, "unzip": {secret: "P"}, "7z": {attached: "p"},
	"7za": {attached: "p"}, "7zz": {attached: "p"}, "rar": {attached: "p"}, "unrar": {attached: "p"},
	"openssl": {secret: "kK", exact: true}, "smbclient": {pair: "U"}, "rpcclient": {pair: "U"},
	"net": {pair: "U"}, "gh": {}, "ipmitool": {secret: "P"}, "snmpwalk": {secret: "AX"}, "snmpget": {secret: "AX"},
	"mosquitto_pub": {secret: "P"}, "mosquitto_sub": {secret: "P"}, "gem": {long: []string{"--key"}},
	"netlify": {long: []string{"--auth"}}, "lftp": {pair: "u"}, "influx": {secret: "t"}, "sqlite3": {},
	"rabbitmqadmin": {secret: "p"}, "xfreerdp": {attached: ""}, "vncdo": {secret: "p"}, "nuget": {},
	"dotnet": {secret: "k"}, "kafkacat": {}, "expect": {},
}

// subcommand says where a command takes secrets after some of its words.
type subcommand struct {
	words  string // the program and its words, in this order; others may come between
	option string // the options whose value is a secret
	// which of the words after them is a secret, from 1 on, without options; 0 for none
	last int
}

var subcommands = []subcommand{
	{words: "docker login", option: "-p"}, {words: "podman login", option: "-p"},
	{words: "nerdctl login", option: "-p"}, {words: "helm registry login", option: "-p"},
	{words: "oc login", option: "-p -t"}, {words: "kubectl config set-credentials", option: "--token"},
	{words: "gh secret set", option: "-b --body"}, {words: "aws ssm put-parameter", option: "--value"},
	{words: "aws secretsmanager", option: "--secret-string"}, {words: "aws configure set", last: 2},
	{words: "npm config set", last: 2}, {words: "yarn config set", last: 2}, {words: "pnpm config set", last: 2},
	{words: "poetry config", last: 3}, {words: "cargo login", last: 1}, {words: "vault login", last: 1},
	{words: "snyk auth", last: 1}, {words: "mysqladmin password", last: 1}, {words: "htpasswd", last: 3},
	{words: "wpa_passphrase", last: 2}, {words: "cf auth", last: 2}, {words: "heroku auth:token", last: 1},
	{words: "az keyvault secret set", option: "--value"}, {words: "vercel", option: "--token -t"},
	{words: "nmcli connection password", last: 1}, {words: "ngrok config add-authtoken", last: 1},
	{words: "ngrok authtoken", last: 1}, {words: "pulumi config set", last: 2},
	{words: "conjur variable set", option: "-v --value"}, {words: "stripe login", option: "--api-key"},
	{words: "ConvertTo-SecureString", last: 1}, {words: "net user", last: 2},
}

// subcommandsOf has the subcommands by their program.
var subcommandsOf = func() map[string][]subcommand {
	of := map[string][]subcommand{}
	for _, s := range subcommands {
		program, _, _ := strings.Cut(s.words, " ")
		of[program] = append(of[program], s)
	}
	return of
}()

// word is a word of a command line.
type word struct {
	start, end int    // in the text, with quotation marks
	text       string // without them
	from       int    // where its text begins
}

// commands finds secrets at their places in command lines.
func (f *finder) commands() {
	f.lines(func(start, end int) { f.commandLine(start, end, 0) })
}

// commandLine finds secrets in the commands from start to end, and in the quoted commands within
// them, as sh -c has them.
func (f *finder) commandLine(start, end, depth int) {
	const most = 256 // words of a command
	var words []word
	var feeds []word // the words of the command before, if it is echo or printf
	for at := start; at <= end; {
		w, next, more := f.nextWord(at, end, depth)
		if w.end > w.start && len(words) < most {
			words = append(words, w)
		}
		at = next
		if more {
			continue
		}
		here := ""
		if strings.HasPrefix(f.text[at:end], "<<<") {
			here = f.text[at:end]
		}
		f.command(words, feeds, here, at)
		feeds = nil
		if at < end && f.text[at] == '|' && len(words) > 1 && (words[0].text == "echo" || words[0].text == "printf") {
			feeds = append(feeds, words...)
		}
		words = words[:0]
		at++
	}
}

// nextWord returns the next word of a line from a place on. more says that the command goes on;
// otherwise a sign that ends the command, or the end of the line, is at next.
func (f *finder) nextWord(at, end, depth int) (w word, next int, more bool) {
	for at < end && (f.text[at] == ' ' || f.text[at] == '\t' || f.text[at] == '\r' || f.text[at] == '\n' ||
		f.text[at] == '\\' && at+1 < end && f.text[at+1] == '\n') {
		at++
	}
	w.start = at
	for at < end {
		switch c := f.text[at]; c {
		case '"', '\'':
			n := strings.IndexByte(f.text[at+1:end], c)
			if n < 0 {
				at++
				continue
			}
			const deepest = 3
			if depth < deepest && strings.IndexByte(f.text[at+1:at+1+n], ' ') > 0 {
				f.commandLine(at+1, at+1+n, depth+1)
			}
			at += n + 2
			continue
		case ' ', '\t', '\n', '\r':
			return f.wordOf(w, at), at, true
		case ';', '|', '&', '<', '>', '`', '(', ')':
			return f.wordOf(w, at), at, false
		case '\\':
			at++
		}
		if at < end {
			at++
		}
	}
	return f.wordOf(w, at), at, false
}

func (f *finder) wordOf(w word, end int) word {
	w.end = end
	text := f.text[w.start:end]
	w.from = w.start
	if len(text) >= 2 && (text[0] == '"' || text[0] == '\'') && text[len(text)-1] == text[0] {
		text = text[1 : len(text)-1]
		w.from++
	}
	w.text = text
	return w
}

// command finds secrets in the words of one command. feeds are the words of the command whose
// output it reads, and here is what follows it from <<< on, at a place of the text.
func (f *finder) command(words, feeds []word, here string, hereAt int) {
	f.options(words)
	first := 0
	for first < len(words) && (strings.IndexByte(words[first].text, '=') > 0 && words[first].text[0] != '-' ||
		isPrefixCommand(words[first].text) || first > 0 && strings.HasPrefix(words[first].text, "-") &&
		isPrefixCommand(words[first-1].text)) {
		if base(words[first].text) == "sudo" {
			f.fed(words[first:], feeds, "sudo")
		}
		first++
	}
	if first == len(words) {
		return
	}
	f.fed(words[first:], feeds, base(words[first].text))
	if strings.HasPrefix(here, "<<<") && first+1 < len(words) {
		f.fedHere(words[first:], hereAt+3)
	}
	// A program may have others before it, and so may what quotes a command.
	for i := first; i < len(words); i++ {
		f.programAt(base(words[i].text), words[i+1:])
	}
}

// programAt finds the secrets among the arguments of a program of some name.
func (f *finder) programAt(name string, args []word) {
	if len(args) == 0 {
		return
	}
	if p, known := programs[name]; known {
		f.program(p, args)
	}
	for _, s := range subcommandsOf[name] {
		if rest, ok := matchWords(s.words, name, args); ok {
			f.subcommand(s.option, s.last, rest, args, name)
		}
	}
	// user/password@host
	if name == "sqlplus" || name == "sqlldr" || name == "expdp" || name == "impdp" {
		for _, w := range args {
			if _, rest, found := strings.Cut(w.text, "/"); found && len(w.text) > 2 && w.text[0] != '/' &&
				w.text[0] != '@' {
				n := strings.LastIndexByte(rest, '@')
				if n < 0 {
					n = len(rest)
				}
				if start := w.from + len(w.text) - len(rest); n > 2 && !placeholder(rest[:n]) {
					f.add(start, start+n)
				}
				break
			}
		}
	}
}

func isPrefixCommand(word string) bool {
	switch base(word) {
	case "sudo", "env", "time", "exec", "nohup", "nice", "xargs", "command", "doas", "then", "do", "else", "if", "!",
		"$", "#", "run", "-", "RUN":
		return true
	}
	return false
}

func base(word string) string { return strings.TrimSuffix(path.Base(word), ".exe") }

// matchWords reports whether a command begins with the words of a pattern, and returns what
// follows the last of them.
func matchWords(pattern, name string, args []word) (rest []word, ok bool) {
	first, others, _ := strings.Cut(pattern, " ")
	if first != name {
		return nil, false
	}
	for others != "" {
		var want string
		want, others, _ = strings.Cut(others, " ")
		i := 0
		for i < len(args) && args[i].text != want && i < 8 {
			i++
		}
		if i == len(args) || args[i].text != want {
			return nil, false
		}
		args = args[i+1:]
	}
	return args, true
}

// options finds the arguments of options with the names of secrets: --password VALUE.
func (f *finder) options(words []word) {
	for i, w := range words {
		if len(w.text) < 3 || w.text[0] != '-' || strings.IndexByte(w.text, '=') >= 0 || i+1 == len(words) {
			continue
		}
		next := words[i+1]
		if strings.HasPrefix(next.text, "-") && len(next.text) < 20 {
			continue
		}
		quoted := next.from > next.start
		if isOptionSecret(w.text, next.text, quoted) {
			f.add(next.from, next.from+len(next.text))
		}
	}
}

// isOptionSecret reports whether the argument after an option is a secret.
func isOptionSecret(option, v string, quoted bool) bool {
	name := strings.TrimLeft(option, "-")
	if name == option || name == "" || !isAlnum(name[0]) || strings.ContainsAny(name, "/ \"'") {
		return false
	}
	switch s := nameStrength(name); s {
	case isPassword:
		_, rest, found := strings.Cut(v, ":") // openssl's pass:, env: and file:
		if found && (strings.HasPrefix(v, "env:") || strings.HasPrefix(v, "file:") || strings.HasPrefix(v, "fd:") ||
			strings.HasPrefix(v, "pass:") && rest != "") {
			return false
		}
		if name == "pass" && len(v) < 4 {
			return false
		}
		return v != "" && !placeholder(v) && !strings.HasPrefix(v, "/") && !strings.HasPrefix(v, "./")
	case isToken:
		return tokenLike(v, quoted) && !isParameter(v)
	case mayBe:
		return random(v, 8) && !isParameter(v)
	}
	return false
}

// program finds the secrets among the arguments of a program.
func (f *finder) program(p commandOptions, args []word) {
	for i, w := range args {
		t := w.text
		switch {
		case len(t) < 2 || t[0] != '-':
			continue
		case strings.HasPrefix(t, "--"):
			name, rest, joined := strings.Cut(t, "=")
			for _, long := range p.long {
				if name != long {
					continue
				}
				if name == "--cookie" {
					switch {
					case joined:
						f.cookies(w.from + len(t) - len(rest))
					case i+1 < len(args):
						f.cookies(args[i+1].from)
					}
					continue
				}
				isPair := strings.HasSuffix(name, "user") || strings.HasSuffix(name, "auth") && p.pair != ""
				switch {
				case joined:
					f.argument(w.from+len(t)-len(rest), rest, isPair)
				case i+1 < len(args):
					f.argument(args[i+1].from, args[i+1].text, isPair)
				}
			}
			continue
		}
		if p.exact && len(t) > 2 {
			continue
		}
		for j := 1; j < len(t) && j < 9; j++ {
			c := t[j]
			isPair := strings.IndexByte(p.pair, c) >= 0
			switch {
			case isPair || strings.IndexByte(p.secret, c) >= 0:
				if j+1 < len(t) {
					f.argument(w.from+j+1, strings.Trim(t[j+1:], "'\""), isPair)
				} else if i+1 < len(args) {
					f.argument(args[i+1].from, args[i+1].text, isPair)
				}
			case strings.IndexByte(p.cookies, c) >= 0:
				if j+1 < len(t) {
					f.cookies(w.from + j + 1)
				} else if i+1 < len(args) {
					f.cookies(args[i+1].from)
				}
			case strings.IndexByte(p.attached, c) >= 0 && j+1 < len(t):
				f.argument(w.from+j+1, strings.Trim(t[j+1:], "'\""), false)
			case isLower(c) || isUpper(c) || isDigit(c):
				// their options have several letters
				if p.secret == "p" && p.pair == "" || p.secret == "P" || p.secret == "w" || p.attached == "p" {
					j = len(t)
				}
				continue
			}
			break
		}
	}
}

// argument adds an argument of a program that is a secret, or of a pair what follows the name.
func (f *finder) argument(at int, text string, isPair bool) {
	for at < len(f.text) && text != "" && f.text[at] != text[0] { // quotation marks within the word
		at++
	}
	if isPair {
		i := strings.IndexAny(text, ":%")
		if i < 0 {
			return
		}
		at, text = at+i+1, text[i+1:]
		if isDigits(text) && len(text) < 6 { // IDs of a user and a group
			return
		}
	}
	if text == "" || strings.HasPrefix(text, "-") || placeholder(text) || strings.HasPrefix(text, "/") ||
		at+len(text) > len(f.text) || isParameter(text) {
		return
	}
	f.add(at, at+len(text))
}

// subcommand finds the secrets among the arguments of a subcommand.
func (f *finder) subcommand(options string, last int, rest, all []word, name string) {
	if options != "" {
		for i, w := range all {
			for option := range strings.FieldsSeq(options) {
				if w.text == option && i+1 < len(all) {
					f.argument(all[i+1].from, all[i+1].text, false)
				}
			}
		}
	}
	if last == 0 {
		return
	}
	n := 0
	var values []word
	for _, w := range rest {
		if strings.HasPrefix(w.text, "-") {
			continue
		}
		values = append(values, w)
	}
	if name == "htpasswd" { // with -b, and without a file with -n
		b := false
		for _, w := range all {
			if strings.HasPrefix(w.text, "-") && strings.IndexByte(w.text, 'b') > 0 {
				b = true
				if strings.IndexByte(w.text, 'n') > 0 {
					last = 2
				}
			}
		}
		if !b {
			return
		}
	}
	for _, w := range values {
		if n++; n != last {
			continue
		}
		// a setting is a secret by its name, where it has one
		if last == 2 && name != "wpa_passphrase" && name != "htpasswd" && name != "cf" && name != "net" &&
			nameStrength(strings.TrimRight(values[0].text, "=")) < isToken {
			return
		}
		if (name == "cargo" || name == "vault" || name == "snyk") && !tokenLike(w.text, true) {
			return
		}
		if name == "poetry" && !strings.HasPrefix(values[0].text, "http-basic.") &&
			!strings.HasPrefix(values[0].text, "pypi-token.") {
			return
		}
		f.argument(w.from, w.text, false)
	}
}

// fed finds a secret that echo or printf writes to a command that reads one.
func (f *finder) fed(words, feeds []word, name string) {
	if len(feeds) < 2 {
		return
	}
	reads := name == "chpasswd"
	for _, w := range words {
		switch {
		case w.text == "--password-stdin", w.text == "--with-token", w.text == "--passphrase-fd", name == "sudo" &&
			(w.text == "-S" || w.text == "--stdin"), w.text == "secret", w.text == "--token-stdin":
			reads = true
		}
	}
	if !reads {
		return
	}
	for _, w := range feeds[1:] {
		if strings.HasPrefix(w.text, "-") {
			continue
		}
		f.argument(w.from, w.text, name == "chpasswd")
	}
}

// fedHere finds a secret that a command reads from <<< at a place.
func (f *finder) fedHere(words []word, at int) {
	reads := false
	for _, w := range words {
		t := strings.TrimLeft(w.text, "-")
		reads = reads || t == "password-stdin" || t == "with-token" || t == "secret" || t == "secrets" ||
			nameStrength(t) >= isToken
	}
	if !reads {
		return
	}
	at += run(f.text[at:], spaces, 8)
	if v, ok := f.valueAt(at); ok {
		f.argument(v.start, f.text[v.start:v.end], false)
	}
}

// Arguments returns the arguments of a command with their secrets masked. It also masks a
// secret that is the argument after its option, as in --password hunter2.
func (k Key) Arguments(arguments []string) []string { return k.list("", arguments) }

// list masks the secrets in the strings of an array, which may be the arguments of a program, or
// the lines of a file. program is the name of the program before them, or "".
func (k Key) list(program string, list []string) []string {
	texts := list
	if program != "" {
		texts = append([]string{program}, list...)
	}
	text := strings.Join(texts, "\n")
	words := make([]word, len(texts))
	at := 0
	for i, t := range texts {
		words[i] = word{start: at, end: at + len(t), text: t, from: at}
		at += len(t) + 1
	}
	f := finder{text: text, spans: find(text)}
	f.command(words, nil, "", 0)
	// No secret holds a line feed, so each is within one of the strings.
	spans := make([][]span, len(texts))
	i := 0
	sortSpans(f.spans)
	for _, s := range f.spans {
		for i+1 < len(words) && s.start >= words[i+1].start {
			i++
		}
		spans[i] = append(spans[i], span{s.start - words[i].start, s.end - words[i].start, false})
	}
	shown := make([]string, len(texts))
	for i, t := range texts {
		shown[i] = replace(t, spans[i], k.Replacement)
	}
	return shown[len(texts)-len(list):]
}

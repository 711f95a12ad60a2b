package decide

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go/types"

	"attestd/chain/action/mask"
)

// Derived describes what policies see of a call beside its arguments. All of it follows from the
// arguments and the session's folder alone, so symbolic links, variables of the environment and
// aliases of the shell are unknown to it.
//
//	dropped        the JSON Pointers of what context.arguments leaves out, and of what could not be
//	               understood: a command that cannot be parsed, whose program or whose arguments
//	               follow from the environment or from the output of another program, URLs that
//	               two readers could understand in two ways, and the top-level members in which a
//	               text is masked, or has U+FFFD, so that it is not the one that the tool gets
//	unclear        those of dropped in which something is hidden that may matter: all but numbers,
//	               null, masks in texts that are no command, path or patch, and arguments of programs
//	               that do not write, talk to hosts or run others for them, such as those of go test.
//	               Where find, ls, git ls-files and the like list the arguments of another program,
//	               these are known to lie where they look.
//	clean          a record: each top-level member that is a path or a URL, by its name or its form,
//	               as its clean path. A relative path is joined to the folder, where that is known.
//	               A URL has its scheme, host, port and clean path.
//	hosts          the hosts of URLs, and those that network programs are asked to talk to
//	programs       the programs that commands run, by their base names
//	words          the program, a space, and one of its arguments: "git push", "git --force"; of short
//	               options in one word also each, as "rm -r" of "rm -rf"; for options also with the
//	               first words before them: "git push --force"; and "curl | sh" for each program
//	               before another in a pipe; and "download | shell" where
//	               a program that downloads is before a shell or an interpreter in a pipe, or writes
//	               a file that the same text runs
//	outside        a path of the call lies outside the folder. This and writesOutside are there only
//	               where the folder is known.
//	writesOutside  a path that may be written lies outside the folder
//	keyFile        a path of the call is that of a key or a file of secrets, by its name
type Derived struct {
	Dropped, Unclear, Hosts, Programs, Words []string // sorted
	Clean                                    map[string]string
	FolderKnown                              bool
	Outside, WritesOutside, KeyFile          bool
}

// Derive derives them of the arguments of a call.
func Derive(arguments []byte, folder string) Derived {
	_, members, dropped, hidden := mapArguments(arguments)
	return derive(members, dropped, hidden, folder).result()
}

// maxDerived is how many elements a derived set may have.
const maxDerived = 1_000

// derivation collects what is derived.
type derivation struct {
	folder                                   folder
	dropped, unclear, hosts, programs, words map[string]bool
	clean                                    map[string]string
	outside, writesOutside, keyFile          bool
}

func newDerivation(f folder) *derivation {
	return &derivation{folder: f, dropped: map[string]bool{}, unclear: map[string]bool{}, hosts: map[string]bool{},
		programs: map[string]bool{}, words: map[string]bool{}, clean: map[string]string{}}
}

// unknown names a place where something that may matter is not understood.
func (d *derivation) unknown(at string) {
	d.dropped[at] = true
	d.unclear[at] = true
}

func derive(members []member, dropped, hidden []string, in string) *derivation {
	d := newDerivation(newFolder(in))
	d.dropped, d.unclear = set(dropped...), set(hidden...)
	base := d.folder.path
	for _, m := range members {
		if s, is := m.value.(types.String); is && workdirs[m.name] {
			base = d.folder.resolve(base, string(s))
		}
	}
	writes := slices.ContainsFunc(members, func(m member) bool { return writers[m.name] })
	for _, m := range members {
		d.member(m, base, members, writes)
	}
	return d
}

// add puts an element into a set. Where the set is full, at is named as not understood.
func (d *derivation) add(to map[string]bool, element, at string) {
	const longest = 512 // bytes of an element
	if len(to) >= maxDerived || len(element) > longest {
		d.unknown(at)
		return
	}
	to[element] = true
}

func (d *derivation) result() Derived {
	return Derived{
		Dropped: sortedKeys(d.dropped), Unclear: sortedKeys(d.unclear), Hosts: sortedKeys(d.hosts), Programs: sortedKeys(d.programs), Words: sortedKeys(d.words),
		Clean: d.clean, FolderKnown: d.folder.known(), Outside: d.outside, WritesOutside: d.writesOutside, KeyFile: d.keyFile,
	}
}

func sortedKeys(of map[string]bool) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// into adds the members of the context.
func (d *derivation) into(context types.RecordMap) {
	clean := make(types.RecordMap, len(d.clean))
	for name, value := range d.clean {
		clean[types.String(name)] = types.String(value)
	}
	context["clean"] = types.NewRecord(clean)
	for name, of := range map[types.String]map[string]bool{"dropped": d.dropped, "unclear": d.unclear, "hosts": d.hosts, "programs": d.programs, "words": d.words} {
		values := make([]types.Value, 0, len(of))
		for element := range of {
			values = append(values, types.String(element))
		}
		context[name] = types.NewSet(values...)
	}
	context["keyFile"] = types.Boolean(d.keyFile)
	if d.folder.known() {
		context["outside"] = types.Boolean(d.outside)
		context["writesOutside"] = types.Boolean(d.writesOutside)
	}
}

// The members whose values are understood, by their names in the tools of coding agents and of MCP
// servers.
var (
	workdirs  = set("cwd", "workdir", "working_directory", "workingDirectory", "workingDir")
	commands  = set("command", "cmd", "chars")
	pathName  = regexp.MustCompile(`^(?i:(?:.*[_-])?(?:path|file|filename|filepath|dir|dirs|directory|directories|folder|folders|cwd|workdir|root|paths|files)|.*(?:Path|File|Dir|Folder|Directory|Paths|Files))$`)
	urlName   = regexp.MustCompile(`^(?i:(?:.*[_-])?(?:url|uri|urls|uris|host|hosts|hostname|domain|domains|endpoint|href|origin))$|(?:Url|URL|Uri|URI|Host)s?$`)
	writers   = set("content", "contents", "file_text", "new_string", "new_str", "new_source", "edits", "patch", "diff", "insert_text", "text", "data", "body", "destination", "target")
	urlForm   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	pathForm  = regexp.MustCompile(`^(?:/|~|\.\.?/|\.\.?$|[A-Za-z]:[\\/]|\\\\)[^\n]*$`)
	urlWithin = regexp.MustCompile(`(?i)\b(?:https?|wss?|ftp)://[^\s"'<>)\]}` + "`" + `]+`)
	// the files that a patch in the form of Codex names
	patchFile = regexp.MustCompile(`(?m)^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$`)
)

// named reports whether a name is one that an expression matches. Most names have none of the parts
// of which the expression needs one, in lower case and without s and k, which others are folded to.
func named(name string, expression *regexp.Regexp, parts ...string) bool {
	lower := strings.ToLower(name)
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(lower, part) }) && expression.MatchString(name)
}

func isPathName(name string) bool {
	return named(name, pathName, "path", "file", "dir", "folder", "cwd", "root")
}

func isURLName(name string) bool {
	return named(name, urlName, "ur", "ho", "domain", "endpoint", "href", "origin")
}

// member derives from one top-level member. writes says that the call may write the paths it names.
func (d *derivation) member(m member, base string, all []member, writes bool) {
	at := "/" + escapePointer(m.name)
	d.altered(m.name, m.value, at)
	if commands[m.name] {
		d.command(m, base, at, all)
	}
	switch v := m.value.(type) {
	case types.String:
		d.text(m.name, string(v), base, at, writes)
	case types.Set:
		for element := range v.All() {
			if s, is := element.(types.String); is && !commands[m.name] {
				d.element(m.name, string(s), base, at, writes)
			} else if record, is := element.(types.Record); is {
				d.nested(record, base, at, writes)
			}
		}
	case types.Record:
		d.nested(v, base, at, writes)
	}
}

// altered names a place that has a text which is not the one that the tool gets, since a secret in
// it is masked, or what was no UTF-8 is replaced. A text of the agent may look the same.
func (d *derivation) altered(name string, value types.Value, at string) {
	if isAltered(name) {
		d.unknown(at)
	}
	switch v := value.(type) {
	case types.String:
		if text := string(v); isAltered(text) {
			d.dropped[at] = true
			if commands[name] || name == "args" || isPathName(name) || pathForm.MatchString(text) || strings.Contains(text, "*** ") {
				d.unknown(at)
			}
		}
	case types.Set:
		for element := range v.All() {
			d.altered(name, element, at)
		}
	case types.Record:
		for name, value := range v.All() {
			d.altered(string(name), value, at)
		}
	}
}

func isAltered(text string) bool { return mask.In(text) || strings.ContainsRune(text, utf8.RuneError) }

// nested looks at the members of records below the top level, which have no place in clean.
func (d *derivation) nested(record types.Record, base, at string, writes bool) {
	for name, value := range record.All() {
		switch v := value.(type) {
		case types.String:
			d.element(string(name), string(v), base, at, writes)
		case types.Set:
			for element := range v.All() {
				if s, is := element.(types.String); is {
					d.element(string(name), string(s), base, at, writes)
				} else if inner, is := element.(types.Record); is {
					d.nested(inner, base, at, writes)
				}
			}
		case types.Record:
			d.nested(v, base, at, writes)
		}
	}
}

// element is a string of which only the name tells what it is.
func (d *derivation) element(name, text, base, at string, writes bool) {
	switch {
	case urlForm.MatchString(text) || isURLName(name):
		d.url(text, at)
	case isPathName(name) || pathForm.MatchString(text) && !strings.ContainsAny(text, " \t"):
		d.path(base, text, writes)
	}
	d.patch(text, base)
}

// text derives from a top-level string.
func (d *derivation) text(name, text, base, at string, writes bool) {
	switch {
	case commands[name]:
	case urlForm.MatchString(text):
		if clean, ok := d.url(text, at); ok {
			d.clean[name] = clean
		}
		if path, is := strings.CutPrefix(text, "file://"); is {
			d.path(base, path, writes)
		}
	case isURLName(name):
		if clean, ok := d.url(text, at); ok {
			d.clean[name] = clean
		}
	case isPathName(name) || pathForm.MatchString(text):
		d.path(base, text, writes)
		d.clean[name] = d.folder.resolve(base, text)
	case name == "prompt":
		for _, found := range urlWithin.FindAllString(text, maxDerived) {
			d.url(found, at)
		}
	}
	d.patch(text, base)
}

func (d *derivation) patch(text, base string) {
	if !strings.Contains(text, "*** ") {
		return
	}
	for _, m := range patchFile.FindAllStringSubmatch(text, -1) {
		d.path(base, strings.TrimSpace(m[1]), true)
	}
}

// path notes a path.
func (d *derivation) path(base, text string, writes bool) {
	resolved := d.folder.resolve(base, text)
	if !d.folder.holds(resolved) && !device(resolved) {
		d.outside = true
		d.writesOutside = d.writesOutside || writes
	}
	d.keyFile = d.keyFile || isKeyFile(resolved)
}

// device reports whether a path is one of those that hold nothing.
func device(p string) bool {
	switch p {
	case "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty":
		return true
	}
	return strings.HasPrefix(p, "/dev/fd/")
}

// folder is the session's folder.
type folder struct {
	path    string // clean, "" where it is unknown
	windows bool   // paths begin with a drive, and case does not matter
}

var drive = regexp.MustCompile(`^[A-Za-z]:`)

func newFolder(text string) folder {
	f := folder{windows: drive.MatchString(text)}
	if text != "" {
		f.path = f.resolve("", text)
	}
	return f
}

func (f folder) known() bool { return f.path != "" }

// resolve returns a path as it is from base, clean. A path in a home folder begins with ~. Without
// base a relative path stays relative.
func (f folder) resolve(base, text string) string {
	if f.windows || drive.MatchString(text) || strings.Contains(text, `..\`) {
		text = strings.ReplaceAll(text, `\`, "/")
	}
	if text == "" {
		return base
	}
	if absolute := text[0] == '/' || text[0] == '~' || drive.MatchString(text); !absolute && base != "" {
		text = base + "/" + text
	}
	text = path.Clean(text)
	if f.windows {
		text = strings.ToLower(text)
	}
	return text
}

// holds reports whether a resolved path is the folder or lies in it. A name of .* is one that the
// shell may take for the folder above.
func (f folder) holds(resolved string) bool {
	return !strings.Contains("/"+resolved+"/", "/.*/") && !strings.HasPrefix(resolved, "~") &&
		(resolved == f.path || strings.HasPrefix(resolved, strings.TrimSuffix(f.path, "/")+"/"))
}

var hostForm = regexp.MustCompile(`^(?:[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])$`)

// url notes the host of a URL, with or without its scheme. ok is false for one that two readers
// could understand in two ways; its place is named then.
func (d *derivation) url(text, at string) (clean string, ok bool) {
	scheme, rest, hasScheme := strings.Cut(text, "://")
	if !hasScheme {
		scheme, rest = "", strings.TrimPrefix(text, "//")
	}
	scheme = strings.ToLower(scheme)
	if scheme == "file" || scheme == "data" || text == "" {
		return "", false
	}
	end := strings.IndexAny(rest, `/?#\`)
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		if strings.Contains(authority[:i], "@") {
			d.unknown(at)
		}
		authority = authority[i+1:]
	}
	host, port := authority, ""
	if i := strings.LastIndexByte(authority, ':'); i >= 0 && !strings.HasSuffix(authority, "]") {
		host, port = authority[:i], authority[i+1:]
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if !hostForm.MatchString(host) || strings.ContainsAny(tail, "\\\t\r\n") || strings.Trim(port, "0123456789") != "" {
		d.unknown(at)
		return "", false
	}
	d.add(d.hosts, host, at)
	if i := strings.IndexAny(tail, "?#"); i >= 0 {
		tail = tail[:i]
	}
	if port == map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443"}[scheme] {
		port = ""
	}
	if port != "" {
		host += ":" + port
	}
	if scheme != "" {
		host = scheme + "://" + host
	}
	for _, dot := range []string{"%2e", "%2E"} {
		tail = strings.ReplaceAll(tail, dot, ".")
	}
	return host + path.Clean("/"+tail), true
}

// The files that hold keys and secrets, by their names in lower case.
var (
	keyNames = []string{".env", ".netrc", "_netrc", ".pgpass", ".git-credentials", ".htpasswd", ".pypirc", "id_rsa", "id_dsa",
		"id_ecdsa", "id_ed25519", "shadow", "gshadow", "environ", "credentials", ".vault-token", "x.pem", "x.key", "x.p12", "x.pfx", "x.jks",
		"x.keystore", "x.kdbx"}
	keyName = regexp.MustCompile(`(?:^|/)(?:\.env(?:rc)?|\.env\.[^/]*|[._]netrc|\.pgpass|\.git-credentials|\.htpasswd|\.pypirc|\.vault-token|` +
		`id_(?:rsa|dsa|ecdsa|ed25519)[^/.]*|[^/]+\.(?:pem|key|p12|pfx|jks|keystore|kdbx)|etc/g?shadow-?|proc/[^/]+/environ|` +
		`\.aws/credentials|\.kube/config|\.docker/config\.json|\.config/gh/hosts\.yml|\.cargo/credentials(?:\.toml)?)$|` +
		`(?:^|/)(?:\.ssh|\.gnupg|\.config/gcloud|\.password-store)(?:/|$)`)
	publicName = regexp.MustCompile(`(?:^|/)(?:\.env\.(?:example|sample|template|dist|defaults|schema)|\.ssh/known_hosts|[^/]*\.pub)$`)
)

// mayMatch reports whether a pattern that only the shell understands may match a name.
func mayMatch(pattern, name string) bool {
	return strings.HasPrefix(name, pattern[:strings.IndexAny(pattern, "*?[\\")]) && strings.HasSuffix(name, pattern[strings.LastIndexAny(pattern, "*?]\\")+1:])
}

// isKeyFile reports whether a path, or what a pattern of the shell matches, is a key file by name.
func isKeyFile(p string) bool {
	p = strings.ToLower(p)
	if !strings.ContainsAny(p, ".*?[") && !strings.Contains(p, "id_") && !strings.Contains(p, "shadow") && !strings.Contains(p, "environ") {
		return false // most paths, and the expressions are slow
	}
	if keyName.MatchString(p) {
		return !publicName.MatchString(p)
	}
	if !strings.ContainsAny(p, "*?[") {
		return false
	}
	if last := path.Base(p); last != "*" && !strings.HasPrefix(last, "*.") || strings.HasPrefix(last, "*.") && keyName.MatchString("x"+last[1:]) {
		for _, name := range keyNames {
			if ok, err := path.Match(last, name); ok || err != nil && mayMatch(last, name) {
				return true
			}
		}
	}
	for part := range strings.SplitSeq(path.Dir(p), "/") {
		for _, name := range []string{".ssh", ".gnupg", ".aws"} {
			if ok, _ := path.Match(part, name); ok && strings.Trim(part, "*") != "" {
				return true
			}
		}
	}
	return false
}

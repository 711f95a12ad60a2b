package setup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/internal/atomicfile"
)

// Servers rewrites MCP servers in a client's settings, so that `attestd mcp` is between them.
type Servers struct {
	Program    string // the command
	Agent      string
	URL        string // of the service; "" for the one that the command finds by itself
	FailClosed bool
	Decided    bool // it forwards only calls that a decision allows
	// Accepts returns why `attestd mcp` would not start with these arguments and variables; nil
	// checks nothing.
	Accepts func(args []string, environment map[string]string) error
}

// passive are the members of an entry that concern the client alone, and stay.
var passive = []string{
	"alwaysAllow", "alwaysLoad", "autoApprove", "description", "disabled", "disabledTools", "enabledTools", "excludeTools", "includeTools", "timeout", "trust",
}

// carried are the members that become arguments and variables of `attestd mcp`.
var carried = []string{"type", "url", "serverUrl", "httpUrl", "headers", "oauth", "env"}

// Server is a change of one server's entry in settings. Was and Now are its bytes.
type Server struct {
	Settings string `json:"settings"` // the path of the file
	Name     string `json:"name"`
	Was      string `json:"was"`
	Now      string `json:"now"`
}

// Rewrite returns the settings with an entry that runs `attestd mcp` for each server that is used
// over HTTP. skipped has a sentence for each other one. Everything else stays as it is, byte for
// byte.
func (s Servers) Rewrite(settings []byte) (rewritten []byte, changes []Server, skipped []string, err error) {
	gemini := false
	if _, err := eachServer(settings, func(_ string, entry []byte) []byte {
		if o, err := parse(entry); err == nil && len(o.get("httpUrl", "")) > 0 {
			gemini = true // no other client has this member
		}
		return entry
	}); err != nil {
		return nil, nil, nil, err
	}
	rewritten, err = eachServer(settings, func(name string, entry []byte) []byte {
		now, why, bad := s.rewrite(name, entry, gemini)
		switch {
		case bad != nil:
			skipped = append(skipped, fmt.Sprintf("%s: %v", name, bad))
		case why != "":
			skipped = append(skipped, name+": "+why)
		default:
			changes = append(changes, Server{Name: name, Was: string(entry), Now: string(now)})
			return now
		}
		return entry
	})
	return rewritten, changes, skipped, err
}

// Restore returns the settings with the original entries, and the changes that it has not taken
// back because a user has changed or removed the entry since.
func Restore(settings []byte, changes []Server) (restored []byte, left []Server, err error) {
	left = slices.Clone(changes)
	restored, err = eachServer(settings, func(name string, entry []byte) []byte {
		at := slices.IndexFunc(left, func(c Server) bool { return c.Name == name && c.Now == string(entry) })
		if at < 0 {
			return entry
		}
		was := left[at].Was
		left = slices.Delete(left, at, at+1)
		return []byte(was)
	})
	return restored, left, err
}

// serverLists are the members of settings whose members are servers.
var serverLists = []string{"mcpServers", "servers"}

// eachServer replaces the entry of each server with what change returns.
func eachServer(settings []byte, change func(name string, entry []byte) []byte) ([]byte, error) {
	if _, err := parse(settings); err != nil {
		return nil, err
	}
	var out []byte
	copied := 0
	d := jsontext.NewDecoder(bytes.NewBuffer(settings))
	// The settings have been parsed: there are no duplicates, and no errors but those of depth.
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() == '"' {
		list, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		if !slices.Contains(serverLists, list.String()) || d.PeekKind() != '{' {
			if err := d.SkipValue(); err != nil {
				return nil, err
			}
			continue
		}
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
		for d.PeekKind() == '"' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			text := name.String()
			entry, err := d.ReadValue()
			if err != nil {
				return nil, err
			}
			end := int(d.InputOffset())
			out = append(out, settings[copied:end-len(entry)]...)
			out = append(out, change(text, bytes.Clone(entry))...)
			copied = end
		}
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
	}
	return append(out, settings[copied:]...), nil
}

// rewrite returns the entry that runs `attestd mcp`, or why there is none. In Gemini CLI's settings
// url is of the transport HTTP+SSE, where no type says otherwise.
func (s Servers) rewrite(name string, entry []byte, gemini bool) (now []byte, why string, err error) {
	o, err := parse(entry)
	if err != nil {
		return nil, "", err
	}
	if r, is := running(name, o); is {
		if s.Decided && !r.decided() {
			return nil, "it runs attestd mcp already, which forwards calls that nothing has decided: add --require policy to its args", nil
		}
		return nil, "it runs attestd mcp already", nil
	}
	var kind, address string
	for _, member := range []string{"url", "serverUrl", "httpUrl"} {
		if value := o.get(member, ""); len(value) > 0 {
			if address != "" {
				return nil, "it has two addresses", nil
			}
			if err := json.Unmarshal(value, &address); err != nil {
				return nil, "", fmt.Errorf("its %s is no text", member)
			}
			kind = map[string]string{"httpUrl": "http"}[member]
		}
	}
	if address == "" {
		return nil, "it is started by a command: put attestd mcp in front of that", nil
	}
	if value := o.get("type", ""); len(value) > 0 {
		_ = json.Unmarshal(value, &kind) // another value is refused below
	}
	for _, m := range o.members {
		if !slices.Contains(passive, m.name) && !slices.Contains(carried, m.name) {
			return nil, fmt.Sprintf("attestd mcp does not carry its member %.60q over: write its command yourself", m.name), nil
		}
	}
	at, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, "", errors.New("its address is malformed")
	case gemini && kind == "" && len(o.get("url", "")) > 0:
		return nil, "its url is of the transport HTTP+SSE in Gemini CLI, which is not supported: if the server speaks streamable HTTP, name it with httpUrl", nil
	case kind == "sse" || kind == "" && strings.HasSuffix(at.Path, "/sse"):
		return nil, "it uses the transport HTTP+SSE of 2024-11-05, which is not supported", nil
	case !slices.Contains([]string{"", "http", "streamable-http", "streamableHttp", "streamable_http"}, kind):
		return nil, fmt.Sprintf("its type %.40q is not known", kind), nil
	case at.RawQuery != "" || at.User != nil:
		return nil, "its address may hold a secret, which the list of processes would show", nil
	}
	args := []string{"mcp", "--agent", s.Agent, "--server", name}
	if s.URL != "" {
		args = append(args, "--url", s.URL)
	}
	if s.FailClosed {
		args = append(args, "--fail", "closed")
	}
	if s.Decided {
		args = append(args, "--require", "policy")
	}
	args = append(args, "--upstream", address)
	environment, err := parse(o.get("env", "{}"))
	if err != nil {
		return nil, "", errors.New("its env is not understood")
	}
	if err := addHeaders(o.get("headers", "{}"), &args, &environment); err != nil {
		return nil, "", err
	}
	if !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "Authorization=") }) {
		args = append(args, "--sign-in") // which the client did
		if why, err := addOAuthClient(o.get("oauth", "{}"), &args); why != "" || err != nil {
			return nil, why, err
		}
	}
	if why := s.refuses(args, environment); why != "" {
		return nil, why, nil
	}
	if len(o.get("type", "")) > 0 {
		o.set("type", marshal("stdio"))
	}
	for _, member := range []string{"url", "serverUrl", "httpUrl", "headers", "oauth"} {
		o.remove(member)
	}
	o.set("command", marshal(s.Program))
	o.set("args", marshal(args))
	if len(environment.members) > 0 {
		o.set("env", environment.bytes())
	}
	return o.bytes(), "", nil
}

// refuses says why `attestd mcp` would not start, or returns "".
func (s Servers) refuses(args []string, environment object) string {
	if s.Accepts == nil {
		return ""
	}
	variables := map[string]string{}
	for _, m := range environment.members {
		var value string
		if err := json.Unmarshal(m.value, &value); err != nil {
			return fmt.Sprintf("its variable %.60q is no text", m.name)
		}
		variables[m.name] = value
	}
	if err := s.Accepts(args, variables); err != nil {
		return "attestd mcp would not start: " + err.Error()
	}
	return ""
}

// Running is an entry that runs `attestd mcp`.
type Running struct {
	Name    string
	Command string
	Args    []string
	Env     map[string]string
}

// decided reports whether it forwards only calls that a decision allows.
func (r Running) decided() bool {
	for i, arg := range r.Args {
		switch {
		case arg == "--": // what follows are arguments of the server
			return false
		case arg == "--require=policy", arg == "--require" && slices.Equal(r.Args[i+1:min(i+2, len(r.Args))], []string{"policy"}):
			return true
		}
	}
	return false
}

// Runs returns the entries of settings that run `attestd mcp`.
func Runs(settings []byte) (list []Running, err error) {
	_, err = eachServer(settings, func(name string, entry []byte) []byte {
		if o, err := parse(entry); err == nil {
			if r, is := running(name, o); is {
				list = append(list, r)
			}
		}
		return entry
	})
	return list, err
}

func running(name string, o object) (r Running, is bool) {
	r.Name = name
	if json.Unmarshal(o.get("command", `""`), &r.Command) != nil || json.Unmarshal(o.get("args", "[]"), &r.Args) != nil ||
		json.Unmarshal(o.get("env", "{}"), &r.Env) != nil || len(r.Args) == 0 || r.Args[0] != "mcp" {
		return r, false
	}
	program := r.Command[strings.LastIndexAny(r.Command, `/\`)+1:]
	return r, strings.HasPrefix(program, "attestd")
}

// Probe starts `attestd mcp` as the client does, and sends it a call that it refuses and records:
// one with a duplicate member, which reaches no server. It returns when the process has ended.
func (r Running) Probe(ctx context.Context, call string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.Command, r.Args...)
	cmd.Env = os.Environ()
	for name, value := range r.Env {
		cmd.Env = append(cmd.Env, name+"="+os.ExpandEnv(value)) // as clients do
	}
	var stderr bytes.Buffer
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%[2]q,"name":%[2]q}}`+"\n", call, checkTool))
	cmd.Stderr, cmd.WaitDelay = &stderr, time.Second
	answer, err := cmd.Output()
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w: %.500s", r.Name, err, strings.TrimSpace(stderr.String()))
	case !bytes.Contains(answer, []byte("attestd refused this call")):
		return fmt.Errorf("%s: not the answer of attestd mcp: %.200q %.500s", r.Name, answer, strings.TrimSpace(stderr.String()))
	}
	return nil
}

const probeTime = 30 * time.Second

// addHeaders has headers come from the environment, because the list of processes shows arguments.
func addHeaders(headers []byte, args *[]string, environment *object) error {
	list, err := parse(headers)
	if err != nil {
		return errors.New("its headers are not understood")
	}
	for i, h := range list.members {
		var value string
		if err := json.Unmarshal(h.value, &value); err != nil {
			return errors.New("its headers are not understood")
		}
		variable := fmt.Sprintf("ATTESTD_HEADER_%d", i+1)
		*args = append(*args, "--header-env", http.CanonicalHeaderKey(h.name)+"="+variable)
		environment.set(variable, marshal(value))
	}
	return nil
}

// addOAuthClient names the OAuth client of an entry, in the forms of Claude Code and of Gemini CLI.
func addOAuthClient(entry []byte, args *[]string) (why string, err error) {
	var client struct {
		ClientID     string `json:"clientId"`
		ClientSecret string `json:"clientSecret"`
		CallbackPort int    `json:"callbackPort"`
		RedirectURI  string `json:"redirectUri"`
	}
	o, bad := parse(entry)
	if err := errors.Join(bad, json.Unmarshal(entry, &client)); err != nil {
		return "", errors.New("its oauth is not understood")
	}
	for _, m := range o.members {
		if !slices.Contains([]string{"enabled", "clientId", "clientSecret", "callbackPort", "redirectUri"}, m.name) {
			return fmt.Sprintf("attestd mcp does not carry the member %.60q of its oauth over: write its command yourself", m.name), nil
		}
	}
	switch {
	case client.ClientSecret != "":
		return "its OAuth client has a secret, which the list of processes would show: write its command with --client-secret-file", nil
	case client.ClientID == "":
		return "", nil
	}
	*args = append(*args, "--client-id", client.ClientID)
	if client.CallbackPort != 0 {
		client.RedirectURI = fmt.Sprintf("http://localhost:%d/callback", client.CallbackPort)
	}
	if client.RedirectURI != "" {
		*args = append(*args, "--redirect-url", client.RedirectURI)
	}
	return "", nil
}

// ReadServers reads the changes that WriteServers has stored. A missing file has none.
func ReadServers(text string) (changes []Server, err error) {
	if text == "" {
		return nil, nil
	}
	return changes, json.Unmarshal([]byte(text), &changes)
}

// WriteServers stores changes, with which Restore takes them back, in a private file. Without
// changes there is no file.
func WriteServers(path string, changes []Server) error {
	if len(changes) == 0 {
		if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.MarshalIndent(changes, "", " ")
	if err != nil {
		return err
	}
	return WritePrivate(path, string(text)+"\n")
}

// WriteSettings replaces a settings file, through a link and with its mode.
func WriteSettings(file string, text []byte) error {
	path, mode := followed(file)
	return atomicfile.Replace(path, text, mode)
}

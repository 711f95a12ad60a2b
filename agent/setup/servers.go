package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/internal/wholefile"
)

// Servers rewrites MCP servers in a client's settings, so that `attestd mcp` stands between.
type Servers struct {
	Program    string // the command
	Agent      string
	FailClosed bool
}

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
	rewritten, err = eachServer(settings, func(name string, entry []byte) []byte {
		now, why, bad := s.rewrite(name, entry)
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

// Restore returns the settings with the entries of before, and the changes that it has not taken
// back because somebody has changed or removed the entry since.
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

// rewrite returns the entry that runs `attestd mcp`, or why there is none.
func (s Servers) rewrite(name string, entry []byte) (now []byte, why string, err error) {
	o, err := parse(entry)
	if err != nil {
		return nil, "", err
	}
	var kind, address string
	for _, member := range []string{"url", "serverUrl", "httpUrl"} {
		if value := o.get(member, ""); len(value) > 0 {
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
	at, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, "", errors.New("its address is malformed")
	case kind == "sse" || kind == "" && strings.HasSuffix(at.Path, "/sse"):
		return nil, "it uses the transport HTTP+SSE of 2024-11-05, which is not supported", nil
	case !slices.Contains([]string{"", "http", "streamable-http", "streamableHttp", "streamable_http"}, kind):
		return nil, fmt.Sprintf("its type %.40q is not known", kind), nil
	case at.RawQuery != "" || at.User != nil:
		return nil, "its address may hold a secret, which the list of processes would show", nil
	}
	args := []string{"mcp", "--agent", s.Agent, "--server", name}
	if s.FailClosed {
		args = append(args, "--fail", "closed")
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
	if err := json.Unmarshal(entry, &client); err != nil {
		return "", errors.New("its oauth is not understood")
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
	return wholefile.Replace(path, text, mode)
}

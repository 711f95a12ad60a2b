package mcpproxy

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// signInServer is an upstream at /mcp that asks for a sign-in, and its authorization server. It
// answers with the documents, in which URL is replaced with its own address.
type signInServer struct {
	*httptest.Server
	documents map[string]string // by path
	challenge string            // WWW-Authenticate
	token     string            // what the token endpoint answers

	mu     sync.Mutex
	asked  []string // paths
	opened []string // in the browser
	stored string
}

func newSignInServer(t *testing.T, documents map[string]string) *signInServer {
	t.Helper()
	s := &signInServer{documents: documents, challenge: "Bearer", token: `{"access_token":"hush","token_type":"Bearer","expires_in":3600}`}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *signInServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.Path)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	document, is := s.documents[r.URL.Path]
	switch {
	case is:
		_, _ = io.WriteString(w, strings.ReplaceAll(document, "URL", s.URL))
	case strings.HasSuffix(r.URL.Path, "/authorize"):
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?code=c&state="+q.Get("state"), http.StatusFound)
	case strings.HasSuffix(r.URL.Path, "/token"):
		_, _ = io.WriteString(w, s.token)
	case strings.HasSuffix(r.URL.Path, "/register"):
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"client_id":"made"}`)
	default:
		http.NotFound(w, r)
	}
}

// signIn has the user of an upstream sign in after a challenge.
func (s *signInServer) signIn(t *testing.T, upstream string) (*SignIn, error) {
	t.Helper()
	sign := NewSignIn(func() (string, error) { return s.stored, nil }, func(text string) error {
		s.stored = text
		return nil
	}, func(address string) {
		s.mu.Lock()
		s.opened = append(s.opened, address)
		s.mu.Unlock()
		go func() {
			if resp, err := http.Get(address); err == nil {
				resp.Body.Close()
			}
		}()
	})
	request := httptest.NewRequest(http.MethodPost, upstream, nil)
	return sign, sign.authorize(t.Context(), &http.Response{StatusCode: http.StatusUnauthorized, Body: http.NoBody, Request: request,
		Header: http.Header{"Www-Authenticate": {strings.ReplaceAll(s.challenge, "URL", s.URL)}}})
}

// metadataOf is the metadata of an issuer, and of its endpoints.
func metadataOf(issuer, authorize string) string {
	return `{"issuer":"` + issuer + `","authorization_endpoint":"` + authorize + `","token_endpoint":"URL/token","registration_endpoint":"URL/register",` +
		`"code_challenge_methods_supported":["plain","S256"],"jwks_uri":7}`
}

const resourcePath, serverPath = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"

// Authorization servers and resources that are named with a slash or without, and resources that
// are named by their origin, are found where RFC 8414 and RFC 9728 say.
func TestSignInFindsAuthorizationServers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ resource, named, issuer, path string }{
		{"URL/mcp", "URL", "URL", serverPath},
		{"URL/mcp", "URL/", "URL", serverPath},
		{"URL/mcp", "URL", "URL/", serverPath},
		{"URL/mcp", "URL/", "URL/", serverPath},
		{"URL/mcp/", "URL/tenant", "URL/tenant", serverPath + "/tenant"},
		{"URL", "URL/tenant/", "URL/tenant/", serverPath + "/tenant"},
		{"URL/", "URL/tenant/", "URL/tenant", serverPath + "/tenant"},
		{"URL/mcp", "URL/tenant/", "URL/tenant/", "/.well-known/openid-configuration/tenant"},
		{"URL/mcp", "URL/tenant/", "URL/tenant/", "/tenant/.well-known/openid-configuration"},
	} {
		s := newSignInServer(t, map[string]string{
			resourcePath: `{"resource":"` + c.resource + `","authorization_servers":["` + c.named + `"]}`, c.path: metadataOf(c.issuer, "URL/authorize?x=1"),
		})
		sign, err := s.signIn(t, s.URL+"/mcp")
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if token, err := sign.token(); token != "hush" || err != nil {
			t.Errorf("%+v: %q, %v", c, token, err)
		}
		u, err := url.Parse(s.opened[0])
		if want := strings.ReplaceAll(c.resource, "URL", s.URL); err != nil || u.Query().Get("resource") != want || u.Query().Get("x") != "1" {
			t.Errorf("%+v: the browser was sent to %s", c, u)
		}
	}
}

// What is not the upstream's, or not its authorization server's, is not used, and endpoints of a
// server that was named are not guessed. Only where nothing is named are they those of 2025-03-26.
func TestSignInGuessesNoEndpoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		documents map[string]string
		challenge string
		want      string // of the error; "" for success
	}{
		"nothing named":      {documents: nil},
		"origin's metadata":  {documents: map[string]string{serverPath: metadataOf("URL", "URL/authorize")}},
		"named, no metadata": {documents: map[string]string{resourcePath: `{"resource":"URL/mcp","authorization_servers":["URL/as"]}`}, want: "has no metadata"},
		"named by challenge": {challenge: `Bearer resource_metadata="URL/none"`, want: "does not name its authorization server"},
		"another resource": {documents: map[string]string{resourcePath: `{"resource":"URL/other","authorization_servers":["URL"]}`}, challenge: `Bearer resource_metadata="URL` + resourcePath + `"`,
			want: "which is not the upstream"},
		"another host": {documents: map[string]string{resourcePath: `{"resource":"https://other.example/mcp","authorization_servers":["URL"]}`}, want: "has no metadata"},
		"another issuer": {documents: map[string]string{resourcePath: `{"resource":"URL/mcp","authorization_servers":["URL"]}`, serverPath: metadataOf("URL//", "URL/authorize")},
			want: "the metadata of the authorization server"},
		"a page":  {documents: map[string]string{serverPath: "<html>Sign in</html>"}, want: "is not the expected JSON document"},
		"no PKCE": {documents: map[string]string{serverPath: strings.Replace(metadataOf("URL", "URL/authorize"), "S256", "S1", 1)}, want: "PKCE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSignInServer(t, c.documents)
			if c.challenge != "" {
				s.challenge = c.challenge
			}
			_, err := s.signIn(t, s.URL+"/mcp")
			if c.want == "" {
				if err != nil || len(s.opened) != 1 {
					t.Errorf("%v, opened %q", err, s.opened)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if len(s.opened) > 0 || slices.ContainsFunc(s.asked, func(path string) bool { return !strings.Contains(path, ".well-known") && path != "/none" }) {
				t.Errorf("opened %q, asked %q", s.opened, s.asked)
			}
		})
	}
}

// Nothing but https, and http on this machine, is opened in a browser, whatever the upstream and
// its authorization server name: other schemes start other programs.
func TestSignInOpensNoOtherScheme(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"ssh://URL/authorize", "file:///etc/passwd", "vscode://file/x", "ms-msdt:/id", "ms-msdt://URL/x", "javascript:alert(1)", "data:text/html,x", "JavaScript:alert(1)",
		"http://192.0.2.1/authorize", "//as.example.com/authorize", "/authorize", "-flag", "https://user@as.example.com/", "https://as.example.com/#x", "https:as.example.com", " https://as.example.com", "",
	} {
		s := newSignInServer(t, map[string]string{
			resourcePath: `{"resource":"URL/mcp","authorization_servers":["URL"]}`, serverPath: metadataOf("URL", address),
		})
		if _, err := s.signIn(t, s.URL+"/mcp"); err == nil || len(s.opened) > 0 || len(s.stored) > 0 {
			t.Errorf("%s: %v, opened %q", address, err, s.opened)
		}
		named := newSignInServer(t, map[string]string{resourcePath: `{"resource":"URL/mcp","authorization_servers":["` + address + `"]}`})
		if _, err := named.signIn(t, named.URL+"/mcp"); err == nil || len(named.opened) > 0 {
			t.Errorf("%s as an issuer: %v, opened %q", address, err, named.opened)
		}
	}
}

// An upstream on another machine names no authorization server on this one or in a private network,
// unless the user has named that too. One on this machine does.
func TestSignInStaysOutside(t *testing.T) {
	t.Parallel()
	inner := []string{
		"https://127.0.0.1/as", "http://127.0.0.1:8080/as", "https://localhost/as", "https://LOCALHOST./as", "https://a.localhost/as", "https://[::1]/as", "https://10.0.0.5/as",
		"https://192.168.1.1/as", "https://169.254.169.254/as", "https://[fd00::1]/as", "https://[::ffff:127.0.0.1]/as", "https://0.0.0.0/as", "https://100.64.0.1/as",
		"https://127.1/as", "https://2130706433/as", "https://0x7f000001/as", "https://a.0x1/as",
	}
	upstream := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	elsewhere, here := newDiscovery(upstream("https://mcp.example.com/mcp"), "https://10.0.0.5/as"), newDiscovery(upstream("http://127.0.0.1:1/mcp"), "")
	for _, address := range inner {
		if err := elsewhere.check(address); (err == nil) != (address == "https://10.0.0.5/as") {
			t.Errorf("%s: %v", address, err)
		}
		if err := here.check(address); err != nil {
			t.Errorf("%s, from this machine: %v", address, err)
		}
	}
	for _, address := range []string{"https://as.example.com/", "https://mcp.example.com/as", "https://8.8.8.8/as", "https://xn--bcher-kva.example/as"} {
		if err := elsewhere.check(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	// it connects to nothing here, also by a name that leads here, and opens nothing
	s := newSignInServer(t, map[string]string{"/metadata": `{"resource":"https://mcp.example.com/mcp","authorization_servers":["URL"]}`})
	s.challenge = `Bearer resource_metadata="URL/metadata"`
	if _, err := s.signIn(t, "https://mcp.invalid/mcp"); err == nil || len(s.asked) > 0 || len(s.opened) > 0 {
		t.Errorf("%v, asked %q, opened %q", err, s.asked, s.opened)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := net.LookupHost(name); err != nil {
		return // this machine does not know its name
	}
	if _, err := newDiscovery(upstream("https://mcp.example.com/mcp"), "").client.Get("https://" + name + ":1/"); err == nil || !strings.Contains(err.Error(), "prohibited") {
		t.Errorf("%s: %v", name, err)
	}
}

// A token that is bound to a key is refused, at the sign-in and when one is renewed, because the
// proxy proves no key. A lifetime with a fraction is one of whole seconds.
func TestSignInReadsTokens(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]struct {
		life time.Duration
		err  string
	}{
		`{"access_token":"hush","token_type":"Bearer","expires_in":3599.5}`:   {life: 3599 * time.Second},
		`{"access_token":"hush","token_type":"bearer","expires_in":"3599.9"}`: {life: 3599 * time.Second},
		`{"access_token":"hush","token_type":"Bearer","expires_in":3.6e3}`:    {life: 3600 * time.Second},
		`{"access_token":"hush","token_type":"Bearer","expires_in":0.4}`:      {life: time.Second},
		`{"access_token":"hush","token_type":"Bearer","expires_in":null}`:     {},
		`{"access_token":"hush","expires_in":60}`:                             {life: time.Minute},
		`{"access_token":"hush","token_type":"DPoP","expires_in":3600}`:       {err: `a token of the type "DPoP"`},
		`{"access_token":"hush","token_type":"N_A"}`:                          {err: `a token of the type "N_A"`},
		`{"token_type":"Bearer"}`:                                             {err: "missing access_token"},
		`<html>`:                                                              {err: "oauth2: cannot parse"},
	} {
		s := newSignInServer(t, map[string]string{serverPath: metadataOf("URL", "URL/authorize")})
		s.token = answer
		began := time.Now()
		_, err := s.signIn(t, s.URL+"/mcp")
		if want.err != "" {
			if err == nil || !strings.Contains(err.Error(), want.err) || strings.Contains(err.Error(), "hush") || s.stored != "" {
				t.Errorf("%s: %v, stored %s", answer, err, s.stored)
			}
			continue
		}
		var g grant
		if err != nil || json.Unmarshal([]byte(s.stored), &g) != nil || g.Token.AccessToken != "hush" {
			t.Errorf("%s: %v, stored %s", answer, err, s.stored)
			continue
		}
		if got := g.Token.Expiry.Sub(began); want.life == 0 != g.Token.Expiry.IsZero() || want.life > 0 && (got < want.life || got > want.life+time.Minute) {
			t.Errorf("%s ends at %v", answer, g.Token.Expiry)
		}
	}
	s := newSignInServer(t, nil)
	s.token = `{"access_token":"new","token_type":"DPoP","expires_in":3600}`
	at, err := url.Parse(s.URL + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	stored := `{"clientId":"c","tokenUrl":"` + s.URL + `/token","authStyle":1,"token":{"access_token":"old","refresh_token":"r","expiry":"2020-01-01T00:00:00Z"}}`
	sign := NewSignIn(func() (string, error) { return stored, nil }, nil, nil)
	if err := (&Remote{URL: at}).SetSignIn(sign); err != nil {
		t.Fatal(err)
	}
	if token, err := sign.token(); token != "" || err != nil || !slices.Contains(s.asked, "/token") {
		t.Errorf("%q, %v, asked %q", token, err, s.asked)
	}
}

// FuzzTokenAnswer reads what a token endpoint answers. What is passed to the library has no type
// but Bearer, and a lifetime that the library reads.
func FuzzTokenAnswer(f *testing.F) {
	for _, text := range []string{`{"token_type":"Bearer","expires_in":1.5}`, `{"expires_in":"-1e99"}`, `{"expires_in":1e999}`, `{"token_type":"dpop"}`, `[]`, `token_type=DPoP&expires_in=1`} {
		f.Add([]byte(text), "application/json")
		f.Add([]byte(text), "application/x-www-form-urlencoded")
	}
	f.Fuzz(func(t *testing.T, text []byte, kind string) {
		got, err := readTokenAnswer(text, kind)
		var read struct {
			TokenType string       `json:"token_type"`
			ExpiresIn *json.Number `json:"expires_in"`
		}
		if err != nil || kind != "application/json" || json.Unmarshal(got, &read) != nil {
			return
		}
		if read.TokenType != "" && !strings.EqualFold(read.TokenType, "Bearer") {
			t.Errorf("%q has the type %q", text, read.TokenType)
		}
		if read.ExpiresIn != nil && *read.ExpiresIn != "" {
			if n, err := read.ExpiresIn.Int64(); err != nil || n < 1 || n > 1<<31-1 {
				t.Errorf("%q lives for %s", text, *read.ExpiresIn)
			}
		}
	})
}

// A code, and with it a secret, is sent to no authorization server over http, unless it is on this
// machine.
func TestAuthorizationServersAreEncrypted(t *testing.T) {
	t.Parallel()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/.well-known/oauth-protected-resource/mcp":
			_, _ = io.WriteString(w, `{"resource":"`+server.URL+`/mcp","authorization_servers":["`+server.URL+`"]}`)
		case "/.well-known/oauth-authorization-server":
			_, _ = io.WriteString(w, `{"issuer":"`+server.URL+`","authorization_endpoint":"`+server.URL+`/authorize","token_endpoint":"http://192.0.2.1/token","code_challenge_methods_supported":["S256"]}`)
		case "/authorize":
			q := r.URL.Query()
			http.Redirect(w, r, q.Get("redirect_uri")+"?code=hush&state="+q.Get("state"), http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	s := NewSignIn(func() (string, error) { return "", nil }, func(string) error { return nil }, func(address string) {
		go func() {
			if resp, err := http.Get(address); err == nil {
				resp.Body.Close()
			}
		}()
	})
	s.OAuth = OAuthClient{ID: "client", Secret: "hush", Issuer: server.URL}
	request := httptest.NewRequest(http.MethodPost, server.URL+"/mcp", nil)
	err := s.authorize(t.Context(), &http.Response{StatusCode: http.StatusUnauthorized, Header: make(http.Header),
		Request: request, Body: http.NoBody})
	if err == nil || !strings.Contains(err.Error(), "does not use HTTPS") || strings.Contains(err.Error(), "hush") {
		t.Error(err)
	}
}

// A stored grant counts for the client and issuer alone to which it was given.
func TestGrantsOfOtherClientsAreIgnored(t *testing.T) {
	t.Parallel()
	const stored = `{"clientId":"a","issuer":"https://as.example","tokenUrl":"https://as.example/token","token":{"access_token":"t","expiry":"2999-01-01T00:00:00Z"}}`
	for _, c := range []struct {
		client OAuthClient
		want   string
	}{
		{OAuthClient{ID: "a", Issuer: "https://as.example"}, "t"},
		{OAuthClient{ID: "b", Issuer: "https://as.example"}, ""},
		{OAuthClient{ID: "a", Issuer: "https://other.example", Secret: "hush"}, ""},
		{OAuthClient{ID: "a"}, ""},
		{OAuthClient{}, ""},
	} {
		s := NewSignIn(func() (string, error) { return stored, nil }, nil, nil)
		s.OAuth = c.client
		if got, err := s.token(); got != c.want || err != nil {
			t.Errorf("%+v: %q, %v", c.client, got, err)
		}
	}
}

func TestParseRedirect(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"http://127.0.0.1:8765/callback": true, "http://localhost/callback": true, "http://[::1]:1/": true, "http://localhost": true,
		"https://localhost/x": false, "http://example.com/x": false, "http://localhost/x?y": false, "http://a@localhost/x": false, "localhost:1": false, "": false,
	} {
		if _, err := ParseRedirect(text); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

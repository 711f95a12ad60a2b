package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attestd/agent/localhttp"
	"attestd/agent/mcpproxy"
	"attestd/agent/setup"
	"attestd/cmd/cli"
)

// remoteFlags are the flags of `attestd mcp` for a server that is reached over HTTP.
type remoteFlags struct {
	upstream, listen  string
	allowHTTP         bool
	passAuthorization bool
	bearerEnv         string
	headerEnv         []string
	signIn            bool
	client            oauthClientFlags
}

const remoteHelp = `With --upstream URL in place of a command, the server is one that is reached over streamable HTTP,
in the revisions 2025-03-26 to 2026-07-28. The client still uses standard input and output.
With --listen too, the proxy serves the server's path on a loopback address, for any number of
clients that use HTTP. It refuses web pages of other origins, follows no redirect, and forwards neither
cookies nor, without --pass-authorization, the clients' Authorization. A signal ends it, and
with it the requests in progress. The transport HTTP+SSE of 2024-11-05 is not supported.

A credential for the upstream comes from the environment, because everybody sees a command line:
--bearer-env NAME sends the value of the variable NAME as a bearer token, and --header-env
X-Api-Key=NAME sends it in another header. With --sign-in, an upstream that asks for OAuth opens the
user's browser; the tokens are stored in attestd/tokens of the user's configuration folder. Where the
authorization server registers no clients by itself, register one there and name it with --client-id:
its ID, or the URL of a client ID metadata document. Its secret, if it has one, comes from
--client-secret-file and goes to the authorization server of --issuer alone.`

func (f *remoteFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.upstream, "upstream", "",
		"`URL` of an MCP server that is reached over streamable HTTP, in place of a command")
	cmd.Flags().StringVar(&f.listen, "listen", "", "serve the upstream's path on this loopback `address`, such as 127.0.0.1:8090, instead of standard input and output")
	cmd.Flags().BoolVar(&f.allowHTTP, "allow-http", false, "allow an http:// upstream on another machine")
	cmd.Flags().BoolVar(&f.passAuthorization, "pass-authorization", false, "forward the clients' Authorization header to the upstream")
	cmd.Flags().StringVar(&f.bearerEnv, "bearer-env", "", "`variable` with a bearer token for the upstream")
	cmd.Flags().StringArrayVar(&f.headerEnv, "header-env", nil, "`Header=variable`: a header for the upstream and the variable with its value; may be repeated")
	cmd.Flags().BoolVar(&f.signIn, "sign-in", false, "when the upstream asks for OAuth, sign in with the user's browser")
	f.client.add(cmd)
	// ATTESTD_LISTEN is the address of attestd serve, and each command names its server.
	for _, name := range []string{"upstream", "listen", "allow-http", "pass-authorization", "bearer-env", "header-env", "sign-in", "client-id", "client-secret-file", "issuer", "redirect-url"} {
		_ = cmd.Flags().SetAnnotation(name, cli.TypedOnly, []string{"true"}) // the flag is there
	}
}

// check returns usage errors.
func (f *remoteFlags) check(args []string) error {
	switch {
	case f.upstream != "" && len(args) > 0:
		return cli.Usagef("name one server: a command, or --upstream")
	case f.upstream == "" && (f.listen != "" || f.allowHTTP || f.passAuthorization || f.bearerEnv != "" || len(f.headerEnv) > 0 || f.signIn):
		return cli.Usagef("--listen, --allow-http, --pass-authorization, --bearer-env, --header-env and --sign-in need --upstream")
	case f.signIn && (f.passAuthorization || f.bearerEnv != ""):
		return cli.Usagef("--sign-in, --bearer-env and --pass-authorization exclude each other")
	case f.client != (oauthClientFlags{}) && !f.signIn:
		return cli.Usagef("--client-id, --client-secret-file, --issuer and --redirect-url need --sign-in")
	case f.listen == "":
		return nil
	}
	return checkLoopback(f.listen, "other machines could call tools")
}

// checkLoopback refuses an address that other machines reach.
func checkLoopback(listen, why string) error {
	if err := cli.CheckListen("listen", listen); err != nil {
		return err
	}
	if host, _, _ := net.SplitHostPort(listen); !localhttp.IsLoopback(host) {
		return cli.Usagef("--listen must be a loopback address, because %s; got %q", why, listen)
	}
	return nil
}

// remote returns the server that --upstream names, or nil. Its credentials are the values of
// variables, which lookup returns.
func (f *remoteFlags) remote(lookup func(variable string) string) (*mcpproxy.Remote, error) {
	if f.upstream == "" {
		return nil, nil
	}
	r, err := mcpproxy.NewRemote(f.upstream, f.allowHTTP)
	if err != nil {
		return nil, cli.Usagef("--upstream %v", err)
	}
	r.Trust(cli.TrustedRoots())
	r.PassAuthorization = f.passAuthorization
	if f.bearerEnv != "" {
		if err := addFromEnvironment(r, "Authorization", f.bearerEnv, "Bearer ", lookup); err != nil {
			return nil, cli.Usagef("--bearer-env: %v", err)
		}
	}
	for _, pair := range f.headerEnv {
		name, variable, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, cli.Usagef("--header-env must be Header=variable, such as X-Api-Key=EXAMPLE_KEY")
		}
		if err := addFromEnvironment(r, name, variable, "", lookup); err != nil {
			return nil, cli.Usagef("--header-env: %v", err)
		}
	}
	if f.signIn {
		s, err := signInOf(r.URL)
		if err != nil {
			return nil, err
		}
		if s.OAuth, err = f.client.client(); err != nil {
			return nil, err
		}
		if err := r.SetSignIn(s); err != nil {
			return nil, cli.Usagef("--sign-in: %v", err)
		}
	}
	return r, nil
}

// addFromEnvironment has each request carry a header with the value of a variable.
func addFromEnvironment(r *mcpproxy.Remote, name, variable, before string, lookup func(string) string) error {
	value := strings.TrimSpace(lookup(variable))
	if value == "" {
		return fmt.Errorf("the variable %.100q is not set", variable)
	}
	return r.AddHeader(name, before+value)
}

// stopTime is what clients have after a signal to send and read what is on its way.
const stopTime = 2 * time.Second

// listenAndServe runs a proxy that listens until a signal arrives.
func (f *remoteFlags) listenAndServe(cmd *cobra.Command, config mcpproxy.Config, remote *mcpproxy.Remote, open func(string) (mcpproxy.Recorder, error)) error {
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	gateway := mcpproxy.NewGateway(mcpproxy.GatewayConfig{Config: config, Remote: remote, Port: port, Open: open})
	server := &http.Server{
		Handler: gateway.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	cli.PrintError("attestd mcp serves %s on http://%s%s\n", config.Server, listener.Addr(), remote.URL.EscapedPath())
	return serveUntilStopped(cmd.Context(), server, listener, func() error {
		// A connection on which a request is still read or a response still written is closed.
		hurry := time.AfterFunc(stopTime, func() { _ = server.Close() })
		defer hurry.Stop()
		err := gateway.Close()
		return errors.Join(err, server.Close())
	})
}

// signInOf returns a sign-in for an MCP server, whose tokens are stored in a file of its own.
func signInOf(server *url.URL) (*mcpproxy.SignIn, error) {
	tokens, err := cli.ConfigFile("tokens")
	if err != nil {
		return nil, errors.New("no configuration folder for --sign-in: set HOME")
	}
	sum := sha256.Sum256([]byte(server.String()))
	path := filepath.Join(tokens, strings.ReplaceAll(server.Hostname(), ":", "_")+"-"+hex.EncodeToString(sum[:8])+".json")
	load := func() (string, error) {
		text, err := cli.ReadPrivate(path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return text, err
	}
	save := func(text string) error { return setup.WritePrivate(path, text) }
	return mcpproxy.NewSignIn(load, save, func(address string) {
		cli.PrintError("attestd: sign in to %s with your browser: %s\n", server.Host, address)
		_ = browse(address) // a user without a browser here opens the address elsewhere
	}), nil
}

// browse opens the user's browser.
func browse(address string) error {
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	cmd := exec.Command(name, args...)
	cmd.Env = withoutCredential(cmd.Environ())
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// oauthClientFlags name a client that is registered with the authorization server of an upstream.
type oauthClientFlags struct {
	id, secretFile, issuer, redirect string
}

func (f *oauthClientFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.id, "client-id", "", "with --sign-in: `ID` of an OAuth client that is registered with the authorization server, or the URL of a client ID metadata document")
	cmd.Flags().StringVar(&f.secretFile, "client-secret-file", "", "`file` with the secret of that client, private to the user; needs --issuer")
	cmd.Flags().StringVar(&f.issuer, "issuer", "", "`URL` of the only authorization server to sign in at as that client")
	cmd.Flags().StringVar(&f.redirect, "redirect-url", "", "redirect `URL` that is registered for that client, without a port for each port (default http://127.0.0.1/callback)")
}

// client returns the client; the zero value for none.
func (f *oauthClientFlags) client() (c mcpproxy.OAuthClient, err error) {
	switch {
	case *f == oauthClientFlags{}:
		return c, nil
	case f.id == "":
		return c, cli.Usagef("--client-secret-file, --issuer and --redirect-url need --client-id")
	case f.secretFile != "" && f.issuer == "":
		return c, cli.Usagef("--client-secret-file needs --issuer, because the upstream names its authorization server: without it the secret could go to any")
	}
	c.ID = f.id
	if f.issuer != "" {
		c.Issuer = strings.TrimSuffix(f.issuer, "/")
		if err := checkIssuer(c.Issuer); err != nil {
			return c, err
		}
	}
	if f.redirect != "" {
		if c.Redirect, err = mcpproxy.ParseRedirect(f.redirect); err != nil {
			return c, cli.Usagef("--redirect-url %v", err)
		}
	}
	if f.secretFile == "" {
		return c, nil
	}
	text, err := cli.ReadPrivate(f.secretFile)
	if err != nil {
		return c, fmt.Errorf("--client-secret-file: %w", err)
	}
	if c.Secret = strings.TrimSpace(text); c.Secret == "" {
		return c, fmt.Errorf("--client-secret-file: %s is empty", f.secretFile)
	}
	return c, nil
}

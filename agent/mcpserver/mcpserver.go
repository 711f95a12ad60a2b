// Package mcpserver offers attestd's operations as tools of an MCP server over stdio or HTTP. It
// has no rights of its own: a tool has the rights of the credential with which it is called, and as
// a [Resource] those of the access token alone.
package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attestd/agent/localhttp"
	"attestd/sdk/attestd"
)

// Config configures the tools.
type Config struct {
	Version string // of attestd
	// the agent of the records; "" lets each call name one
	Agent  string
	Pinned string // fingerprint of a company key from another source, or ""
	// Trusted returns, without Pinned, the fingerprint of the key that is trusted for a company, ""
	// for none.
	Trusted func(company string) (string, error)
}

// Factory creates servers.
type Factory struct {
	Config
	schemas *mcp.SchemaCache
}

// New returns a Factory.
func New(c Config) *Factory { return &Factory{c, mcp.NewSchemaCache()} }

// instructions tell a model how to use the server.
const instructions = `attestd keeps a signed, append-only chain of what agents did. Use attest for actions that should be provable later. What was attested cannot be taken back.`

// Server creates a server whose tools use one client, and so one credential.
func (f *Factory) Server(c *attestd.Client) *mcp.Server { return f.server(c, rights{}) }

func (f *Factory) server(c *attestd.Client, r rights) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "attestd", Title: "attestd", Version: f.Version}, &mcp.ServerOptions{
		Instructions: instructions, SchemaCache: f.schemas, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	t := tools{f.Config, c, r}
	no := false
	offer(s, r, &mcp.Tool{
		Name:        "attest",
		Description: "Append a record of an action to the company's chain and return it. Nothing in it may be secret, and it cannot be taken back. Needs a writer's credential.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no},
	}, t.attest)
	read := func() *mcp.ToolAnnotations { return &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no} }
	offer(s, r, &mcp.Tool{
		Name: "verify", Description: "Have the whole chain of the company verified: every hash and every signature.", Annotations: read(),
	}, t.verify)
	offer(s, r, &mcp.Tool{
		Name:        "prove",
		Description: "Return a record with the proof that it is in the chain. Its hash, its signature and the way to the root are checked before it is returned.",
		Annotations: read(),
	}, t.prove)
	offer(s, r, &mcp.Tool{
		Name:        "check_passport",
		Description: "Check the passport that another agent has shown, its revocation included, and whether it covers a tool. Needs a writer's credential.",
		Annotations: read(),
	}, t.checkPassport)
	offer(s, r, &mcp.Tool{
		Name: "search_records", Description: "Find records of one agent, the newest first.", Annotations: read(),
	}, t.searchRecords)
	return s
}

// offer adds a tool, for which rights are needed. Its result is returned as JSON, and its error as
// an error result, which the model reads.
func offer[In any](s *mcp.Server, r rights, t *mcp.Tool, call func(context.Context, In) (any, error)) {
	mcp.AddTool(s, t, func(ctx context.Context, asked *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		if err := r.allows(t.Name, asked.Params.Arguments); err != nil {
			return nil, nil, err
		}
		out, err := call(ctx, in)
		if err != nil {
			return nil, nil, explain(t.Name, err)
		}
		text, err := json.Marshal(out)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}, StructuredContent: json.RawMessage(text)}, nil, nil
	})
}

// explain rewrites an error so that the reader knows what to do.
func explain(tool string, err error) error {
	var answer *attestd.Error
	switch {
	case !errors.As(err, &answer), answer.Foreign:
		return err
	case answer.Status == http.StatusUnauthorized:
		return errors.New("attestd does not know the credential, or it has expired")
	case answer.Status == http.StatusForbidden && answer.Code == "FORBIDDEN_ROLE":
		return fmt.Errorf("the role of the credential does not allow %s: %s", tool, answer.Message)
	}
	return err
}

// maxBody bounds a request body in bytes. By default a server accepts payloads of 4 MiB.
const maxBody = 8 << 20

// Handler serves the tools over stateless streamable HTTP at /mcp. Each request must have its own
// credential, which is used for attestd; a credential that attestd does not know is refused. The
// handler listens on port of the loopback interface. Pages in a browser can reach that too, so it
// refuses requests for another host or from another origin.
func (f *Factory) Handler(service attestd.Config, port string) http.Handler {
	tools := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		c, err := clientOf(service, r)
		if err != nil {
			return nil // unreachable: the same check has passed below
		}
		return f.Server(c)
	}, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody})
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		c, err := clientOf(service, r)
		if err == nil {
			_, err = c.Company(r.Context())
		}
		var answer *attestd.Error
		switch {
		case err == nil:
			tools.ServeHTTP(w, r)
		case errors.Is(err, errNoBearer), errors.As(err, &answer) && !answer.Foreign && answer.Status == http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "an attestd credential is required: Authorization: Bearer …", http.StatusUnauthorized)
		case errors.As(err, &answer) && answer.Status == http.StatusTooManyRequests:
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		default:
			http.Error(w, "the attestd server is unavailable", http.StatusBadGateway)
		}
	})
	return localhttp.Only(port, nil, mux)
}

var errNoBearer = errors.New("no bearer")

// tokenOf returns the token of a request and the scheme by which it came, in lower case: "" where
// there is none, or where it is malformed.
func tokenOf(r *http.Request) (scheme, token string) {
	scheme, token, _ = strings.Cut(r.Header.Get("Authorization"), " ")
	isInvalid := func(c rune) bool { return c <= ' ' || c > '~' }
	if token == "" || len(r.Header.Values("Authorization")) != 1 || strings.ContainsFunc(token, isInvalid) {
		return "", ""
	}
	return strings.ToLower(scheme), token
}

// clientOf returns a client that has only the credential of the request.
func clientOf(service attestd.Config, r *http.Request) (*attestd.Client, error) {
	scheme, token := tokenOf(r)
	if scheme != "bearer" {
		return nil, errNoBearer
	}
	service.Credential = attestd.Key(token)
	return attestd.New(service)
}

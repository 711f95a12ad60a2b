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

	"github.com/modelcontextprotocol/go-sdk/mcp"

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
		Description: "Return a record with the proof that it stands in the chain. Its hash, its signature and the way to the root are checked before it is returned.",
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
	mcp.AddTool(s, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		if err := r.check(t.Name); err != nil {
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

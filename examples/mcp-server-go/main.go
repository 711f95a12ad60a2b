// An MCP server that accepts access tokens of a company's issuer for its own URL, and no others:
//
//	ISSUER=https://attest.example.com/o/acme RESOURCE=https://mcp.example.com/mcp go run .
//
// It listens on LISTEN, without TLS: a proxy in front of it has the certificate. With
// ACCEPT_ACT=true it also accepts tokens with which an agent acts for another; the company must
// name RESOURCE for exchanges.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

func main() {
	issuer, resource := os.Getenv("ISSUER"), os.Getenv("RESOURCE")
	at, err := url.Parse(resource)
	if err != nil || at.Host == "" || at.Path == "" {
		log.Fatal("RESOURCE must be the public URL of this server, such as https://mcp.example.com/mcp")
	}
	tokens, err := newVerifier(context.Background(), issuer, resource, os.Getenv("ACCEPT_ACT") == "true")
	if err != nil {
		log.Fatal(err) // the issuer cannot be reached, or is another one
	}
	metadata := "/.well-known/oauth-protected-resource" + at.Path
	protect := auth.RequireBearerToken(tokens.verify, &auth.RequireBearerTokenOptions{
		ResourceMetadataURL: at.Scheme + "://" + at.Host + metadata,
	})
	server := notesServer()
	tools := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true,
		// No page of a rebound name has a token, and the proxy names the public host.
		DisableLocalhostProtection: true,
	})
	mux := http.NewServeMux()
	mux.Handle(metadata, auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: resource, AuthorizationServers: []string{issuer}, BearerMethodsSupported: []string{"header"},
	}))
	mux.Handle(at.Path, protect(tools))

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8090"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%s listens on http://%s", resource, listener.Addr())
	log.Fatal(http.Serve(listener, mux))
}

// notesServer has a tool for each scope: who may read lists notes, and who may write adds one.
func notesServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	var mu sync.Mutex
	var notes []string
	type add struct {
		Text string `json:"text"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "add_note", Description: "Add a note"}, func(_ context.Context, r *mcp.CallToolRequest, in add) (*mcp.CallToolResult, any, error) {
		if err := demand(r, "writer"); err != nil {
			return nil, nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		notes = append(notes, r.Extra.TokenInfo.UserID+": "+in.Text)
		return nil, map[string]int{"notes": len(notes)}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "list_notes", Description: "List all notes"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		if err := demand(r, "reader"); err != nil {
			return nil, nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		return nil, map[string][]string{"notes": slices.Clone(notes)}, nil
	})
	return s
}

// demand requires a scope of the caller's access token.
func demand(r *mcp.CallToolRequest, scope string) error {
	if !slices.Contains(r.Extra.TokenInfo.Scopes, scope) {
		return fmt.Errorf("the access token does not have the scope %s", scope)
	}
	return nil
}

package mcptest

//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and goes through the proxy all the same.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type textInput struct {
	Text string `json:"text"`
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// serveTools serves the tools over standard input and output.
func serveTools() int {
	if err := toolServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "server:", err)
	}
	return 0
}

// toolServer is an MCP server on go-sdk with a tool for each thing that a proxy could spoil.
func toolServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	add := func(name string, call func(context.Context, *mcp.CallToolRequest, textInput) (*mcp.CallToolResult, error)) {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(ctx context.Context, r *mcp.CallToolRequest, in textInput) (*mcp.CallToolResult, any, error) {
			result, err := call(ctx, r, in)
			return result, nil, err
		})
	}
	add("echo", func(_ context.Context, _ *mcp.CallToolRequest, in textInput) (*mcp.CallToolResult, error) {
		return text(in.Text), nil
	})
	add("fail", func(_ context.Context, _ *mcp.CallToolRequest, in textInput) (*mcp.CallToolResult, error) {
		return nil, errors.New(in.Text)
	})
	add("progress", func(ctx context.Context, r *mcp.CallToolRequest, _ textInput) (*mcp.CallToolResult, error) {
		for n := range 5 {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(n), Total: 5})
			if err != nil {
				return nil, err
			}
		}
		// the TypeScript client drops progress that comes together with the answer
		time.Sleep(50 * time.Millisecond)
		return text("done"), nil
	})
	add("hang", func(ctx context.Context, _ *mcp.CallToolRequest, _ textInput) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	add("ask", ask)
	add("sample", sample)
	var grown atomic.Int64
	add("grow", func(context.Context, *mcp.CallToolRequest, textInput) (*mcp.CallToolResult, error) {
		name := fmt.Sprintf("grown%d", grown.Add(1))
		add(name, func(context.Context, *mcp.CallToolRequest, textInput) (*mcp.CallToolResult, error) {
			return text(name), nil
		})
		return text(name), nil
	})
	add("die", func(context.Context, *mcp.CallToolRequest, textInput) (*mcp.CallToolResult, error) {
		time.Sleep(100 * time.Millisecond) // for the concurrent calls to arrive
		os.Exit(3)
		return nil, nil
	})
	return s
}

// ask asks the user, in the way of the revision: by an answer that needs input, which the SDK turns
// into a request of its own for older clients.
func ask(_ context.Context, r *mcp.CallToolRequest, _ textInput) (*mcp.CallToolResult, error) {
	if given, ok := r.Params.InputResponses["name"].(*mcp.ElicitResult); ok {
		return text(fmt.Sprint("the user said ", given.Content["name"])), nil
	}
	return &mcp.CallToolResult{RequestState: "asked", InputRequests: mcp.InputRequestMap{"name": &mcp.ElicitParams{
		Message: "Who?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}},
	}}}, nil
}

// sample asks the client's model.
func sample(_ context.Context, r *mcp.CallToolRequest, _ textInput) (*mcp.CallToolResult, error) {
	switch given := r.Params.InputResponses["reply"].(type) {
	case *mcp.CreateMessageResult:
		return text(given.Content.(*mcp.TextContent).Text), nil
	case *mcp.CreateMessageWithToolsResult:
		return text(given.Content[0].(*mcp.TextContent).Text), nil
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"reply": &mcp.CreateMessageParams{
		MaxTokens: 10, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "Say hello"}}},
	}}}, nil
}

package mcpproxy

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// headerFlaw says how the headers Mcp-Method and Mcp-Name, by which servers may choose what to do,
// differ from the body, or returns "".
func headerFlaw(h http.Header, messages []message, batch bool) string {
	methods, names := h["Mcp-Method"], h["Mcp-Name"]
	switch {
	case len(methods) == 0 && len(names) == 0 || len(messages) == 0:
		return ""
	case batch || len(methods) > 1 || len(names) > 1:
		return "Mcp-Method and Mcp-Name are for one message"
	case len(methods) == 1 && methods[0] != messages[0].method:
		return "Mcp-Method differs from the body"
	case len(names) == 1 && messages[0].method == toolsCall && headerText(names[0]) != readToolCall(messages[0].params).name:
		return "Mcp-Name differs from the body"
	}
	return ""
}

// The form of a header value that is no visible ASCII (MCP 2026-07-28).
const base64Prefix, base64Suffix = "=?base64?", "?="

// headerText decodes a value of such a header.
func headerText(value string) string {
	inner, ok := strings.CutPrefix(value, base64Prefix)
	if inner, ok2 := strings.CutSuffix(inner, base64Suffix); ok && ok2 {
		if text, err := base64.StdEncoding.DecodeString(inner); err == nil {
			return string(text)
		}
	}
	return value
}

// mismatch is the response to a request whose headers differ from its body.
func mismatch(id []byte, flaw string) []byte {
	return withEnd(answer(id, `"error":{"code":-32020,"message":"Header mismatch: `+flaw+`"}`))
}

// headerValue encodes a text for such a header.
func headerValue(text string) string {
	if isPrintable(text) && !strings.HasPrefix(text, base64Prefix) {
		return text
	}
	return base64Prefix + base64.StdEncoding.EncodeToString([]byte(text)) + base64Suffix
}

package mcpserver

import (
	"errors"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attestd/agent/localhttp"
	"attestd/sdk/attestd"
)

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

package httpapi

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"attestd/server/limit"
	"attestd/store"
)

// Call is the state of one request.
type Call struct {
	*http.Request
	api        *API
	W          *Response
	ID         string    // request ID
	receivedAt time.Time // when its header was read
	needs      Need      // of the route
	writes     bool      // the route is closed to a suspended company
	fresh      bool      // a person calls it with a passkey's assertion of the last minutes alone
	credential
	// who seems to call: for limits, the log and refusals alone. A handler asks by.
	presumed store.Caller
	authErr  error          // why there is none, although a credential was presented
	counted  *store.Company // of the OAuth client that called by HTTP Basic, or nil
	body     *limit.Body    // nil until it is read
	sent     sent           // the body as it is read
	closes   bool           // the connection ends with the response
	// releases the charge for decoding the body; nil if there is none
	decoded func()
	Query   url.Values // declared parameters

	undeclared Undeclared                   // policy of the route
	refuseOwn  func(c *Call, e *Error) bool // see Handler.Refuse
}

// Handler implements a route.
type Handler struct {
	Serve func(c *Call) error // nil means that it has responded
	Form  *Form               // for an endpoint; nil if the request is read in another way
	// sends an error in a form of the route's own, or returns false for that of all others; nil for
	// that
	Refuse func(c *Call, e *Error) bool
}

// log writes the log line of a request. It has the route's pattern instead of the path, because
// paths may contain API keys.
func (c *Call) log(level slog.Level, cause error) {
	ctx, now := c.Context(), time.Now()
	if !c.api.Log.Enabled(ctx, level) {
		return
	}
	ok, skipped := c.api.hasLine(c.W.status, level, now)
	if !ok {
		return
	}
	// Log.LogAttrs would look for the caller's source line, which is the same for all requests.
	r := slog.NewRecord(now, level, "request", 0)
	r.AddAttrs(
		slog.String("id", c.ID),
		slog.String("method", method(c.Method)),
		slog.String("route", c.Pattern[strings.IndexByte(c.Pattern, ' ')+1:]),
		slog.Int("status", c.W.status),
		slog.Duration("duration", now.Sub(c.receivedAt).Round(time.Microsecond)),
		slog.Int64("bytes", c.W.bytes))
	if skipped > 0 {
		r.AddAttrs(slog.Int("skipped", skipped))
	}
	if c.presumed.Company != nil {
		r.AddAttrs(slog.String("company", c.presumed.Company.ID))
	}
	if cause != nil {
		r.AddAttrs(slog.String("error", cause.Error()))
	}
	_ = c.api.Log.Handler().Handle(ctx, r) // as LogAttrs does: its failure could be logged nowhere
}

// method returns a known method, or "other", so that clients cannot put text into the log.
func method(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return m
	}
	return "other"
}

// OwnURL returns the URL of the request below OwnBase, without the query.
func (c *Call) OwnURL() string { return c.api.ownURL(c.Request) }

// OwnBase is the address of this service as the sender of the request may know it, or "".
func (c *Call) OwnBase() string { return c.api.OwnBase(c.Request) }

// OwnIssuer is the issuer of a company; see OwnBase. The error is misdirected.
func (c *Call) OwnIssuer(companyID string) (string, error) {
	return c.api.OwnIssuer(c.Request, companyID)
}

// MaxBody is the maximum size of a body with a credential.
func (c *Call) MaxBody() int64 { return c.api.MaxBody }

package server

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"attestd/server/limit"
	"attestd/store"
)

// call is the state of one request.
type call struct {
	*http.Request
	api    *api
	w      *response
	id     string    // request ID
	came   time.Time // when its header was read
	needs  need      // of the route
	writes bool      // the route is closed to a suspended company
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
	query   url.Values // declared parameters

	undeclared undeclared // policy of the route
	form       *requestForm
}

// handler implements a route.
type handler struct {
	serve func(c *call) error // nil means that it has responded
	form  *requestForm        // for an endpoint; nil if the request is read in another way
}

// log writes the log line of a request. It has the route's pattern instead of the path, because
// paths may contain API keys.
func (c *call) log(level slog.Level, cause error) {
	ctx, now := c.Context(), time.Now()
	if !c.api.Log.Enabled(ctx, level) {
		return
	}
	ok, skipped := c.api.hasLine(c.w.status, level, now)
	if !ok {
		return
	}
	// Log.LogAttrs would look for the caller's source line, which is the same for all requests.
	r := slog.NewRecord(now, level, "request", 0)
	r.AddAttrs(
		slog.String("id", c.id),
		slog.String("method", method(c.Method)),
		slog.String("route", c.Pattern[strings.IndexByte(c.Pattern, ' ')+1:]),
		slog.Int("status", c.w.status),
		slog.Duration("duration", now.Sub(c.came).Round(time.Microsecond)),
		slog.Int64("bytes", c.w.bytes))
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

// ownURL returns the URL of the request below ownBase, without the query.
func (c *call) ownURL() string { return c.api.ownURL(c.Request) }

// ownBase is the address of this service as the sender of the request may know it, or "".
func (c *call) ownBase() string { return c.api.ownBase(c.Request) }

// ownIssuer is the issuer of a company; see ownBase. The error is misdirected.
func (c *call) ownIssuer(companyID string) (string, error) {
	return c.api.ownIssuer(c.Request, companyID)
}

// maxBody is the maximum size of a body with a credential.
func (c *call) maxBody() int64 { return c.api.MaxBody }

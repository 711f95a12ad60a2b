package server

import (
	"net/http"

	"attestd/server/stream"
)

// stream hands a connection to the hub: a presented credential must be valid and narrows the stream to its company.
func (s *Server) stream(c *call) error {
	if s.Stream == stream.Off {
		return fail(http.StatusNotFound, "Not Found: the stream is switched off")
	}
	if !ownOrigin(c.Request) {
		return fail(http.StatusForbidden, "Origin not allowed: the stream is only for pages of this server")
	}
	if credential, ok := stream.BearerProtocol(c.Request); ok && !c.claimed { // browsers cannot set Authorization on a WebSocket
		c.identify(credential)
	}
	switch {
	case c.authErr != nil:
		return c.authErr
	case c.company == nil && (c.claimed || s.Stream == stream.Authenticated):
		return unauthorized()
	}
	company := int64(0)
	if c.company != nil {
		company = c.company.Chain
	}
	return s.hub.Serve(c.w, c.Request, company, c.w.Header())
}

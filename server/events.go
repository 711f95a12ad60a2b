package server

import (
	"net/http"

	"attestd/server/stream"
)

// follow hands a connection to the hub: a presented credential must be valid and narrows the stream to its company.
func follow(c *call) error {
	s := c.s
	if s.Stream == stream.Off {
		return fail(http.StatusNotFound, "Not Found: the stream is switched off")
	}
	if credential, ok := stream.BearerProtocol(c.Request); ok && !c.claimed { // browsers cannot set Authorization on a WebSocket
		c.identify(credential)
	}
	switch {
	case c.authErr != nil:
		return c.authErr
	case c.caller.Company == nil && (c.claimed || s.Stream == stream.Authenticated):
		return unauthorized()
	}
	company := int64(0)
	if c.caller.Company != nil {
		company = c.caller.Company.Chain
	}
	return s.hub.Serve(c.w, c.Request, company, c.w.Header())
}

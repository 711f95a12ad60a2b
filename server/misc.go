package server

import (
	"net/http"

	"attestd/web"
)

// health says that the process answers. It asks nothing of the database.
func (s *Server) health(c *call) error {
	return c.json(http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) openAPI(c *call) error {
	c.w.Header().Set("Cache-Control", cacheHour)
	return c.bytes(http.StatusOK, web.OpenAPI())
}

// stream hands a connection to the hub: a presented credential must be valid and narrows the stream to its company.
func (s *Server) stream(c *call) error {
	if s.Stream == StreamOff {
		return fail(http.StatusNotFound, "Not Found: the stream is switched off")
	}
	if credential, ok := bearerProtocol(c.Request); ok && !c.claimed { // browsers cannot set Authorization on a WebSocket
		c.identify(credential)
	}
	switch {
	case c.authErr != nil:
		return c.authErr
	case c.company == nil && (c.claimed || s.Stream == StreamAuthenticated):
		return unauthorized()
	}
	return s.hub.serve(c.w, c.Request, c.company, c.w.Header())
}

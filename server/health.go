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

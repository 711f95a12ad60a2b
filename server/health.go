package server

import (
	"context"
	"net/http"

	"attestd/store"
	"attestd/web"
)

type healthBody struct {
	Status string `json:"status"`
}

// health reports that the process responds. It does not use the database.
func health(context.Context, store.Caller, none) (healthBody, error) {
	return healthBody{"ok"}, nil
}

// document is the API reference.
type document struct{ verbatim }

func (document) setHeader(h http.Header) { h.Set("Cache-Control", cacheHour) }

func (d document) writeTo(c *call, status int) error { return c.bytes(status, d.verbatim) }

func openAPI(context.Context, store.Caller, none) (document, error) {
	return document{web.OpenAPI()}, nil
}

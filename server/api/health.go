package api

import (
	"context"
	"net/http"

	"attestd/server/httpapi"
	"attestd/store"
	"attestd/web"
)

type healthBody struct {
	Status string `json:"status"`
}

// Health reports that the process responds. It does not use the database.
func Health(context.Context, store.Caller, httpapi.None) (healthBody, error) {
	return healthBody{"ok"}, nil
}

// document is the API reference.
type document struct{ httpapi.Verbatim }

func (document) SetHeader(h http.Header) { h.Set("Cache-Control", cacheHour) }

func (d document) WriteTo(c *httpapi.Call, status int) error { return c.Bytes(status, d.Verbatim) }

func OpenAPI(context.Context, store.Caller, httpapi.None) (document, error) {
	return document{web.OpenAPI()}, nil
}

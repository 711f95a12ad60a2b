package httpapi

import (
	"net/http"
	"strconv"
)

// File is a response that is not JSON.
type File struct {
	ContentType, Caching string
	Content              []byte
}

func (f File) SetHeader(h http.Header) { h.Set("Cache-Control", f.Caching) }

func (f File) WriteTo(c *Call, status int) error {
	c.W.Header().Set("Content-Type", f.ContentType)
	c.W.Header().Set("Content-Length", strconv.Itoa(len(f.Content)))
	c.SendComplete(status, f.Content)
	return nil
}

const PlainText = "text/plain; charset=utf-8"

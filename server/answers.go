package server

import (
	"net/http"
	"strconv"
)

// file is a response that is not JSON.
type file struct {
	contentType, caching string
	content              []byte
}

func (f file) setHeader(h http.Header) { h.Set("Cache-Control", f.caching) }

func (f file) writeTo(c *call, status int) error {
	c.w.Header().Set("Content-Type", f.contentType)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(f.content)))
	c.whole(status, f.content)
	return nil
}

const plainText = "text/plain; charset=utf-8"

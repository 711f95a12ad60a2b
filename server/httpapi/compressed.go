package httpapi

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"

	"attestd/server/limit"
)

// ReadCompressed returns the body, decompressed if it is compressed by gzip. What it unpacks to is
// charged as it comes, and bounded as a body is.
func (c *Call) ReadCompressed() ([]byte, error) {
	coding := strings.ToLower(strings.TrimSpace(c.Header.Get("Content-Encoding")))
	switch coding {
	case "", "identity":
		return c.readBytes(c.api.MaxBody)
	case "gzip":
	default:
		return nil, Fail(http.StatusUnsupportedMediaType, "Unsupported Content-Encoding: send gzip, or the body as it is").With("Accept-Encoding", "gzip")
	}
	packed, err := c.readBytes(c.api.MaxBody)
	if err != nil {
		return nil, err
	}
	body, err := unpack(c.api.Bodies, c.Holder(), packed, c.api.MaxBody)
	if err != nil {
		return nil, err
	}
	c.body.Release()
	c.body = body
	return body.Bytes, nil
}

// unpack decompresses what gzip has packed, to at most most bytes.
func unpack(pool *limit.Pool, h limit.Holder, packed []byte, most int64) (*limit.Body, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, malformedGzip()
	}
	body, err := limit.ReadBody(pool, h, io.LimitReader(unpacked, most+1), -1)
	switch {
	case errors.Is(err, limit.ErrFull):
		return nil, err
	case err != nil:
		return nil, malformedGzip()
	case int64(len(body.Bytes)) > most:
		body.Release()
		return nil, &http.MaxBytesError{Limit: most}
	}
	return body, nil
}

func malformedGzip() error {
	return Fail(http.StatusBadRequest, "Request body is not gzip, as Content-Encoding says")
}

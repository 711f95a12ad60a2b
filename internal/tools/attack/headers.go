package main

import (
	"fmt"
	"strconv"
	"strings"

	"attestd/internal/harness"
)

// headerFaults lists required response headers that are missing or wrong, and responses that shared
// caches must not store but may.
func headerFaults(op operation, method string, a harness.Answer) (wrong []string) {
	for _, name := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
		if n, err := strconv.Atoi(a.Header.Get(name)); err != nil || n < 0 {
			wrong = append(wrong, fmt.Sprintf("%s is %q", name, a.Header.Get(name)))
		}
	}
	if a.Header.Get("X-Request-ID") == "" {
		wrong = append(wrong, "no X-Request-ID")
	}
	if kind := a.Header.Get("Content-Type"); method != "HEAD" && !strings.HasPrefix(kind, op.mediaType(a.Status)) {
		wrong = append(wrong, fmt.Sprintf("Content-Type is %q", kind))
	}
	cache := a.Header.Get("Cache-Control")
	kept := !strings.Contains(cache, "no-store")
	switch {
	case a.Status >= 400 && a.Status != 426 && kept:
		wrong = append(wrong, fmt.Sprintf("an error with Cache-Control %q", cache))
	case a.Status >= 300:
	case op.path == "/v1/ca/public-key" || op.path == "/v1/ca/well-known":
		if cache != "public, max-age=3600" {
			wrong = append(wrong, fmt.Sprintf("Cache-Control is %q", cache))
		}
	case op.path == "/v1/ocsp/{jti}" && kept:
		if vary := a.Header.Get("Vary"); cache != "public, max-age=300" || !strings.Contains(vary, "Authorization") {
			wrong = append(wrong, fmt.Sprintf("Cache-Control is %q with Vary %q", cache, vary))
		}
	case !op.public && kept && !strings.Contains(cache, "private"):
		wrong = append(wrong, fmt.Sprintf("what belongs to a tenant has Cache-Control %q", cache))
	}
	return wrong
}

// mediaType returns the required media type of a response: JSON, except for the lines of a report
// and of a session, and the files of a log (C2SP tlog-tiles).
func (op operation) mediaType(status int) string {
	switch {
	case status == 200 && (op.path == "/v1/report" || op.id == "getSession"):
		return "application/x-ndjson"
	case status != 200 || !strings.HasPrefix(op.path, "/v1/log/"):
		return "application/json"
	case strings.HasSuffix(op.path, "/tile/{path}"):
		return "application/octet-stream"
	}
	return "text/plain; charset=utf-8"
}

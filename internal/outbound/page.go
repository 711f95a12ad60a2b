package outbound

import "bytes"

// pageStart is how much of an answer IsPage needs.
const pageStart = 512

// IsPage reports whether the body of an answer is an HTML page, which programs do not send to
// programs. With a status of success it is the sign-in page of a gateway or captive portal, which
// has not handed the request on. The Content-Type decides nothing: frameworks send an "ok" as
// text/html.
func IsPage(body []byte) bool {
	start := bytes.TrimLeft(bytes.TrimPrefix(body[:min(len(body), pageStart)], []byte("\xef\xbb\xbf")), " \t\r\n")
	for _, tag := range []string{"<!doctype html", "<html"} {
		if len(start) > len(tag) && bytes.EqualFold(start[:len(tag)], []byte(tag)) && bytes.IndexByte([]byte(" \t\r\n>"), start[len(tag)]) >= 0 {
			return true
		}
	}
	return false
}

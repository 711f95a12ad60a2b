package dpop

import (
	"net/url"
	"strconv"
	"strings"
)

// normalize returns the normal form of an absolute URL of http or https, without query and
// fragment.
func normalize(raw string) (string, bool) {
	if len(raw) > MaxURL {
		return "", false
	}
	raw, ok := normalizeEscapes(raw)
	if !ok {
		return "", false
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.User != nil || u.Hostname() == "" || !isPlain(u.Host) {
		return "", false
	}
	standard := map[string]uint64{"http": 80, "https": 443}[u.Scheme] // Parse made it lower case
	if standard == 0 {
		return "", false
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return "", false
		}
		host = strings.TrimSuffix(host, ":"+port)
		if n != standard {
			host += ":" + strconv.FormatUint(n, 10)
		}
	}
	host = strings.TrimSuffix(host, ":") // of an empty port
	// A reference with a scheme stands for itself, with its dot segments removed (RFC 3986 §5.2.4).
	path := u.ResolveReference(u).EscapedPath()
	if path == "" {
		path = "/"
	}
	return u.Scheme + "://" + host + path, true
}

// normalizeEscapes decodes the escapes of unreserved characters and writes the others in upper
// case. An unreserved character separates nothing, so this changes no other part of a URL. It
// refuses what is not visible ASCII and what is no escape.
func normalizeEscapes(raw string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c <= ' ' || c > '~' || c == '\\':
			return "", false
		case c != '%':
			b.WriteByte(c)
		case i+2 >= len(raw):
			return "", false
		default:
			n, err := strconv.ParseUint(raw[i+1:i+3], 16, 8)
			if err != nil {
				return "", false
			}
			if decoded := byte(n); isUnreserved(decoded) {
				b.WriteByte(decoded)
			} else {
				b.WriteString(strings.ToUpper(raw[i : i+3]))
			}
			i += 2
		}
	}
	return b.String(), true
}

// isPlain reports whether a host, as Parse decodes it, was visible ASCII without escapes. (No name
// needs them, and the zone of an IPv6 address means something on one machine alone.)
func isPlain(host string) bool {
	return strings.IndexFunc(host, func(r rune) bool { return r <= ' ' || r > '~' || r == '%' }) < 0
}

// isUnreserved is that of RFC 3986 §2.3.
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

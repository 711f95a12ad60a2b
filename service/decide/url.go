package decide

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	methodForm = regexp.MustCompile(`^[A-Z]{1,32}$`)
	nameForm   = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,62}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,62}[a-z0-9_])?)*$`)
)

// maxURL bounds the parts of a URL that is decided about, in bytes.
const maxURL = 8192

// NewURL returns the URL of an HTTP request, of which target is the path as it was sent, with its
// query or without. ok is false for one that two services could understand in two ways.
func NewURL(method, scheme, host, target string) (u URL, ok bool) {
	if !methodForm.MatchString(method) || scheme != "http" && scheme != "https" {
		return u, false
	}
	u.Method, u.Scheme = method, scheme
	if u.Host, ok = cleanHost(scheme, host); ok {
		u.Path, ok = cleanPath(target)
	}
	return u, ok
}

// String is the URL as policies name it, without the method.
func (u URL) String() string { return u.Scheme + "://" + u.Host + u.Path }

// parseURL reads what String has made.
func parseURL(method, text string) (u URL, ok bool) {
	scheme, rest, _ := strings.Cut(text, "://")
	slash := strings.IndexByte(rest, '/')
	if slash < 0 || len(text) > 2*maxURL {
		return u, false
	}
	u = URL{Scheme: scheme, Host: rest[:slash], Path: rest[slash:], Method: method}
	host, ok := cleanHost(scheme, u.Host)
	return u, ok && host == u.Host && methodForm.MatchString(method) && isCleanPath(u.Path)
}

// cleanHost returns a host in lower case and without the scheme's own port.
func cleanHost(scheme, host string) (string, bool) {
	if len(host) > maxURL {
		return "", false
	}
	name, port := strings.ToLower(host), ""
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, ']') {
		name, port = name[:colon], name[colon+1:]
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return "", false
		}
	}
	if inner, is := strings.CutPrefix(name, "["); is {
		inner, closed := strings.CutSuffix(inner, "]")
		address, err := netip.ParseAddr(inner)
		if !closed || err != nil || !address.Is6() || address.Zone() != "" {
			return "", false
		}
		name = "[" + address.String() + "]"
	} else if len(name) > 253 || !nameForm.MatchString(name) {
		return "", false
	}
	if port == "" || port == map[string]string{"http": "80", "https": "443"}[scheme] {
		return name, true
	}
	return name + ":" + port, true
}

// cleanPath returns a path with its escapes decoded, once, and without dot segments. What servers
// read in more than one way has no such form: an escaped slash or percent sign, a backslash, an
// empty segment, a control character, dot segments with parameters or above the root.
func cleanPath(target string) (string, bool) {
	raw, _, _ := strings.Cut(target, "?")
	if !strings.HasPrefix(raw, "/") || len(raw) > maxURL {
		return "", false
	}
	var decoded strings.Builder
	for i := 0; i < len(raw); i++ {
		b := raw[i]
		switch {
		case b == '%':
			if i+2 >= len(raw) {
				return "", false
			}
			n, err := strconv.ParseUint(raw[i+1:i+3], 16, 8)
			if err != nil || n == '/' {
				return "", false
			}
			b, i = byte(n), i+2
		case b <= ' ' || b >= 0x7f:
			return "", false
		}
		decoded.WriteByte(b)
	}
	var clean []string
	segments := strings.Split(decoded.String()[1:], "/")
	for n, segment := range segments {
		last := n == len(segments)-1
		switch {
		case segment == "." || segment == "..":
			if segment == ".." {
				if len(clean) == 0 {
					return "", false
				}
				clean = clean[:len(clean)-1]
			}
			if last {
				clean = append(clean, "")
			}
		case segment == "" && !last:
			return "", false
		default:
			clean = append(clean, segment)
		}
	}
	path := "/" + strings.Join(clean, "/")
	return path, isCleanPath(path)
}

// isCleanPath reports whether a path is decoded and has one meaning.
func isCleanPath(path string) bool {
	if !strings.HasPrefix(path, "/") || len(path) > maxURL || !utf8.ValidString(path) || strings.ContainsAny(path, "\\%?#") || strings.Contains(path, "//") {
		return false
	}
	for i := 0; i < len(path); i++ {
		if path[i] < ' ' || path[i] == 0x7f {
			return false
		}
	}
	for segment := range strings.SplitSeq(path, "/") {
		name, _, _ := strings.Cut(segment, ";")
		if name == "." || name == ".." {
			return false
		}
	}
	return true
}

package httpapi

import (
	"net/http"
	"strings"
	"time"

	"attestd/store"
)

// sessionCookie has the secret of a person's session. Its prefix makes browsers demand Secure and
// Path=/, and no Domain (RFC 6265bis §4.1.3.2).
const sessionCookie = "__Host-attestd-session"

// accountCookie has the secret of a browser that is away at the identity provider.
const accountCookie = "__Host-attestd-account"

// AccountCookie is the value of Set-Cookie for a browser that goes to the identity provider; "" for
// one that came back. SameSite is Lax, since the way back begins on a page of the provider.
func AccountCookie(secret string) string { return cookie(accountCookie, secret, store.AccountLifetime) }

// AccountOf returns the secret of a browser that comes from the identity provider; "" where it has
// none, or several.
func AccountOf(r *http.Request) string {
	cookies := r.CookiesNamed(accountCookie)
	if len(cookies) != 1 {
		return ""
	}
	return cookies[0].Value
}

// SessionCookie is the value of Set-Cookie for a session that begins; "" for one that ends.
func SessionCookie(secret string) string { return cookie(sessionCookie, secret, store.SessionLifetime) }

func cookie(name, secret string, lifetime time.Duration) string {
	c := &http.Cookie{Name: name, Value: secret, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: int(lifetime / time.Second)}
	if secret == "" {
		c.MaxAge = -1
	}
	return c.String()
}

// session returns the secret of the cookie of a session where that counts; "" otherwise.
//
// Browsers send the cookie with what pages of other ports of this host ask for, too. So it counts
// only with a header that no form can set, and for which a browser asks before it sends it for a
// page of another origin. What is no GET or HEAD must also name a page of ours as its origin; so
// must the request for a WebSocket, where a page can set no header.
func (c *Call) session() string {
	if c.needs.Who&^Anonymous == 0 {
		return ""
	}
	cookies := c.CookiesNamed(sessionCookie)
	if len(cookies) != 1 {
		return ""
	}
	own := originOf(c.OwnBase())
	origins := c.Header["Origin"]
	isOurs := len(origins) == 1 && own != "" && strings.EqualFold(origins[0], own)
	reads := c.Method == http.MethodGet || c.Method == http.MethodHead
	marked := len(c.Header["X-Attestd-Console"]) == 1 && c.Header["X-Attestd-Console"][0] == "1"
	switch {
	case own == "", len(origins) > 0 && !isOurs, c.needs.Socket && !isOurs, !c.needs.Socket && !marked, !reads && !isOurs:
		return ""
	}
	return cookies[0].Value
}

// Session returns the hash of the cookie by which the caller is known, and whether there is one.
func (c *Call) Session() ([32]byte, bool) { return c.Hash, c.bySession }

package httpapi

import (
	"net/http"

	"attestd/server/limit"
)

// Route is one row of the API with its whole policy: who may call it, which limit counts it, and
// what becomes of members of the query and the body that its handler's form does not declare.
type Route struct {
	Method, Path string
	Needs        Need
	Tier         limit.Tier
	Undeclared   Undeclared
	Handler      Handler
}

// Need says who may call a route.
type Need struct {
	Who     Kinds // everything else is refused; see call.by
	AnyPage bool  // pages of all origins as well (CORS), which read what is public
	Socket  bool  // a credential may come as a subprotocol of a WebSocket
	// a suspended company may call it although it is no GET, or not although it is one
	Reads, Issues bool
	Secrets       bool // shows secrets although it is a GET
	// the caller is a proxy, which presents its credential in GatewayHeader: the other headers are
	// those of the request that it asks about
	Gateway bool
}

// IsPublic reports whether the handler itself identifies the caller, where it needs to: a
// credential may be in the body, or be missing.
func (n Need) IsPublic() bool { return n.Who&(Anonymous|IsClient) != 0 }

// writes reports whether the route writes or issues something for a company, and so is closed while
// that is suspended.
func (rt Route) writes() bool {
	return (rt.Method != "GET" || rt.Needs.Issues) && !rt.Needs.Reads
}

// fresh reports whether the route changes rights, or shows or issues what gives them. What every
// change has in its transaction is in Caller.Fresh of package store; here are also those that write
// no control record.
func (rt Route) fresh() bool {
	n := rt.Needs
	changes := rt.Method != "GET" && n.Who&(IsReader|IsPerson) == 0 && !n.Reads
	return n.Who&IsAdmin != 0 && (changes || n.Issues || n.Secrets)
}

// Preflight answers a browser that asks whether a page may send headers of its own with a request
// (CORS). No route for all pages reads any that matters.
func Preflight(method string) Handler {
	return Handler{Serve: func(c *Call) error {
		h := c.W.Header()
		h.Set("Access-Control-Allow-Methods", method)
		h.Set("Access-Control-Allow-Headers", "*")
		h.Set("Access-Control-Max-Age", "300")
		c.W.WriteHeader(http.StatusNoContent)
		return nil
	}}
}

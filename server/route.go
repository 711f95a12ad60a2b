package server

import "attestd/server/limit"

// route is one row of the API with its whole policy: who may call it, which limit counts it, and
// what becomes of members of the query and the body that its handler's form does not declare.
type route struct {
	method, path string
	needs        need
	tier         limit.Tier
	undeclared   undeclared
	handler      handler
}

// need says who may call a route.
type need struct {
	who     kinds // everything else is refused; see call.by
	anyPage bool  // pages of all origins as well (CORS), which read what is public
	socket  bool  // a credential may come as a subprotocol of a WebSocket
	// a suspended company may call it although it is no GET, or not although it is one
	reads, issues bool
}

// isPublic reports whether the handler finds out who calls, if anybody needs to: a credential may
// stand in the body, or be missing.
func (n need) isPublic() bool { return n.who&(nobody|isClient) != 0 }

var (
	public  = need{who: nobody}
	anyPage = need{who: nobody, anyPage: true}
	reader  = need{who: isReader | isWriter | isAdmin}
	admin   = need{who: isAdmin}

	readerOrAgent = need{who: isReader | isWriter | isAdmin | isAgent | isPerson}
	writerOrAgent = need{who: isWriter | isAdmin | isAgent | isPerson}
	adminOrAgent  = need{who: isAdmin | isAgent}
	enrolling     = need{who: isAdmin | isAgent | isEnrolling}
	enrolmentOnly = need{who: isEnrolling}
	agentAsks     = need{who: isWriter | isAdmin | isAgent | isPerson, reads: true}
	adminIssues   = need{who: isAdmin | isAgent, issues: true}

	tokenSeeker  = need{who: nobody | isClient | isAdmin | isAgent | isPerson}
	clientRevoke = need{who: isClient | isAdmin | isAgent | isPerson}
	clientAsks   = need{who: isClient | isAdmin | isAgent | isPerson, reads: true}
	follower     = need{who: nobody | isReader | isWriter | isAdmin, socket: true}
)

// writes reports whether the route writes or issues something for a company, and so is closed while
// that is suspended.
func (rt route) writes() bool {
	return (rt.method != "GET" || rt.needs.issues) && !rt.needs.reads
}

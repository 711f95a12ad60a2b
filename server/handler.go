package server

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"attestd/server/api"
	"attestd/server/httpapi"
	"attestd/server/limit"
	"attestd/web"
)

// Handler is the whole service: the API below /v1/, the console elsewhere.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range routes(&s.resources) {
		mux.HandleFunc(rt.Method+" "+rt.Path, s.api.Handle(rt))
		if rt.Needs.AnyPage {
			asked := httpapi.Route{Needs: anyPage, Tier: rt.Tier, Handler: httpapi.Preflight(rt.Method)}
			mux.HandleFunc("OPTIONS "+rt.Path, s.api.Handle(asked))
		}
	}
	// which is in the metadata of an issuer and gives nothing: no operation of the reference
	mux.HandleFunc("GET /o/{companyId}/authorize", s.api.Handle(httpapi.Route{Needs: anyPage, Undeclared: httpapi.Lenient, Tier: limit.Standard, Handler: httpapi.Endpoint(http.StatusBadRequest, s.resources.issuers.Authorize)}))
	// Patterns without a method match what no route matches, whatever its method.
	elsewhere := s.api.Handle(httpapi.Route{Needs: public, Handler: httpapi.Handler{Serve: func(c *httpapi.Call) error { return notFound(mux, c) }}})
	// ServeMux has no empty wildcard
	revoke := s.api.Handle(httpapi.Route{Needs: admin, Undeclared: httpapi.Lenient, Tier: limit.Standard, Handler: httpapi.Endpoint(http.StatusOK, s.resources.passports.Revoke)})
	// what proxies ask, which is no operation of the reference either; below the prefix with the
	// method and the path of the request that they ask about
	mux.HandleFunc("/v1/authz", s.api.Handle(httpapi.Route{Path: "/v1/authz", Needs: gateway, Undeclared: httpapi.Lenient, Tier: limit.Log, Handler: s.resources.forward.Decide()}))
	envoy := s.api.Handle(httpapi.Route{Path: api.EnvoyPrefix, Needs: gateway, Undeclared: httpapi.Lenient, Tier: limit.Log, Handler: s.resources.forward.DecideOwn()})
	mux.HandleFunc("/v1/", elsewhere)
	mux.HandleFunc("/v1", elsewhere) // or ServeMux would redirect it
	console, has := web.Console()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if has(r.URL.Path) {
			console.ServeHTTP(w, r)
			return
		}
		elsewhere(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/passports//revoke" && r.Method == http.MethodPost:
			revoke(w, r)
		case strings.HasPrefix(r.URL.Path, api.EnvoyPrefix):
			r.Pattern = api.EnvoyPrefix
			envoy(w, r)
		case !clean(r.URL.Path): // ServeMux would redirect, and a redirected POST becomes a GET
			elsewhere(w, r)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

func clean(p string) bool { return p == path.Clean(p) || p == "/v1/" }

// notFound answers for what no route matches: a wrong method with the right ones, anything else
// with 404.
func notFound(mux *http.ServeMux, c *httpapi.Call) error {
	if !clean(c.URL.Path) {
		return httpapi.Fail(http.StatusNotFound, "Not Found")
	}
	var allowed []string
	for _, m := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		probe := &http.Request{Method: m, URL: c.URL, Host: c.Host}
		// only routes have a method
		if _, pattern := mux.Handler(probe); strings.Contains(pattern, " ") {
			allowed = append(allowed, m)
		}
	}
	// exporters add these to their endpoint, which was then set without our prefix
	if slices.Contains([]string{"/v1/traces", "/v1/logs", "/v1/metrics"}, c.URL.Path) {
		return httpapi.Fail(http.StatusNotFound, "Not Found: OTLP is received below /v1/otlp; set OTEL_EXPORTER_OTLP_ENDPOINT to this server's address and /v1/otlp")
	}
	if len(allowed) > 0 {
		return httpapi.Fail(http.StatusMethodNotAllowed, "Method Not Allowed").With("Allow", strings.Join(allowed, ", "))
	}
	return httpapi.Fail(http.StatusNotFound, "Not Found")
}

package server

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"attestd/crypto/cred"
	"attestd/store"
)

// recoverKey gives the first API key of a company to a caller on this very machine.
func (s *Server) recoverKey(c *call) error {
	if !s.RecoverEndpoint || !local(c.Request) {
		return fail(http.StatusForbidden, "Forbidden: only for callers on this machine that come without a proxy; or use: attestd recover-key")
	}
	o, err := c.object()
	if err != nil {
		return err
	}
	id, ok := o.text("companyId")
	if !ok || cred.CheckSegment(id) != nil {
		return fail(http.StatusBadRequest, "Missing or invalid field: companyId is required")
	}
	first, err := s.Store.FirstKey(c.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return fail(http.StatusNotFound, "No API keys found for company: "+id)
	}
	if err != nil {
		return err
	}
	return c.secret(http.StatusOK, first)
}

// local says whether a request comes from this machine and not through a proxy on it. A proxy shows itself by a forwarding
// header, by a Host that is not loopback, or, in its most silent default form, by HTTP/1.0. A web page shows itself by Origin.
func local(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() || !r.ProtoAtLeast(1, 1) || !loopbackHost(r.Host) {
		return false
	}
	for name := range r.Header {
		switch {
		case name == "Origin", name == "Forwarded", name == "Via", name == "X-Real-Ip", strings.HasPrefix(name, "X-Forwarded-"):
			return false
		}
	}
	return true
}

func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}

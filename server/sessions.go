package server

import (
	"context"
	"net/http"

	"attestd/service"
	"attestd/store"
)

type sessionsRequest struct {
	AgentID string `query:"agentId"`
	Cursor  string `query:"cursor"`
	Limit   int    `query:"limit" must:"number 1..100" default:"100"`
}

type sessionsPage struct {
	Sessions []service.Session `json:"sessions"`
	Next     string            `json:"next,omitempty"`
}

// listSessions is an addition to the specification: the runs of agents that have signed what they
// did, the newest first.
func (s *Server) listSessions(ctx context.Context, by store.Caller, r sessionsRequest) (sessionsPage, error) {
	page, next, err := s.agentKeys.Sessions(ctx, by, r.AgentID, r.Cursor, r.Limit)
	return sessionsPage{page, next}, err
}

type sessionRequest struct {
	AgentID string `path:"agentId"`
	SID     string `path:"sid"`
	KID     string `query:"kid"`
}

// session is an addition to the specification: a session as one file, which is checked without a
// server.
func (s *Server) session(ctx context.Context, by store.Caller, r sessionRequest) (sessionFile, error) {
	f, err := s.proofs.Session(ctx, by, r.AgentID, r.SID, r.KID)
	return sessionFile{f}, err
}

// sessionFile is written as it is read, in constant memory.
type sessionFile struct{ *service.SessionFile }

func (f sessionFile) writeTo(c *call, status int) error {
	c.w.Header().Set("Content-Type", jsonLines.contentType)
	c.w.WriteHeader(status)
	if c.Method == http.MethodHead {
		return nil
	}
	return f.Write(c.Context(), c.w)
}

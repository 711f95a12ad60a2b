package api

import (
	"context"
	"net/http"
	"strconv"

	"attestd/chain"
	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

type sessionsRequest struct {
	AgentID string `query:"agentId"`
	SID     string `query:"sid"`
	Kind    string `query:"kind"`
	From    string `query:"from"`
	To      string `query:"to"`
	Cursor  string `query:"cursor"`
	Limit   int    `query:"limit" must:"number 1..100" default:"100"`
}

type sessionsPage struct {
	Sessions []service.Session `json:"sessions"`
	Next     string            `json:"next,omitempty"`
}

// Sessions is an addition to the specification: the runs of agents, the newest first.
func (s *Evidence) Sessions(ctx context.Context, by store.Caller, r sessionsRequest) (sessionsPage, error) {
	page, next, err := s.AgentKeys.Sessions(ctx, by, service.SessionQuery(r))
	return sessionsPage{page, next}, err
}

type sessionRequest struct {
	AgentID string `path:"agentId"`
	SID     string `path:"sid"`
	KID     string `query:"kid"`
	Kind    string `query:"kind"`
}

// Session is an addition to the specification: a session as one file, which is checked without a
// server. That of a session without statements is a report of its time.
func (s *Evidence) Session(ctx context.Context, by store.Caller, r sessionRequest) (httpapi.Body, error) {
	of, provable, err := s.Proofs.Named(ctx, by, service.SessionName(r))
	if err != nil {
		return nil, err
	}
	if provable {
		f, err := s.Proofs.Session(ctx, by, of)
		return sessionFile{f}, err
	}
	head, err := s.Proofs.SessionReport(ctx, by, of)
	return report{s.Store, head, [2]int64{by.Company.Actions.Chain, by.Company.Control.Chain}}, err
}

// sessionFile is written as it is read, in constant memory.
type sessionFile struct{ *service.SessionFile }

func (f sessionFile) WriteTo(c *httpapi.Call, status int) error {
	c.W.Header().Set("Content-Type", jsonLines.contentType)
	c.W.WriteHeader(status)
	if c.Method == http.MethodHead {
		return nil
	}
	return f.Write(c.Context(), c.W)
}

type sessionRecordsRequest struct {
	AgentID string `path:"agentId"`
	SID     string `path:"sid"`
	KID     string `query:"kid"`
	Kind    string `query:"kind"`
	From    int64  `query:"from" must:"number 0..9223372036854775807" default:"0"`
	Limit   int    `query:"limit" must:"number 1..1000" default:"1000"`
}

// SessionRecords is an addition to the specification: a page of the records of a session.
func (s *Evidence) SessionRecords(ctx context.Context, by store.Caller, r sessionRecordsRequest) (httpapi.Body, error) {
	of, _, err := s.Proofs.Named(ctx, by, service.SessionName{AgentID: r.AgentID, SID: r.SID, KID: r.KID, Kind: r.Kind})
	return sessionPage{s.Proofs, by, of, r.From, r.Limit}, err
}

// sessionPage is written as it is read, in constant memory.
type sessionPage struct {
	proofs *service.Evidence
	by     store.Caller
	of     store.Session
	from   int64
	limit  int
}

func (a sessionPage) WriteTo(c *httpapi.Call, status int) error {
	out := &pieces{c: c, status: status, contentType: "application/json"}
	if out.isHead() {
		return nil
	}
	out.WriteString(`{"records":[`)
	found := false
	next, err := a.proofs.SessionRecords(c.Context(), a.by, a.of, a.from, a.limit, func(r *chain.Record) error {
		if err := readable(r); err != nil {
			return damage(err)
		}
		if found {
			out.WriteByte(',')
		}
		found = true
		out.Write(r.AppendJSON(out.AvailableBuffer()))
		return out.send(rangeBytes)
	})
	if err != nil {
		return err
	}
	out.WriteByte(']')
	if next > 0 {
		out.Write(strconv.AppendInt(append(out.AvailableBuffer(), `,"next":`...), next, 10))
	}
	out.WriteString("}\n")
	return out.send(0)
}

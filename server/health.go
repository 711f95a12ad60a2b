package server

import (
	"context"
	"net/http"

	"attestd/store"
	"attestd/web"
)

type health struct {
	Status string `json:"status"`
}

// health reports that the process responds. It does not use the database.
func (s *Server) health(context.Context, store.Caller, none) (health, error) {
	return health{"ok"}, nil
}

// ready reports whether a write is possible now: the database file is in place, the clock is
// plausible, no other process holds the file, and it is not behind its head file. It also returns
// the state of the head file. It is an addition to the specification.
func (s *Server) ready(ctx context.Context, _ store.Caller, _ none) (readiness, error) {
	r := readiness{Status: "ready", HeadFile: s.Store.Rollback.HeadFile(), TablesChanged: len(s.Store.Tables.Changed()),
		RolledBack: len(s.Store.Rollback.Halted())}
	for _, p := range s.witnessPublishers {
		r.WitnessAlarms += int(p.alarms.Load())
		if p.behind.Load() {
			r.WitnessesBehind++
		}
	}
	if s.Store.Cosigner.Stopped() != nil {
		r.Cosigner = "behind"
	}
	if r.TablesChanged+r.RolledBack+r.WitnessAlarms > 0 || r.Cosigner != "" {
		r.Status = "degraded"
	}
	return r, s.Store.Ready(ctx)
}

type readiness struct {
	Status   string `json:"status"`
	HeadFile string `json:"headFile,omitempty"`
	// number of companies whose tables differ from their control logs
	TablesChanged int `json:"tablesChanged,omitempty"`
	// number of companies that are halted because a checkpoint shows that a log was rolled back
	RolledBack int `json:"rolledBack,omitempty"`
	// number of logs that witnesses contest without proof, counted per witness
	WitnessAlarms int `json:"witnessAlarms,omitempty"`
	// number of witnesses that do not answer, or refuse a log
	WitnessesBehind int `json:"witnessesBehind,omitempty"`
	// "behind" while this server, as a witness, signs nothing because it has lost what it signed
	Cosigner string `json:"cosigner,omitempty"`
}

// document is the API reference.
type document struct{ verbatim }

func (document) setHeader(h http.Header) { h.Set("Cache-Control", cacheHour) }

func (d document) writeTo(c *call, status int) error { return c.bytes(status, d.verbatim) }

func (s *Server) openAPI(context.Context, store.Caller, none) (document, error) {
	return document{web.OpenAPI()}, nil
}

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

// health says that the process answers. It asks nothing of the database.
func (s *Server) health(context.Context, store.Caller, none) (health, error) {
	return health{"ok"}, nil
}

// ready says whether a write could be carried out now: that the file is the one that was opened,
// that the clock fits it, and that nobody else holds it, and that it is not behind its head file;
// and how it stands with that. An addition to the specification.
func (s *Server) ready(ctx context.Context, _ store.Caller, _ none) (readiness, error) {
	r := readiness{Status: "ready", HeadFile: s.Store.Rollback.HeadFile(), TablesChanged: len(s.Store.Tables.Changed()), RolledBack: len(s.Store.Rollback.Halted())}
	for _, p := range s.witnessPublishers {
		r.WitnessAlarms += int(p.alarms.Load())
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
	// how many companies have tables that differ from their control logs
	TablesChanged int `json:"tablesChanged,omitempty"`
	// how many companies are halted, for a checkpoint shows that a log of theirs went back
	RolledBack int `json:"rolledBack,omitempty"`
	// how many logs witnesses contest that show no proof, counted for each witness
	WitnessAlarms int `json:"witnessAlarms,omitempty"`
	// "behind" while this server, as a witness, signs nothing, for it has forgotten what it signed
	Cosigner string `json:"cosigner,omitempty"`
}

// document is the API's reference.
type document struct{ verbatim }

func (document) setHeader(h http.Header) { h.Set("Cache-Control", cacheHour) }

func (d document) writeTo(c *call, status int) error { return c.bytes(status, d.verbatim) }

func (s *Server) openAPI(context.Context, store.Caller, none) (document, error) {
	return document{web.OpenAPI()}, nil
}

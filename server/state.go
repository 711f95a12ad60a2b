package server

import (
	"context"
	"net/http"
	"os"
	"time"

	"attestd/server/httpapi"
	"attestd/server/local"
)

// state returns how the server is, for its operator.
func (s *status) state(ctx context.Context) local.State {
	state := local.State{Program: "attestd/" + s.Version, Process: os.Getpid(), Began: s.began,
		Limits: s.Needs()}
	if s.listener != nil {
		state.Address = s.listener.Addr().String()
		state.Exposed = s.inForce().Exposed(s.listener.Addr())
	}
	ready, err := s.readiness(ctx)
	if state.Readiness, state.Reasons = ready.Status, ready.Reasons; err != nil {
		refused := httpapi.Classify(err)
		if state.Readiness = refused.Code; refused.Code == "" {
			state.Readiness = http.StatusText(refused.Status)
		}
	}
	now := time.Now()
	if s.Backups != nil {
		b := s.Backups.Status()
		state.Backups = &local.Backups{To: b.To, Newest: b.LastSuccess, Overdue: b.Overdue(now), Failures: b.Failures, Error: b.Err}
	}
	if s.exporter != nil {
		e := s.exporter.Status()
		state.Export = &local.Export{To: s.exporter.Destination.String(), IsBehind: s.exporter.IsBehind(now), Behind: e.Behind,
			Delivered: e.LastDelivered, Stopped: len(e.Stopped), Failures: e.Failures, Error: e.LastError}
	}
	if s.VerifyEvery > 0 {
		v := s.integrity.Status()
		state.Verification = &local.Verification{Ended: v.Last.Ended, Failing: v.Failing, Unread: v.Last.Unread, Saved: v.Saved}
	}
	if s.TLS != nil {
		c := s.TLS.Certificates.Status()
		state.Certificate = &local.Certificate{NotAfter: c.NotAfter, Ends: c.Ends(now), Error: c.LastError}
	}
	for _, p := range s.witnessPublishers {
		w := p.Status()
		state.Witnesses = append(state.Witnesses, local.Witness{Name: w.Name, Unreachable: w.Unreachable, Asked: w.Asked,
			Refused: w.Refused, Contested: w.Alarms})
	}
	return state
}

// inForce returns the configuration with the settings in force.
func (s *status) inForce() Config {
	c := s.Config
	c.Live = *s.live.Load()
	return c
}

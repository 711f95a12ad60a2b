package server

import (
	"sync/atomic"
	"time"

	"attestd/internal/keysets"
	"attestd/server/api"
	"attestd/server/httpapi"
	"attestd/server/jobs"
	"attestd/server/limit"
	"attestd/server/stream"
)

// background are the jobs of a server.
type background struct {
	deliverer         *jobs.Deliverer
	exporter          *jobs.Exporter           // nil for none
	witnessPublishers []*jobs.WitnessPublisher // one for each of Witnesses
	changes           *jobs.Changes
	tables            *jobs.TableWatch
	integrity         *jobs.Integrity
	retention         *jobs.Retention
	calls             *jobs.CallWatch
	readyCheck        *jobs.ReadyCheck
	clock             *jobs.Clock
	companies         *jobs.CompanyCount // runs for metrics alone
}

// status says how a server is: for /readyz, its metrics and its operator.
type status struct {
	Config // as at the start; live has what may change since
	background
	live          *atomic.Pointer[Live]
	api           *httpapi.API
	hub           *stream.Hub
	keySets       *keysets.Sets
	verifications *api.Verifications
	searches      *limit.Pool
	listener      *limit.Listener // of Run
	stopping      atomic.Bool     // Run was asked to stop
	began         time.Time
}

package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"attestd/server/httpapi"
	"attestd/server/jobs"
	"attestd/server/limit"
	"attestd/server/metrics"
	"attestd/store"
)

// values are the metrics that are read at each scrape. A new part of the server adds a line that
// reads its Status.
func (s *status) values() []metrics.Value {
	var exported []metrics.Value
	if s.exporter != nil {
		exported = exportValues(s.exporter.Status)
	}
	return slices.Concat(s.stateValues(), s.limitValues(), s.outsideValues(), s.integrityValues(),
		s.retentionValues(), s.backupValues(), s.certificateValues(), exported, s.companyValues(), s.localValues())
}

// stateValues are about readiness, the disk and the clock.
func (s *status) stateValues() []metrics.Value {
	disk := func() store.DiskStatus { return s.Store.Status().Disk }
	return []metrics.Value{
		metrics.GaugeBy("attestd_readiness", "1 for the state that /readyz reports: READY, DEGRADED, or the code of its 503.",
			"state", s.readinessStates),
		metrics.GaugeBy("attestd_degraded", "1 while /readyz reports this reason.", "reason", s.degradedStates),
		metrics.Gauge("attestd_commit_queue", "Calls that wait for a transaction.",
			func() float64 { return float64(s.Store.Status().Queue) }),
		metrics.GaugeBy("attestd_file_bytes", "Size of the files of the database: database, log, heads. 0 on PostgreSQL.",
			"file", func(emit metrics.Emit) {
				is := disk()
				emit("database", float64(is.Database))
				emit("log", float64(is.Log))
				emit("heads", float64(is.HeadFile))
			}),
		metrics.Gauge("attestd_disk_free_bytes", "Room on the disk of the database; -1 if unknown, as on PostgreSQL.",
			func() float64 {
				is := disk()
				if !is.FreeKnown {
					return -1
				}
				return float64(is.Free)
			}),
		metrics.Gauge("attestd_disk_floor_bytes", "The setting --disk-floor.", func() float64 { return float64(s.live.Load().DiskFloor) }),
		metrics.Counter("attestd_clock_leaps_total", "How often the clock was found to have been set by more than a minute.",
			func() float64 { return float64(s.clock.Status().Leaps) }),
		metrics.GaugeIf("attestd_clock_ahead_seconds", "By how much the clock is ahead of the PostgreSQL server's; 0 on a file.",
			func() (float64, bool) {
				clock := s.clock.Status()
				return clock.Ahead.Seconds(), clock.Compared || !s.Store.MultiWriter()
			}),
		metrics.GaugeBy("attestd_duty_held", "1 while this server has a duty that one of all servers has.", "duty",
			func(emit metrics.Emit) {
				for name, duty := range s.Store.Status().Duties {
					emit(name, truth(duty.Held && !duty.IsUnknown(time.Now())))
				}
			}),
	}
}

// limitValues are about what callers may spend and hold.
func (s *status) limitValues() []metrics.Value {
	pools := func() map[string]*limit.Pool {
		return map[string]*limit.Pool{
			"connections": s.listener.Pool(), "streams": s.hub.Places(), "bodies": s.api.Bodies, "webhooks": s.deliverer.Slots,
			"verifications": s.verifications.Requests, "searches": s.searches,
		}
	}
	return []metrics.Value{
		metrics.CounterBy("attestd_refusals_total", "Requests, connections, stream clients and others that a limit refused.",
			"limit", func(emit metrics.Emit) {
				for tier, n := range s.api.Limiter.Refusals() {
					emit("rate_"+tier, float64(n))
				}
				for name, pool := range pools() {
					_, refused := pool.Use()
					emit(name, float64(refused))
				}
			}),
		metrics.GaugeBy("attestd_limit_used", "What of a limit is in use.", "limit", func(emit metrics.Emit) {
			for name, pool := range pools() {
				held, _ := pool.Use()
				emit(name, float64(held))
			}
		}),
		metrics.GaugeBy("attestd_limit_size", "A limit as it is set; 0 for none.", "limit", func(emit metrics.Emit) {
			for name, pool := range pools() {
				emit(name, float64(pool.Most()))
			}
		}),
	}
}

// outsideValues are about the stream, webhooks, other issuers and witnesses.
func (s *status) outsideValues() []metrics.Value {
	return []metrics.Value{
		metrics.Gauge("attestd_stream_clients", "Clients of the stream.",
			func() float64 { return float64(s.hub.Status().Clients) }),
		metrics.Counter("attestd_stream_cut_total", "Clients of the stream that were too slow.",
			func() float64 { return float64(s.hub.Status().Cut) }),

		metrics.Gauge("attestd_webhooks_running", "Webhooks that this server serves.",
			func() float64 { return float64(s.deliverer.Status().Running) }),
		metrics.Gauge("attestd_webhooks_failing", "Webhooks whose last attempt failed.",
			func() float64 { return float64(s.deliverer.Status().Failing) }),
		metrics.Counter("attestd_webhooks_disabled_total", "Webhooks that were switched off because they failed.",
			func() float64 { return float64(s.deliverer.Status().Disabled) }),
		metrics.CounterBy("attestd_webhook_attempts_total", "Attempts to send a message, by outcome: delivered or failed.",
			"outcome", func(emit metrics.Emit) {
				status := s.deliverer.Status()
				emit("delivered", float64(status.Delivered))
				emit("failed", float64(status.Failed))
			}),

		metrics.Gauge("attestd_keysets", "Key sets of other issuers and of OAuth clients in memory.",
			func() float64 { return float64(s.keySets.Status().Sets) }),
		metrics.CounterBy("attestd_keyset_fetches_total", "Fetches of key sets, by outcome: fetched or failed.", "outcome",
			func(emit metrics.Emit) {
				status := s.keySets.Status()
				emit("fetched", float64(status.Fetched))
				emit("failed", float64(status.Failed))
			}),

		s.ofWitnesses("attestd_witness_unreachable", "1 while a witness cannot be asked.",
			func(w jobs.WitnessStatus) float64 { return truth(w.Unreachable) }),
		s.ofWitnesses("attestd_witness_waiting_logs", "Logs that have grown since a witness was asked about them.",
			func(w jobs.WitnessStatus) float64 { return float64(w.Waiting) }),
		s.ofWitnesses("attestd_witness_refused_logs", "Logs that a witness does not cosign.",
			func(w jobs.WitnessStatus) float64 { return float64(w.Refused) }),
		s.ofWitnesses("attestd_witness_contested_logs", "Logs that a witness contests without a proof.",
			func(w jobs.WitnessStatus) float64 { return float64(w.Alarms) }),
		s.ofWitnesses("attestd_witness_answered_timestamp_seconds", "When a witness could last be asked; 0 for never.",
			func(w jobs.WitnessStatus) float64 { return seconds(w.Asked) }),
	}
}

// integrityValues are about verification in the background and what it has found, by numbers of
// companies.
func (s *status) integrityValues() []metrics.Value {
	return []metrics.Value{
		metrics.Gauge("attestd_verification_companies", "Companies that the last verification in the background has checked.",
			func() float64 { return float64(s.integrity.Verification().Checked) }),
		metrics.Gauge("attestd_verification_failing_companies", "Companies with a log that does not verify, or with tables that differ from it.",
			func() float64 { return float64(s.integrity.Verification().Failing) }),
		metrics.Gauge("attestd_verification_ended_timestamp_seconds", "When the last one of all companies ended; 0 for never.",
			func() float64 { return seconds(s.integrity.Verification().Ended) }),
		metrics.Gauge("attestd_companies_rolled_back", "Companies that are halted: a log was rolled back or rewritten.",
			func() float64 { return float64(len(s.Store.Rollback.Halted())) }),
		metrics.Gauge("attestd_companies_tables_changed", "Companies whose tables differ from their control logs.",
			func() float64 { return float64(len(s.Store.Tables.Changed())) }),
	}
}

// seconds returns a timestamp as Prometheus has it; 0 for none.
func seconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixMilli()) / 1000
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// readinessStates emits all states, of which one is 1.
func (s *status) readinessStates(emit metrics.Emit) {
	r, err := s.readiness(context.Background())
	is := "READY"
	if err != nil {
		is = cmp.Or(httpapi.Classify(err).Code, "ERROR")
	} else if len(r.Reasons) > 0 {
		is = "DEGRADED"
	}
	for _, state := range append([]string{"READY", "DEGRADED", "ERROR"}, notReadyCodes...) {
		emit(state, truth(state == is))
	}
}

func (s *status) degradedStates(emit metrics.Emit) {
	reasons := s.degraded().Reasons
	for _, reason := range degradedReasons {
		emit(reason, truth(slices.Contains(reasons, reason)))
	}
}

// ofWitnesses reads a value of each witness, by name. Two witnesses may have one name.
func (s *status) ofWitnesses(name, help string, read func(jobs.WitnessStatus) float64) metrics.Value {
	return metrics.GaugeBy(name, help, "witness", func(emit metrics.Emit) {
		named := map[string]int{}
		for _, p := range s.witnessPublishers {
			w := p.Status()
			label := w.Name
			if named[w.Name]++; named[w.Name] > 1 {
				label = fmt.Sprintf("%s #%d", w.Name, named[w.Name])
			}
			emit(label, read(w))
		}
	})
}

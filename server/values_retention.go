package server

import (
	"attestd/server/metrics"
	"attestd/store"
)

// retentionValues are about rows that go some time after what they are for has ended.
func (s *status) retentionValues() []metrics.Value {
	return []metrics.Value{
		metrics.CounterBy("attestd_retention_deleted_rows_total", "Rows that this server has deleted because they had ended, by kind.", "kind",
			func(emit metrics.Emit) {
				deleted := s.retention.Status().Deleted
				for _, kind := range store.RetainedKinds {
					emit(kind, float64(deleted[kind]))
				}
			}),
		metrics.Gauge("attestd_retention_ended_timestamp_seconds", "When this server last looked at rows of every kind; 0 for never.",
			func() float64 { return seconds(s.retention.Status().Ended) }),
		metrics.Gauge("attestd_retention_failing", "1 while rows that have ended could not be deleted.",
			func() float64 { return truth(s.retention.Status().Err != nil) }),
	}
}

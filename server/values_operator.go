package server

import (
	"time"

	"attestd/server/export"
	"attestd/server/metrics"
	"attestd/store"
	"attestd/store/admin/backups"
)

// backupValues are about the backups that this server makes; none if it makes none.
func (s *status) backupValues() []metrics.Value {
	if s.Backups == nil {
		return nil
	}
	of := func(name, help string, read func(backups.Status) float64) metrics.Value {
		return metrics.Gauge(name, help, func() float64 { return read(s.Backups.Status()) })
	}
	return []metrics.Value{
		of("attestd_backup_timestamp_seconds", "When the newest backup that is done was begun; 0 if none is known.",
			func(b backups.Status) float64 { return seconds(b.LastSuccess) }),
		of("attestd_backup_interval_seconds", "The setting --backup-every.",
			func(b backups.Status) float64 { return b.Every.Seconds() }),
		of("attestd_backup_overdue", "1 while no backup was done for twice the interval, because they fail or hang.",
			func(b backups.Status) float64 { return truth(b.Overdue(time.Now())) }),
		of("attestd_backup_failures", "Attempts that failed since the last backup that is done.",
			func(b backups.Status) float64 { return float64(b.Failures) }),
		of("attestd_backup_running", "1 while a backup is made.",
			func(b backups.Status) float64 { return truth(b.Running) }),
		of("attestd_backup_bytes", "Size of the last backup that this process has made; 0 before the first.",
			func(b backups.Status) float64 { return float64(b.Size) }),
		of("attestd_backup_duration_seconds", "Time in which that one was made and verified.",
			func(b backups.Status) float64 { return b.Duration.Seconds() }),
		of("attestd_backup_not_removed", "Old backups that could not be removed.",
			func(b backups.Status) float64 { return float64(len(b.Left)) }),
	}
}

// certificateValues are about the certificate of TLS; none where a proxy speaks TLS. Without
// a certificate, the times have no series.
func (s *status) certificateValues() []metrics.Value {
	if s.TLS == nil {
		return nil
	}
	at := func(name, help string, read func() time.Time) metrics.Value {
		return metrics.GaugeIf(name, help, func() (float64, bool) {
			at := read()
			return seconds(at), !at.IsZero()
		})
	}
	status := s.TLS.Certificates.Status
	return []metrics.Value{
		at("attestd_certificate_not_before_timestamp_seconds", "When the certificate of TLS that ends first began.",
			func() time.Time { return status().NotBefore }),
		at("attestd_certificate_not_after_timestamp_seconds", "When the certificate of TLS that ends first ends.",
			func() time.Time { return status().NotAfter }),
		at("attestd_certificate_loaded_timestamp_seconds", "When a certificate of TLS was taken into use last.",
			func() time.Time { return status().Loaded }),
		metrics.Gauge("attestd_certificate_failing", "1 while a newer certificate cannot be read, or the CA issues none.",
			func() float64 { return truth(status().LastError != "") }),
	}
}

// exportValues are about the export. While another server has the duty, they have
// no series; what the first look at the logs finds has none before it.
func exportValues(status func() export.Status) []metrics.Value {
	onDuty := func(read func(export.Status) float64) func() (float64, bool) {
		return func() (float64, bool) {
			now := status()
			return read(now), now.Destination != ""
		}
	}
	of := func(name, help string, read func(export.Status) float64) metrics.Value {
		return metrics.GaugeIf(name, help, onDuty(read))
	}
	return []metrics.Value{
		metrics.GaugeIf("attestd_export_behind_records", "Records that the receiver had not acknowledged at the last look.",
			func() (float64, bool) {
				e := status()
				return float64(e.Behind), e.Measured
			}),
		metrics.GaugeIf("attestd_export_lag_seconds", "For how long there have been such records, or the export has failed; 0 if neither is so.",
			func() (float64, bool) {
				e := status()
				if e.BehindSince.IsZero() {
					return 0, e.Measured
				}
				return max(0, time.Since(e.BehindSince)).Seconds(), true
			}),
		metrics.CounterIf("attestd_export_delivered_lines_total", "Lines that the receiver has acknowledged since the export began here.",
			onDuty(func(e export.Status) float64 { return float64(e.Delivered) })),
		of("attestd_export_delivered_timestamp_seconds", "When it last acknowledged any; 0 for never.",
			func(e export.Status) float64 { return seconds(e.LastDelivered) }),
		of("attestd_export_failures", "Deliveries that failed since the last one that did not.",
			func(e export.Status) float64 { return float64(e.Failures) }),
		metrics.GaugeIf("attestd_export_stopped_logs", "Logs that cannot be exported.", func() (float64, bool) {
			e := status()
			return float64(len(e.Stopped)), e.Measured || len(e.Stopped) > 0
		}),
	}
}

// companyValues are about companies and quotas, by numbers. A quota that is not set has no series.
func (s *status) companyValues() []metrics.Value {
	counted := func(name, help string, read func(*store.Usage) float64) metrics.Value {
		return metrics.GaugeIf(name, help, func() (float64, bool) {
			usage := s.companies.Status()
			if usage == nil {
				return 0, false
			}
			return read(usage), true
		})
	}
	return []metrics.Value{
		counted("attestd_companies", "Companies, as counted within the last minutes.",
			func(u *store.Usage) float64 { return float64(u.Companies) }),
		counted("attestd_companies_suspended", "Companies that an operator has suspended.",
			func(u *store.Usage) float64 { return float64(u.Suspended) }),
		metrics.GaugeBy("attestd_quota_used", "What all companies have of a quota for all.", "quota", func(emit metrics.Emit) {
			if usage := s.companies.Status(); usage != nil {
				emit("total-records", float64(usage.Records))
				emit("total-bytes", float64(usage.Bytes))
				emit("companies", float64(usage.Companies))
			}
		}),
		metrics.GaugeBy("attestd_quota_size", "A quota as it is set.", "quota", func(emit metrics.Emit) {
			q := s.Store.QuotaStatus().Quotas
			for name, most := range map[string]int64{"records": q.Records, "bytes": q.Bytes, "total-records": q.AllRecords,
				"total-bytes": q.AllBytes, "companies": q.Companies, "companies-per-day": q.CompaniesPerDay} {
				if most > 0 {
					emit(name, float64(most))
				}
			}
		}),
		metrics.CounterBy("attestd_company_refusals_total", "Writes that were refused, by reason: quota or suspended.", "reason",
			func(emit metrics.Emit) {
				status := s.Store.QuotaStatus()
				emit("quota", float64(status.RefusedByQuota))
				emit("suspended", float64(status.RefusedSuspended))
			}),
	}
}

// localValues are about the owner's socket; none on PostgreSQL, which has none.
func (s *status) localValues() []metrics.Value {
	if s.Local == nil {
		return nil
	}
	return []metrics.Value{
		metrics.CounterBy("attestd_socket_requests_total",
			"What came to the socket beside the database: requests served, connections of others refused, and requests that came while it was busy.", "outcome",
			func(emit metrics.Emit) {
				if status := s.Local.Status(); status.Path != "" {
					emit("served", float64(status.Served))
					emit("refused", float64(status.Refused))
					emit("busy", float64(status.Busy))
				}
			}),
	}
}

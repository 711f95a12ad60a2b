package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"attestd/server/httpapi"
	"attestd/server/jobs"
	"attestd/store"
	"attestd/store/db"
)

// Codes of reasons in the answer of /readyz: why the server is degraded. Anybody may read them, so
// they name no company, file or host. The log has the details.
const (
	reasonBackup        = "BACKUP_OVERDUE"
	reasonCertificate   = "CERTIFICATE_ENDS"
	reasonClockApart    = "CLOCK_APART"
	reasonClockLeap     = "CLOCK_LEAP"
	reasonCosigner      = "COSIGNER_BEHIND"
	reasonDisobeyed     = "DISOBEYED"
	reasonDuty          = "DUTY_UNKNOWN"
	reasonExport        = "EXPORT_BEHIND"
	reasonHeadFile      = "HEAD_FILE_BEHIND"
	reasonLogFailed     = "LOG_FAILED"
	reasonRolledBack    = "ROLLED_BACK"
	reasonTables        = "TABLES_CHANGED"
	reasonWitnessAlarm  = "WITNESS_ALARM"
	reasonWitnessSilent = "WITNESS_SILENT"
)

// Codes with which only /readyz is 503. A write answers the other ones too.
const (
	codeDiskLow  = "DISK_LOW"
	codeStopping = "STOPPING"
)

// degradedReasons and notReadyCodes are all codes, for metrics.
var (
	degradedReasons = []string{reasonBackup, reasonCertificate, reasonClockApart, reasonClockLeap, reasonCosigner, reasonDisobeyed, reasonDuty,
		reasonExport, reasonHeadFile, reasonLogFailed, reasonRolledBack, reasonTables, reasonWitnessAlarm, reasonWitnessSilent}
	notReadyCodes = []string{"CLOCK", "DATABASE_DAMAGED", codeDiskLow, "FILE_CHANGED", "NOT_DONE", "OUTCOME_UNKNOWN",
		"ROLLED_BACK", codeStopping}
)

type readiness struct {
	Status string `json:"status"`
	// codes of what is wrong while writes are possible
	Reasons  []string `json:"reasons,omitempty"`
	HeadFile string   `json:"headFile,omitempty"`
	// number of companies whose tables differ from their control logs
	TablesChanged int `json:"tablesChanged,omitempty"`
	// number of companies that are halted because a checkpoint shows that a log was rolled back
	RolledBack int `json:"rolledBack,omitempty"`
	// number of logs that the background verification has found not to verify
	LogsFailed int `json:"logsFailed,omitempty"`
	// number of logs that witnesses contest without proof, counted per witness
	WitnessAlarms int `json:"witnessAlarms,omitempty"`
	// number of witnesses that do not answer, or refuse a log
	WitnessesBehind int `json:"witnessesBehind,omitempty"`
	// "behind" while this server, as a witness, signs nothing because it has lost what it signed
	Cosigner string `json:"cosigner,omitempty"`
	// number of calls that were found in the last day to have run although they were refused
	CallsDisobeyed int `json:"callsDisobeyed,omitempty"`
}

// ready reports whether a write is possible now: the server is not stopping, the database accepts a
// write, and its disk has room. Where writes are possible it says what else is wrong. It is an
// addition to the specification.
func (s *status) ready(ctx context.Context, _ store.Caller, _ httpapi.None) (readiness, error) {
	return s.readiness(ctx)
}

func (s *status) readiness(ctx context.Context) (readiness, error) {
	if s.stopping.Load() {
		return readiness{}, &httpapi.Error{Status: 503, Code: codeStopping, Message: "Service Unavailable: the server is stopping"}
	}
	if err := s.writable(ctx); err != nil {
		return readiness{}, err
	}
	if s.diskLow(s.Store.Status().Disk) {
		return readiness{}, &httpapi.Error{Status: 503, Code: codeDiskLow,
			Message: "Service Unavailable: the disk of the database has less room than the server demands"}
	}
	return s.degraded(), nil
}

// writable returns nil if the store can write, or the error that a write would get.
func (s *status) writable(ctx context.Context) error {
	err := s.readyCheck.Ask(ctx)
	if late := (*jobs.NoAnswerError)(nil); errors.As(err, &late) {
		return httpapi.Unavailable("NOT_DONE", "the database does not answer", late.Cause).With("Retry-After", "1")
	}
	return err
}

// diskLow reports whether the file system of the database has less room than Live.DiskFloor.
func (s *status) diskLow(disk store.DiskStatus) bool {
	return disk.FreeKnown && disk.Free < s.live.Load().DiskFloor
}

// degraded returns the state of a server that can write. It uses no database.
func (s *status) degraded() readiness {
	status := s.Store.Status()
	r := readiness{Status: "ready", HeadFile: status.HeadFile, TablesChanged: len(s.Store.Tables.Changed()),
		RolledBack: len(s.Store.Rollback.Halted()), LogsFailed: s.integrity.Status().Failing, CallsDisobeyed: s.calls.Disobeyed()}
	silent := false
	for _, p := range s.witnessPublishers {
		w := p.Status()
		r.WitnessAlarms += w.Alarms
		silent = silent || w.Unreachable
		if w.Unreachable || w.Refused > 0 {
			r.WitnessesBehind++
		}
	}
	if s.Store.Cosigner.Stopped() != nil {
		r.Cosigner = "behind"
	}
	now := time.Now()
	isUnknown := func(d db.DutyStatus) bool { return d.IsUnknown(now) }
	dutyUnknown := false
	for _, d := range status.Duties {
		dutyUnknown = dutyUnknown || isUnknown(d)
	}
	for reason, holds := range map[string]bool{
		reasonBackup:        s.Backups != nil && s.Backups.Status().Overdue(now),
		reasonCertificate:   s.TLS != nil && s.TLS.Certificates.Status().Ends(now),
		reasonClockApart:    s.clock.Status().Apart,
		reasonClockLeap:     status.ClockLeapt,
		reasonCosigner:      r.Cosigner != "",
		reasonDisobeyed:     r.CallsDisobeyed > 0,
		reasonDuty:          dutyUnknown,
		reasonExport:        s.exporter != nil && s.exporter.IsBehind(now),
		reasonHeadFile:      r.HeadFile == "behind",
		reasonLogFailed:     r.LogsFailed > 0,
		reasonRolledBack:    r.RolledBack > 0,
		reasonTables:        r.TablesChanged > 0,
		reasonWitnessAlarm:  r.WitnessAlarms > 0,
		reasonWitnessSilent: silent,
	} {
		if holds {
			r.Reasons = append(r.Reasons, reason)
		}
	}
	if slices.Sort(r.Reasons); len(r.Reasons) > 0 {
		r.Status = "degraded"
	}
	return r
}

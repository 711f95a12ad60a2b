package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"attestd/server/local"
	"attestd/store"
)

const (
	noServer   = "no server runs"
	aboutReady = "see docs/operate/readiness.md, \"Readiness\""
)

// remedies says what to do about the codes of /readyz.
var remedies = map[string]string{
	"BACKUP_OVERDUE":   "the server's log says why backups fail",
	"CERTIFICATE_ENDS": "put a new certificate in place, or see in the server's log why the CA issues none",
	"EXPORT_BEHIND":    "look at the receiver of the export",
	"CLOCK_LEAP":       "set the clock right, and do not restart the server before",
	"CLOCK":            "set the clock right, or start once with --accept-clock when it is",
	"CLOCK_APART":      "set the clocks of this machine and of the database by NTP",
	"HEAD_FILE_BEHIND": "make the head file writable",
	"LOG_FAILED":       "run attestd verify, then restore a backup",
	"WITNESS_SILENT":   "the server's log names the witness; ask its operator",
	"WITNESS_ALARM":    "the server's log names witness and log; ask the witness's operator",
	"COSIGNER_BEHIND":  "put the right database in place, or run attestd accept-rollback",
	"TABLES_CHANGED":   "run attestd verify, then restore a backup or run attestd accept-tables",
	"ROLLED_BACK":      "put the right database in place, or run attestd accept-rollback",
	"DUTY_UNKNOWN":     "look at the connection to the database",
	"DISK_LOW":         "make room, or add a disk",
	"STOPPING":         "none: the server stops",
	"FILE_CHANGED":     "restart the server before anything else",
	"DATABASE_DAMAGED": "stop the server, run attestd verify, and restore a backup",
	"NOT_DONE":         "look at the disk, and at the server's log",
	"OUTCOME_UNKNOWN":  "look at the disk, and at the server's log",
}

func remedyOf(code string) string {
	if remedy, known := remedies[code]; known {
		return remedy
	}
	return aboutReady
}

func (x *examination) running(context.Context) *finding {
	s := x.server
	switch {
	case x.path == "":
		return skipped("a server of a PostgreSQL database has no socket; --url asks one whether it is ready")
	case errors.Is(x.asked, local.ErrNone):
		return ok("no server answers on the database's socket")
	case errors.Is(x.asked, store.ErrRefused):
		return warned("the server cannot be asked: "+x.asked.Error(), asServer+", or as root")
	case s == nil:
		return warned("the server does not say how it is: "+x.asked.Error(), "restart it if it is of an older version, or hangs")
	}
	f := ok(fmt.Sprintf("%s, process %d, since %s, on %s", s.Program, s.Process, instant(s.Began), s.Address))
	if s.Program != x.Program {
		f.add(Warn, fmt.Sprintf("the server is %s, and this program %s", s.Program, x.Program), "restart the server to run the newer one")
	}
	return f
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// ago returns the age of something, for people.
func (x *examination) ago(t time.Time) string {
	return fmt.Sprintf("%s (%s)", instant(t), humanize.RelTime(t, x.Now, "ago", "in the future"))
}

// silent is the finding of a check that is about what the server knows, or nil if the server
// reported it.
func (x *examination) silent() *finding {
	switch {
	case x.server != nil:
		return nil
	case x.path == "":
		return skipped("only the servers know, and those of a PostgreSQL database have no socket")
	case errors.Is(x.asked, local.ErrNone):
		return skipped(noServer)
	}
	return skipped("the server does not say")
}

func (x *examination) readiness(ctx context.Context) *finding {
	if x.server != nil {
		return readinessFinding(x.server.Readiness, x.server.Reasons)
	}
	if x.Readyz == nil {
		return x.silent()
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	state, reasons, err := x.Readyz(ctx)
	if err != nil {
		return failed("the server is not ready: "+err.Error(), aboutReady)
	}
	return readinessFinding(state, reasons)
}

func readinessFinding(state string, reasons []string) *finding {
	f := ok("the server says: " + state)
	switch state {
	case "ready":
		return f
	case "degraded":
		for _, code := range reasons {
			f.add(Warn, "the server says: "+code, remedyOf(code))
		}
		if len(reasons) > 0 {
			return f
		}
		return f.add(Warn, "the server says: degraded", aboutReady)
	}
	return f.add(Fail, "the server says: "+state, remedyOf(state))
}

func (x *examination) verification(context.Context) *finding {
	if f := x.silent(); f != nil {
		return f
	}
	v := x.server.Verification
	if v == nil {
		return skipped("the server verifies nothing in the background (--verify-every off)")
	}
	f := ok("the server says: no pass has ended yet")
	if !v.Ended.IsZero() {
		f = ok("the server says: all logs were last verified at " + x.ago(v.Ended))
	}
	if v.Failing > 0 {
		f.add(Fail, fmt.Sprintf("the server says: %d logs do not verify", v.Failing), remedies["LOG_FAILED"])
	}
	if !v.Saved {
		f.add(Warn, "the server says: what was verified cannot be saved, so the next start verifies in full", "let the server write the folder of the head file")
	}
	if v.Unread > 0 {
		f.add(Warn, fmt.Sprintf("the server says: %d companies could not be read in the last pass", v.Unread), "look at the disk, and at the server's log")
	}
	return f
}

func (x *examination) export(context.Context) *finding {
	if f := x.silent(); f != nil {
		return f
	}
	e := x.server.Export
	if e == nil {
		return skipped("the server exports nothing (--export-to)")
	}
	f := ok("the server says: exported to " + e.To)
	if !e.Delivered.IsZero() {
		f.note("last acknowledged at " + instant(e.Delivered))
	}
	if e.Stopped > 0 {
		f.add(Fail, fmt.Sprintf("the server says: %d logs cannot be exported", e.Stopped), "the server's log names them")
	}
	if e.IsBehind || e.Failures > 0 {
		f.add(Warn, fmt.Sprintf("the server says: %d records wait for %s, %d deliveries failed: %s", e.Behind, e.To, e.Failures, e.Error),
			remedies["EXPORT_BEHIND"])
	}
	return f
}

func (x *examination) witnesses(context.Context) *finding {
	if f := x.silent(); f != nil {
		return f
	}
	if len(x.server.Witnesses) == 0 {
		return skipped("the server has no witness (--witness)")
	}
	f := ok()
	var names []string
	for _, w := range x.server.Witnesses {
		names = append(names, w.Name)
		switch {
		case w.Contested > 0:
			f.add(Fail, fmt.Sprintf("the server says: %s contests %d logs", w.Name, w.Contested), remedies["WITNESS_ALARM"])
		case w.Unreachable:
			last := "it never could"
			if !w.Asked.IsZero() {
				last = "it last could at " + instant(w.Asked)
			}
			f.add(Warn, fmt.Sprintf("the server says: %s cannot be asked; %s", w.Name, last), "ask the witness's operator")
		case w.Refused > 0:
			f.add(Warn, fmt.Sprintf("the server says: %s does not cosign %d logs", w.Name, w.Refused),
				"give the witness's operator the lines of these logs; see docs/operate/integrity.md, \"Have a witness, and be one\"")
		}
	}
	f.note("the server says: cosigned by " + strings.Join(names, ", "))
	return f
}

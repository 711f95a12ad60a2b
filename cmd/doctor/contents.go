package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"attestd/chain"
	"attestd/store"
	"attestd/store/db"
)

const (
	// how far a clock may be off without a finding
	clockLeeway = time.Minute
	// the same with other servers of a PostgreSQL database
	sharedLeeway = time.Second

	// A head file has 1 KiB for each company, and 512 bytes for each log that is cosigned.
	mostHeads, headsOfCompany = 64 << 20, 4 << 10

	restoreBackup = "stop the server and restore a backup"
	setClock      = "set the clock by NTP"
	// names of logs and companies in a finding; the verdicts on all are those of attestd verify
	mostNamed = 3
)

func (x *examination) clock(ctx context.Context) *finding {
	if f := x.unread(); f != nil {
		return f
	}
	newest, err := x.store.CheckClock(ctx, x.Now)
	if errors.Is(err, store.ErrClock) {
		return failed(err.Error()+": nothing is written", remedies["CLOCK"])
	}
	if err != nil {
		return failed(err.Error(), restoreBackup)
	}
	f := ok("the clock says " + instant(x.Now))
	if newest > chain.FormatTime(x.Now.Add(clockLeeway)) {
		f.add(Warn, fmt.Sprintf("the newest time in the database, %s, is in the future: the clock is behind, or was ahead", newest), setClock)
	}
	ahead, within, err := x.store.ClockAhead(ctx, time.Now)
	if err == nil && ahead.Abs() > sharedLeeway+within {
		f.add(Warn, fmt.Sprintf("the clock is %s ahead of the database's", ahead.Round(time.Millisecond)), remedies["CLOCK_APART"])
	}
	return f
}

func (x *examination) sealing(ctx context.Context) *finding {
	if f := x.unread(); f != nil {
		return f
	}
	id := x.store.MasterKeyID()
	if id == "" {
		return warned("private keys and API keys are in plaintext in the database", "attestd help rekey says how to seal them with a master key")
	}
	f := ok("sealed with master key " + id)
	if x.store.IsScrubDue() {
		f.add(Warn, "attestd rekey was not carried to its end: free pages may hold keys as they stood before it", "run the same attestd rekey once more")
	}
	master, err := x.Master(ctx)
	if err == nil && master == nil {
		f.note("no --master-key-file was given, so none was tried")
		return f
	}
	if err == nil {
		err = x.store.Unseal(master)
	}
	if err != nil {
		return f.add(Fail, err.Error(), "give serve the master key that the database is sealed with, in a file that only its user can read")
	}
	f.note("the one that was given opens them")
	if x.MasterFile != "" && x.path != "" {
		if file, err := db.Absolute(x.MasterFile); err == nil && filepath.Dir(file) == filepath.Dir(x.path) {
			f.add(Warn, "the master key is in the folder of the database, so a copy of the folder has both", "move the master key elsewhere")
		}
	}
	return f
}

func (x *examination) guards(ctx context.Context) *finding {
	if f := x.unread(); f != nil {
		return f
	}
	// Rows without their company are looked for in all tables at once.
	verify, what := x.store.Check, "tables, indices and guards are those of this program, and each row has its company"
	if x.Quick || x.serverRuns() {
		verify, what = x.store.CheckGuards, "tables, indices and guards are those of this program"
	}
	if err := verify(ctx, x.Schema); err != nil {
		remedy := restoreBackup
		if errors.Is(err, store.ErrNewer) {
			remedy = "use the program that wrote it, or a newer one"
		}
		return failed(err.Error(), remedy)
	}
	return ok(what)
}

func (x *examination) pages(ctx context.Context) *finding {
	if f := x.unread(); f != nil {
		return f
	}
	switch {
	case x.path == "":
		return skipped("PostgreSQL checks its pages itself (data_checksums, pg_amcheck)")
	case x.serverRuns():
		return skipped("it would hold up the checkpoints of the server; every backup makes this check on its copy")
	}
	err := x.store.Read(ctx, func(c *db.Conn) error { return c.CheckPages(ctx) })
	if err != nil {
		return failed(err.Error(), "restore a backup")
	}
	return ok("SQLite finds every page and index in order")
}

func (x *examination) heads(ctx context.Context) *finding {
	if x.Heads == "" {
		return skipped("there is no head file (--heads), so an older database in the place of this one would not be noticed")
	}
	if f := x.unread(); f != nil {
		return f
	}
	companies, err := x.store.Companies.Count(ctx)
	if info, missing := os.Stat(x.Heads); err == nil && missing == nil && info.Size() > mostHeads+companies*headsOfCompany {
		return failed(fmt.Sprintf("%s has %s, too much for a head file of %d companies, and is not read", x.Heads, bytes(info.Size()), companies),
			"put the right head file in place; see docs/operate/integrity.md, \"Detect and accept a rollback\"")
	}
	if err == nil {
		err = x.store.Rollback.Check(ctx, x.Heads)
	}
	switch {
	case err == nil:
		return ok("the database has all that " + x.Heads + " knows")
	case errors.Is(err, fs.ErrNotExist):
		return warned("there is no head file "+x.Heads+": an older database in the place of this one would not be noticed",
			"name that of serve with --heads, or start the server, which makes one")
	case errors.Is(err, store.ErrRolledBack):
		return failed(err.Error(), remedies["ROLLED_BACK"])
	}
	return failed(err.Error(), "see docs/operate/integrity.md, \"Detect and accept a rollback\"")
}

// recount is the remedy where quotas are applied wrongly.
const recount = "run attestd verify --recount; on SQLite, stop the server first"

// verify verifies all logs and tables.
func (x *examination) verify(ctx context.Context) map[string]*finding {
	if x.storeErr != nil {
		return map[string]*finding{"tables": x.unread(), "chains": x.unread()}
	}
	tables, chains := ok("the tables are what the control logs say"), ok()
	differ, fail, miscounted, logs := 0, 0, 0, 0
	var records int64
	err := x.store.VerifyAll(ctx, "", runtime.GOMAXPROCS(0), func(v store.ChainVerdict) {
		logs, records = logs+1, records+v.Length
		what := fmt.Sprintf("%s, record %d: %s", v.Title(), v.FailedAt, v.Reason)
		switch {
		case v.Bytes != nil:
			if miscounted++; miscounted <= mostNamed {
				chains.add(Warn, fmt.Sprintf("%s: %v", v.Title(), v.Bytes), recount)
			}
		case v.Valid:
		case v.TablesDiffer:
			if differ++; differ <= mostNamed {
				tables.add(Fail, what, remedies["TABLES_CHANGED"])
			}
		default:
			if fail++; fail <= mostNamed {
				chains.add(Fail, what, restoreBackup)
			}
		}
	}, x.Progress)
	if fail > 0 {
		tables.fine = []string{"the tables are what those control logs say that verify"}
	}
	if miscounted > mostNamed {
		chains.add(Warn, fmt.Sprintf("and %d more count their bytes wrongly", miscounted-mostNamed), recount)
	}
	for f, n := range map[*finding]int{tables: differ, chains: fail} {
		if n > mostNamed {
			f.add(Fail, fmt.Sprintf("and %d more", n-mostNamed), "attestd verify lists all")
		}
	}
	if err != nil && !store.IsVerdict(err) {
		// what was not reached is not known to be in order
		chains.add(Fail, err.Error(), "look at the disk, or the connection to the database")
		if differ == 0 {
			tables = skipped("the verification did not come to its end")
		}
	}
	chains.note(fmt.Sprintf("%d logs with %d records verify", logs, records))
	return map[string]*finding{"tables": tables, "chains": chains}
}

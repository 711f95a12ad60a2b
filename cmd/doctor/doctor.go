// Package doctor checks an installation: the database, the files next to it, the settings of its
// server and, where one runs, what that says of itself. It takes no lock, makes no checkpoint and
// writes nothing to the database, so a running server is not disturbed. Each check makes one
// finding, with a remedy where something is wrong.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"attestd/crypto/seal"
	"attestd/server"
	"attestd/server/https"
	"attestd/server/local"
	"attestd/store"
	"attestd/store/admin/backups"
	"attestd/store/db"
	"attestd/store/sqlite"
)

// State is what a check has found.
type State string

const (
	OK      State = "ok"
	Warn    State = "warn"    // the service continues, and an operator should look
	Fail    State = "fail"    // the service, its data or its safety net is broken
	Skipped State = "skipped" // not checked, for the reason in Detail
)

// Finding is the result of one check.
type Finding struct {
	Check  string `json:"check"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

// Report has the findings of all checks, in the order of Checks.
type Report struct {
	Form     string    `json:"form"`
	Program  string    `json:"program"`
	Database string    `json:"database"`
	At       time.Time `json:"at"`
	State    State     `json:"state"` // the worst of the findings: ok, warn or fail
	Findings []Finding `json:"findings"`
}

// form is the version of a report's form.
const form = "attestd doctor 1"

// Options say what is checked, and where it is.
type Options struct {
	DB      string // a file, or the URL of a PostgreSQL database
	Heads   string // the head file; "" for none
	Schema  string
	Program string // attestd/VERSION
	Now     time.Time
	// checks that are left out; Quick leaves out those that read the whole database
	Skip  []string
	Quick bool

	// returns the master key, or nil for none
	Master     func(context.Context) (*seal.Master, error)
	MasterFile string // where it is; "" for elsewhere

	// as the flags and variables of serve say, or why serve would refuse them
	Config    server.Config
	ConfigErr error
	Listen    string
	// whether serve starts on a network file system
	AllowNetworkFS bool
	Host           string                      // of the public address; "" if it is not known
	TLS            func() (Certificate, error) // nil without TLS

	Backups     func() (backups.Place, error) // nil for none
	BackupEvery time.Duration

	// asks a server's /readyz; nil asks none
	Readyz func(context.Context) (state string, reasons []string, err error)
	// of the verification, in records; may be nil
	Progress func(done, total int64)
}

// Certificate is that of TLS, read from its files.
type Certificate struct {
	https.Status
	IsFor func(host string) error // nil if the certificate is for the host
}

const (
	answerTimeout = 15 * time.Second // of a server
	placeTimeout  = 2 * time.Minute  // of a place of backups
)

// examination is the state of one run.
type examination struct {
	Options
	path     string      // of the file, absolute; "" on PostgreSQL
	wal      fs.FileInfo // of the write-ahead log, before the database was opened
	walErr   error
	store    *store.Store
	storeErr error
	server   *local.State // nil if none runs, or it does not say
	asked    error        // why server is nil
}

type check struct {
	name string
	run  func(*examination, context.Context) *finding
	// it reads the whole database
	long bool
}

// all are the checks. Verification makes the findings of tables and of chains at once, so chains
// follows it.
var all = []check{
	{"settings", (*examination).settings, false},
	{"server", (*examination).running, false},
	{"readiness", (*examination).readiness, false},
	{"database", (*examination).database, false},
	{"links", (*examination).links, false},
	{"filesystem", (*examination).fileSystem, false},
	{"permissions", (*examination).permissions, false},
	{"space", (*examination).space, false},
	{"log", (*examination).log, false},
	{"locks", (*examination).locks, false},
	{"clock", (*examination).clock, false},
	{"sealing", (*examination).sealing, false},
	{"guards", (*examination).guards, false},
	{"heads", (*examination).heads, false},
	{"pages", (*examination).pages, true},
	{"tables", nil, true},
	{"chains", nil, true},
	{"verification", (*examination).verification, false},
	{"backups", (*examination).backups, false},
	{"export", (*examination).export, false},
	{"witnesses", (*examination).witnesses, false},
	{"tls", (*examination).tls, false},
	{"listen", (*examination).listen, false},
	{"limits", (*examination).limits, false},
}

// Checks returns the names of all checks.
func Checks() (names []string) {
	for _, c := range all {
		names = append(names, c.name)
	}
	return names
}

// Run makes all checks. each, if not nil, is called with every finding. The error is that of ctx.
func Run(ctx context.Context, o Options, each func(Finding)) (Report, error) {
	x := &examination{Options: o}
	defer x.open(ctx)()
	r := Report{Form: form, Program: o.Program, Database: db.Name(o.DB), At: o.Now.UTC().Truncate(time.Second), State: OK}
	var both map[string]*finding // of the verification
	for _, c := range all {
		var f *finding
		switch {
		case slices.Contains(o.Skip, c.name):
			f = skipped("left out by --skip")
		case c.long && o.Quick:
			f = skipped("left out by --quick")
		case c.run != nil:
			f = c.run(x, ctx)
		default:
			if both == nil {
				both = x.verify(ctx)
			}
			f = both[c.name]
		}
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		found := f.finding(c.name)
		if each != nil {
			each(found)
		}
		if r.Findings = append(r.Findings, found); worse(found.State, r.State) {
			r.State = found.State
		}
	}
	return r, nil
}

// open opens the database for reading, and asks its server.
func (x *examination) open(ctx context.Context) (closed func()) {
	if !db.IsPostgres(x.DB) {
		// Of a file that is not there the path is typed as it is.
		if path, err := db.Absolute(x.DB); err == nil {
			x.path = path
		} else {
			x.path = x.DB
		}
	}
	x.ask(ctx)
	if x.path != "" {
		x.wal, x.walErr = os.Lstat(x.path + "-wal")
	}
	if x.serverRuns() && errors.Is(x.walErr, fs.ErrNotExist) {
		// SQLite would lay another log there
		x.storeErr = errors.New("the write-ahead log was deleted under the server, so the database is not opened")
		return func() {}
	}
	if x.path != "" {
		if err := sqlite.CheckLinks(x.path); err != nil {
			x.storeErr = fmt.Errorf("the database is not opened: %w", err)
			return func() {}
		}
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answerTimeout)
		defer cancel()
	}
	if x.store, x.storeErr = store.OpenReadOnly(ctx, x.DB); x.storeErr != nil {
		return func() {}
	}
	return func() { _ = x.store.Close() }
}

func (x *examination) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	client, err := local.Dial(ctx, x.DB)
	if err == nil {
		var state local.State
		if state, err = client.State(ctx); err == nil {
			x.server = &state
		}
	}
	x.asked = err
}

// serverRuns reports whether a server has the file open, as far as that is known.
func (x *examination) serverRuns() bool { return x.path != "" && !errors.Is(x.asked, local.ErrNone) }

// unread is the finding of a check that needs the database, or nil if it can be read.
func (x *examination) unread() *finding {
	if x.storeErr != nil {
		return skipped("the database cannot be read")
	}
	return nil
}

// address returns the address of --listen.
func (x *examination) address() (net.Addr, error) { return net.ResolveTCPAddr("tcp", x.Listen) }

func worse(a, b State) bool {
	order := []State{Skipped, OK, Warn, Fail}
	return slices.Index(order, a) > slices.Index(order, b)
}

// finding collects what a check has found.
type finding struct {
	state             State
	fine              []string // what is in order
	wrong, remediedBy []string
}

func ok(detail ...string) *finding    { return &finding{state: OK, fine: detail} }
func skipped(reason string) *finding  { return &finding{state: Skipped, fine: []string{reason}} }
func (f *finding) note(detail string) { f.fine = append(f.fine, detail) }

// add adds what is wrong, and what to do.
func (f *finding) add(state State, wrong, remedy string) *finding {
	if worse(state, f.state) {
		f.state = state
	}
	f.wrong = append(f.wrong, wrong)
	if remedy != "" && !slices.Contains(f.remediedBy, remedy) {
		f.remediedBy = append(f.remediedBy, remedy)
	}
	return f
}

func failed(wrong, remedy string) *finding { return ok().add(Fail, wrong, remedy) }
func warned(wrong, remedy string) *finding { return ok().add(Warn, wrong, remedy) }

func (f *finding) finding(check string) Finding {
	detail := f.fine
	if len(f.wrong) > 0 {
		detail = f.wrong
	}
	return Finding{check, f.state, shorten(strings.Join(detail, "; ")), shorten(strings.Join(f.remediedBy, "; "))}
}

// maxText bounds a text of a finding, in bytes: a damaged file decides how long an error is.
const maxText = 4096

func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

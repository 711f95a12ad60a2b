package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"attestd/internal/testenv"
)

// Pooler is a PgBouncer in front of one database.
type Pooler struct {
	t       testing.TB
	folder  *folder
	account *account
	backend *url.URL
	port    int
	options string
	process *os.Process
	ended   chan struct{} // closed after the process was waited for
}

// NewPooler starts a PgBouncer in front of the database with a URL from Database, with a pool_mode
// (session, transaction or statement) and more lines for its configuration. The program is
// $ATTESTD_TEST_PGBOUNCER, or from $PATH; without one the test is skipped, but fails in CI. The
// pooler ends with the test.
func NewPooler(t testing.TB, database, mode, options string) *Pooler {
	t.Helper()
	program := os.Getenv("ATTESTD_TEST_PGBOUNCER")
	if program == "" {
		var err error
		if program, err = exec.LookPath("pgbouncer"); err != nil {
			// Debian's path, which may be missing from $PATH
			program, err = "/usr/sbin/pgbouncer", nil
		}
	}
	if _, err := os.Stat(program); err != nil {
		testenv.Missing(t, "PgBouncer is not installed: apt-get install pgbouncer")
	}
	backend, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	p := &Pooler{t: t, account: installed(t).account, backend: backend, options: options}
	p.must(p.start(program, mode))
	return p
}

// start writes the configuration and starts the process, until the end of the test.
func (p *Pooler) start(program, mode string) (err error) {
	if p.port, err = freePort(); err != nil {
		return err
	}
	if p.folder, err = newFolder(); err != nil {
		return err
	}
	p.t.Cleanup(p.folder.remove)
	if err := p.configure(mode); err != nil {
		return err
	}
	out, err := os.Create(p.folder.in("stderr"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(program, "-q", p.folder.in("ini"))
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = p.folder.path, out, attributes(p.account)
	started := make(chan error)
	p.ended = make(chan struct{})
	go func() { // see server.start
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return err
	}
	p.process = cmd.Process
	p.t.Cleanup(p.end)
	return p.wait()
}

// configure writes the configuration for a pool_mode.
func (p *Pooler) configure(mode string) error {
	password, _ := p.backend.User.Password()
	user, database := p.backend.User.Username(), filepath.Base(p.backend.Path)
	for name, text := range map[string]string{
		"users": fmt.Sprintf("%q %q\n", user, password),
		"ini": fmt.Sprintf("[databases]\n%s = host=127.0.0.1 port=%s user=%s password=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\n"+
			"auth_type = scram-sha-256\nauth_file = %s\nadmin_users = %[3]s\npool_mode = %[7]s\nmax_client_conn = 500\ndefault_pool_size = 100\n%[8]s\n",
			database, p.backend.Port(), user, password, p.port, p.folder.in("users"), mode, p.options),
	} {
		path := p.folder.in(name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		if p.account != nil {
			if err := os.Chown(path, p.account.uid, p.account.gid); err != nil {
				return err
			}
		}
	}
	if p.account != nil {
		return os.Chown(p.folder.path, p.account.uid, p.account.gid)
	}
	return nil
}

// wait returns when the pooler answers.
func (p *Pooler) wait() error {
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		err := p.console("SHOW VERSION")
		if err == nil || time.Now().After(end) {
			return err
		}
		select {
		case <-p.ended:
			text, _ := os.ReadFile(p.folder.in("stderr"))
			return fmt.Errorf("pgtest: PgBouncer has ended: %s", text)
		default:
		}
	}
}

// console runs a command as the administrator.
func (p *Pooler) console(command string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := pgx.Connect(ctx, p.url("pgbouncer")+"&default_query_exec_mode=simple_protocol")
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, command)
	return err
}

// Switch changes the pool_mode of a running pooler, as an operator does. Connections stay open.
func (p *Pooler) Switch(mode string) {
	p.t.Helper()
	p.must(p.configure(mode))
	p.must(p.console("RELOAD"))
}

// URL returns the URL of the database through the pooler.
func (p *Pooler) URL() string { return p.url(filepath.Base(p.backend.Path)) }

func (p *Pooler) url(database string) string {
	u := *p.backend
	u.Host, u.Path = net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)), "/"+database
	return u.String()
}

func (p *Pooler) end() {
	if err := p.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Error(err)
	}
	<-p.ended
	if p.t.Failed() {
		text, _ := os.ReadFile(p.folder.in("stderr"))
		p.t.Logf("PgBouncer:\n%s", text)
	}
}

func (p *Pooler) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

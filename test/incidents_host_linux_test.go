package test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/postgres/pgtest"
)

// host is the machine on which a recipe is typed. Its file system is a folder, and what the page
// calls systemd starts and stops one server as packaging/systemd does.
type host struct {
	*testing.T
	root   string // replaces /
	shell  *exec.Cmd
	in     io.Writer
	out    *bufio.Reader
	status int // of the last command

	server  *service
	db      string          // of the server
	plain   bool            // it has no master key
	log     string          // of the servers that have ended
	cluster *pgtest.Cluster // of the server, or nil
	client  *client
	reader  string            // a key that may only read, or ""
	also    map[string]string // further names on the page and what replaces them here
}

// newHost is a machine on which the package is installed, and nothing is started.
func newHost(t *testing.T) *host {
	t.Helper()
	built, err := binary(t)
	must.OK(t, err)
	h := &host{T: t, root: t.TempDir(), also: map[string]string{}}
	h.db = h.path(databaseFile)
	for _, folder := range []string{"etc/default", "etc/attestd", "var/lib/attestd", "mnt/backups", "mnt/usb", "mnt/heads", "root", "run", "usr/bin"} {
		must.OK(t, os.MkdirAll(h.path("/"+folder), 0o700))
	}
	must.OK(t, os.Symlink(built, h.path("/usr/bin/attestd")))
	must.OK(t, os.WriteFile(h.path("/usr/bin/systemd-run"), []byte(strings.ReplaceAll(systemdRun, "ROOT", h.root)), 0o700))
	must.OK(t, os.WriteFile(h.path("/etc/default/attestd"), []byte("ATTESTD_RATE_LIMITS=off\n"), 0o600))
	_, err = attestd(t, "master-key", "new", h.path("/etc/attestd/master.key"))
	must.OK(t, err)
	h.openShell()
	return h
}

// path is what replaces a path of the page.
func (h *host) path(name string) string { return filepath.Join(h.root, filepath.FromSlash(name)) }

// openShell starts the shell into which everything is typed.
func (h *host) openShell() {
	h.Helper()
	h.shell = exec.Command(testenv.Path(h, "bash"), "--noprofile", "--norc")
	h.shell.Dir = h.path("/var/lib/attestd")
	h.shell.Env = []string{"PATH=" + h.path("/usr/bin") + ":" + os.Getenv("PATH"), "HOME=" + h.path("/root"), "LC_ALL=C.UTF-8", "TZ=UTC"}
	in, err := h.shell.StdinPipe()
	must.OK(h.T, err)
	reader, writer, err := os.Pipe()
	must.OK(h.T, err)
	h.shell.Stdout, h.shell.Stderr = writer, writer
	must.OK(h.T, h.shell.Start())
	writer.Close()
	h.in, h.out = in, bufio.NewReader(reader)
	h.Cleanup(func() {
		in.Close()
		end := time.AfterFunc(patience, func() { _ = h.shell.Process.Kill() })
		defer end.Stop()
		_ = h.shell.Wait()
		reader.Close()
	})
}

const endOfOutput = "\x01"

// run runs a command in the shell and returns what it printed.
func (h *host) run(command string) string {
	h.Helper()
	hangs := time.AfterFunc(patience, func() { _ = h.shell.Process.Kill() })
	defer hangs.Stop()
	_, err := fmt.Fprintf(h.in, "{ %s\n} </dev/null; status=$?; printf '\\n%s%%d\\n' $status; (exit $status)\n", command, endOfOutput)
	must.OK(h.T, err)
	var printed strings.Builder
	for {
		line, err := h.out.ReadString('\n')
		if err != nil {
			h.Fatalf("%s: the shell has ended: %v\n%s%s", command, err, printed.String(), line)
		}
		if status, ok := strings.CutPrefix(line, endOfOutput); ok {
			_, err := fmt.Sscan(status, &h.status)
			must.OK(h.T, err)
			break
		}
		printed.WriteString(line)
	}
	text := strings.TrimSuffix(printed.String(), "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

const pageURL = "http://127.0.0.1:8080"

// here replaces what the page names by its counterpart in the test.
func (h *host) here(text string) string {
	if h.server != nil {
		text = strings.ReplaceAll(text, pageURL, h.server.URL)
	}
	text = strings.ReplaceAll(text, "-o attestd -g attestd ", "") // there is no such user here
	for name, stands := range h.also {
		text = strings.ReplaceAll(text, name, stands)
	}
	return pagePath.ReplaceAllString(text, "${1}"+h.root+"$2")
}

var pagePath = regexp.MustCompile(`(^|[\s'"=:;(@<>{…])(/(?:var/lib|etc/default|etc/attestd|mnt)\b)`)

// play does the steps of a recipe.
func (h *host) play(r recipe) {
	h.Helper()
	for i, s := range r.steps {
		where := fmt.Sprintf("%s:%d: ", r.page, s.line)
		switch {
		case s.fault != nil:
			f, ok := faults[s.fault[0]]
			if !ok {
				h.Fatal(where, "no fault is called ", s.fault[0])
			}
			f(h, s.fault[1:])
		case s.log != "":
			h.awaitLog(where, s.log)
		default:
			h.typeCommand(where, s)
			next := append(r.steps, step{})[i+1].command
			if h.status != 0 && next != "echo $?" {
				h.Fatalf("%s%s: exit status %d", where, s.command, h.status)
			}
		}
	}
}

func (h *host) typeCommand(where string, s step) {
	h.Helper()
	command := h.here(s.command)
	var out string
	switch args := strings.Fields(command); {
	case args[0] == "systemctl":
		h.status = 0
		h.systemctl(where, args[1:])
	case args[0] == "systemd-run" && args[len(args)-1] == "bash":
		h.run("export CREDENTIALS_DIRECTORY=" + h.path("/etc/attestd"))
	default:
		out = h.run(command)
	}
	var want []string
	for _, line := range s.printed {
		want = append(want, h.here(line))
	}
	if !regexp.MustCompile(`\A(?:` + pattern(want...) + `)\z`).MatchString(out) {
		h.Errorf("%s%s\nprints\n%swant\n%s", where, s.command, strings.ReplaceAll(out, h.root, ""), strings.Join(s.printed, "\n"))
	}
	h.Logf("$ %s\n%s", s.command, strings.ReplaceAll(out, h.root, ""))
}

// awaitLog waits for a line of the server's log.
func (h *host) awaitLog(where, line string) {
	h.Helper()
	want := regexp.MustCompile("(?m)^" + pattern(h.here(line)))
	for end := time.Now().Add(patience); !want.MatchString(h.journal()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatalf("%sthe log lacks\n%s\nIt ends with\n%s", where, line, tail(strings.ReplaceAll(h.journal(), h.root, ""), 3000))
		}
	}
}

// journal is the log of all servers.
func (h *host) journal() string {
	if h.server == nil {
		return h.log
	}
	return h.log + h.server.log.String()
}

// systemctl starts and stops the server. Like the real one, it does not say that a server ended
// right after its start: the log does.
func (h *host) systemctl(where string, args []string) {
	h.Helper()
	switch strings.Join(args, " ") {
	case "stop attestd", "disable --now attestd":
		h.stop()
	case "start attestd", "enable --now attestd":
		h.start()
	case "restart attestd":
		h.stop()
		h.start()
	default:
		h.Fatal(where, "not understood: systemctl ", args)
	}
}

// systemdRun replaces systemd-run: it runs the command, with its credentials.
const systemdRun = `#!/bin/bash
CREDENTIALS_DIRECTORY=$(mktemp -d -p ROOT/run)
while :; do
	case $1 in
	-p)
		case $2 in LoadCredential=*)
			set -- "" "${2#LoadCredential=}" "${@:3}"
			install -m 400 "${2#*:}" "$CREDENTIALS_DIRECTORY/${2%%:*}" ;;
		esac
		shift 2 ;;
	-*) shift ;;
	*) break ;;
	esac
done
export CREDENTIALS_DIRECTORY
exec "$@"
`

func (h *host) start() {
	h.Helper()
	if h.server != nil {
		h.Fatal("a server is running")
	}
	cmd := exec.Command(h.path("/usr/bin/attestd"), "serve", "--listen", "127.0.0.1:0", "--db", h.db)
	if !h.plain {
		cmd.Args = append(cmd.Args, "--master-key-file", h.path("/etc/attestd/master.key"))
	}
	cmd.Dir = h.path("/")
	settings, err := os.ReadFile(h.path("/etc/default/attestd"))
	must.OK(h.T, err)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.path("/root")}, strings.Fields(string(settings))...)
	s, err := launch(cmd)
	if err != nil {
		h.log += err.Error() + "\n"
		return
	}
	h.Cleanup(func() {
		_ = s.cmd.Process.Kill() // mostly it has ended
		_ = s.wait()
	})
	h.server = s
	h.run("export ATTESTD_URL=" + s.URL)
	if h.client != nil {
		h.client = h.client.at(s)
	}
}

// stop ends the server. It may say that it could not write.
func (h *host) stop() {
	h.Helper()
	if h.server == nil {
		return
	}
	_ = h.server.interrupt()
	h.log += h.server.log.String()
	h.server = nil
}

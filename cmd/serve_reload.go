package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/server"
)

// reloads annotates the flags of the settings that SIGHUP changes. No other setting decides whether
// their values are valid, and none of them is a secret.
const reloads = "reloads"

func markReloadable(flags *pflag.FlagSet) {
	for _, name := range []string{
		"log-level", "access-log", "rate-limits", "allowed-origins", "disk-floor", "registration", "registration-token-file",
		"max-keys", "max-clients", "max-agents", "max-webhooks", "max-subjects",
		"max-records", "max-bytes", "max-total-records", "max-total-bytes", "max-companies", "max-companies-per-day",
	} {
		_ = flags.SetAnnotation(name, reloads, []string{"true"})
	}
}

// errTerminalClosed is why a server stops that was started on a terminal.
var errTerminalClosed = errors.New("the terminal was closed")

// reloader reads the settings again on SIGHUP, and changes those that can change while the server
// runs.
type reloader struct {
	version  string
	typed    *pflag.FlagSet    // what the command line and the environment set
	file     string            // that was read last, "" for none
	now      map[string]string // settings in force
	terminal terminal
	hangups  <-chan os.Signal

	server *server.Server
	log    *slog.Logger
	level  *slog.LevelVar
	token  string // for registration
	reopen func() // the file of the export; may be nil
}

// newReloader MUST be called before the flags are checked, which changes the form of some.
func newReloader(flags *pflag.FlagSet, version string) (*reloader, error) {
	_, typed := newServeFlags(version)
	return &reloader{version: version, typed: typed, file: configOf(flags), now: settingValues(flags), terminal: startedOn()},
		copySettings(typed, flags)
}

// newServeFlags returns the flags of serve with their defaults, and what sets them.
func newServeFlags(version string) (*serveFlags, *pflag.FlagSet) {
	f := &serveFlags{version: version}
	cmd := &cobra.Command{Use: "serve"}
	f.add(cmd)
	return f, cmd.Flags()
}

func settingValues(flags *pflag.FlagSet) map[string]string {
	values := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		if isSetting(f) {
			values[f.Name] = f.Value.String()
		}
	})
	return values
}

// catch makes SIGHUP wait for run. It ends the process no more.
func (r *reloader) catch() { r.hangups = hangups() }

// run obeys SIGHUP while a server runs, until ctx is done or the returned function is called, which
// waits for the end. Where the terminal of the process is gone, it calls stop.
func (r *reloader) run(ctx context.Context, stop context.CancelCauseFunc, s *server.Server, cfg *server.Config, level *slog.LevelVar) (end func()) {
	r.server, r.log, r.level, r.token = s, cfg.Log, level, cfg.Registration.Token
	if cfg.Export != nil {
		r.reopen = reopener(cfg.Export.Destination)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-r.hangups:
			}
			if r.terminal.closed() {
				stop(errTerminalClosed)
				return
			}
			if r.reopen != nil {
				r.reopen()
			}
			if err := r.reload(ctx); err != nil {
				r.log.Error("SIGHUP: the settings cannot be used, and nothing was changed", "error", printable.Error(err))
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// reload reads the settings as a start would.
func (r *reloader) reload(ctx context.Context) error {
	f, flags := newServeFlags(r.version)
	if err := copySettings(flags, r.typed); err != nil {
		return err
	}
	if err := fromFile(flags); err != nil {
		return err
	}
	file := configOf(flags)
	if file == "" && r.file != "" {
		return fmt.Errorf("%s is gone", r.file)
	}
	next := settingValues(flags)
	if err := checkDatabase("db", flags.Lookup("db").Value.String()); err != nil {
		return err
	}
	_, err := f.domain(flags)
	var cfg server.Config
	if err == nil {
		cfg, err = f.config(flags)
	}
	if err != nil {
		return cli.WithPlaces(flags, err)
	}
	var changed, restart []string
	flags.VisitAll(func(f *pflag.Flag) {
		isOther := isSetting(f) && next[f.Name] != r.now[f.Name]
		isOther = isOther || f.Name == "registration-token-file" && cfg.Registration.Token != r.token
		switch {
		case isOther && f.Annotations[reloads] != nil:
			changed = append(changed, f.Name+"="+strings.Trim(next[f.Name], "[]"))
			r.now[f.Name] = next[f.Name]
		case isOther:
			restart = append(restart, f.Name)
		}
	})
	r.token, r.file = cfg.Registration.Token, file
	report := func() { r.report(file, changed, restart) }
	if to := logLevels[f.logs.level]; to > r.level.Level() {
		report() // while its line is written
		r.level.Set(to)
	} else {
		r.level.Set(to)
		defer report()
	}
	if len(changed) > 0 {
		r.server.Reload(ctx, cfg.Live)
	}
	return nil
}

// report logs in one line which settings have changed, and which would need a restart.
func (r *reloader) report(file string, changed, restart []string) {
	args := []any{"changed", strings.Join(changed, " ")}
	if file != "" {
		args = append(args, "file", file)
	}
	if len(restart) == 0 {
		r.log.Info("SIGHUP: settings read again", args...)
		return
	}
	r.log.Warn("SIGHUP: settings read again; others need a restart", append(args, "restart", strings.Join(restart, " "))...)
}

// copySettings sets the flags that the command line and the environment have set.
func copySettings(to, from *pflag.FlagSet) (err error) {
	from.VisitAll(func(f *pflag.Flag) {
		if by, _ := cli.OriginOfFlag(f); err != nil || by == "default" || by == cli.OriginFile {
			return
		}
		copied := to.Lookup(f.Name)
		if copied == nil {
			return // of help
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			err = copied.Value.(pflag.SliceValue).Replace(slices.Clone(list.GetSlice()))
		} else {
			err = copied.Value.Set(f.Value.String())
		}
		copied.Changed = true
	})
	return err
}

package cmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/server/httpapi"
)

// logFlags are the flags of `attestd serve` about its log as typed.
type logFlags struct {
	format, level, access string
	journal               bool           // standard error leads to the journal of systemd
	least                 *slog.LevelVar // in place of level, which SIGHUP changes
}

func (f *logFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.format, "log-format", "text", "format of log lines: `text|json|ecs`, ecs with the names of the Elastic Common Schema")
	flags.StringVar(&f.level, "log-level", "info", "least severe lines in the log: `debug|info|warn|error`")
	flags.StringVar(&f.access, "access-log", "all", "requests that have a line in the log: `all|sampled|errors|off`; failures of the server always have one")
}

var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// config checks the flags.
func (f *logFlags) config() (access httpapi.AccessLog, err error) {
	if f.format != "text" && f.format != "json" && f.format != "ecs" {
		return 0, cli.Usagef("--log-format must be text, json or ecs, got %q", f.format)
	}
	if _, ok := logLevels[f.level]; !ok {
		return 0, cli.Usagef("--log-level must be debug, info, warn or error, got %q", f.level)
	}
	if access, err = httpapi.ParseAccessLog(f.access); err != nil {
		return 0, cli.Usagef("--access-log: %v", err)
	}
	return access, nil
}

// handler returns a handler that writes lines of the format to out.
func (f *logFlags) handler(out io.Writer, version string) slog.Handler {
	if f.journal {
		return newJournalHandler(func(w io.Writer) slog.Handler { return f.plain(w, version) }, out)
	}
	return f.plain(out, version)
}

func (f *logFlags) plain(out io.Writer, version string) slog.Handler {
	o := &slog.HandlerOptions{Level: logLevels[f.level]}
	if f.least != nil {
		o.Level = f.least
	}
	switch f.format {
	case "json":
		return slog.NewJSONHandler(out, o)
	case "ecs":
		return newECSHandler(out, o.Level, version)
	}
	return slog.NewTextHandler(out, o)
}

// announced reports whether the address is in a line of the log, and not in sentences.
func (f *logFlags) announced() bool { return f.format != "text" }

// journalHandler puts the severity of syslog(3) in front of each line, as sd-daemon(3) describes,
// so that journalctl -p finds warnings and errors.
type journalHandler struct{ err, warn, info, debug slog.Handler }

// newJournalHandler makes a handler for each severity, because a line is written in one piece.
func newJournalHandler(lines func(io.Writer) slog.Handler, out io.Writer) journalHandler {
	of := func(severity int) slog.Handler { return lines(prefixed{fmt.Appendf(nil, "<%d>", severity), out}) }
	return journalHandler{err: of(3), warn: of(4), info: of(6), debug: of(7)}
}

func (h journalHandler) of(level slog.Level) slog.Handler {
	switch {
	case level >= slog.LevelError:
		return h.err
	case level >= slog.LevelWarn:
		return h.warn
	case level >= slog.LevelInfo:
		return h.info
	}
	return h.debug
}

func (h journalHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.info.Enabled(ctx, level)
}

func (h journalHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.of(r.Level).Handle(ctx, r)
}

func (h journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return journalHandler{h.err.WithAttrs(attrs), h.warn.WithAttrs(attrs), h.info.WithAttrs(attrs), h.debug.WithAttrs(attrs)}
}

func (h journalHandler) WithGroup(name string) slog.Handler {
	return journalHandler{h.err.WithGroup(name), h.warn.WithGroup(name), h.info.WithGroup(name), h.debug.WithGroup(name)}
}

// prefixed writes a prefix in front of each line that is written to it.
type prefixed struct {
	prefix []byte
	out    io.Writer
}

func (p prefixed) Write(line []byte) (int, error) {
	if _, err := p.out.Write(append(append(make([]byte, 0, len(p.prefix)+len(line)), p.prefix...), line...)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// leadsToJournal reports whether a file is the stream of the journal that systemd names in
// JOURNAL_STREAM, as device and inode. Behind a pipe or in a file, a prefix would be text.
func leadsToJournal(file *os.File, stream string) bool {
	name, err := deviceAndInode(file)
	return err == nil && stream != "" && strings.TrimSpace(stream) == name
}

// ecsVersion is that of the Elastic Common Schema whose names the lines have.
const ecsVersion = "8.11.0"

// ecsNames are the fields of the schema for what log lines say. Everything else is attestd's own,
// below the name attestd.
var ecsNames = map[string]string{
	slog.TimeKey: "@timestamp", slog.LevelKey: "log.level", slog.MessageKey: "message",
	"id": "http.request.id", "method": "http.request.method", "status": "http.response.status_code", "bytes": "http.response.body.bytes",
	"duration": "event.duration", "company": "organization.id", "error": "error.message", "url": "url.full", "peer": "client.address",
}

// newECSHandler writes JSON lines by the schema, with dots in names as its libraries do.
func newECSHandler(out io.Writer, level slog.Leveler, version string) slog.Handler {
	h := slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) > 0 || strings.Contains(a.Key, ".") {
			return a
		}
		switch {
		case a.Key == slog.LevelKey:
			a.Value = slog.StringValue(strings.ToLower(a.Value.String()))
		case a.Key == slog.TimeKey:
			a.Value = slog.StringValue(a.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
		case a.Value.Kind() == slog.KindDuration: // in nanoseconds
			a.Value = slog.Int64Value(int64(a.Value.Duration() / time.Nanosecond))
		}
		if name, ok := ecsNames[a.Key]; ok {
			a.Key = name
		} else {
			a.Key = "attestd." + a.Key
		}
		return a
	}})
	return h.WithAttrs([]slog.Attr{slog.String("ecs.version", ecsVersion), slog.String("service.name", "attestd"),
		slog.String("service.version", version)})
}

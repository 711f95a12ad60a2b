package cmd

import (
	"io"
	"log/slog"
	"strings"
	"time"
)

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

package cmd

import (
	"time"

	"attestd/cmd/cli"
	"attestd/server/export"
)

// start parses where an export begins that has not begun yet. A server reads it again at each
// start, when "now" would be another time, so there it must be a time.
func (f *destinationFlags) start(now time.Time) (s export.Start, err error) {
	if f.from == "" {
		return s, nil
	}
	if f.from == "now" && f.prefix == "" {
		return export.Start{Now: true}, nil
	}
	at, err := time.Parse(time.RFC3339, f.from)
	switch {
	case err != nil && f.prefix == "":
		return s, cli.Usagef("--from must be now, or a time such as 2026-11-23T17:00:00Z, got %q", f.from)
	case err != nil:
		return s, cli.Usagef("%s must be a time such as 2026-11-23T17:00:00Z, got %q; the present is %s", f.name("from"), f.from, now.UTC().Format(time.RFC3339))
	case at.After(now):
		return s, cli.Usagef("%s must not be in the future, got %s; it is %s", f.name("from"), f.from, now.UTC().Format(time.RFC3339))
	}
	return export.Start{At: at}, nil
}

package cmd

import (
	"log/slog"

	"attestd/server/local"
	"attestd/store"
)

// openLocal opens the socket for commands on this machine, beside a database file. Without it, the
// service runs all the same.
func openLocal(s *store.Store, db string, log *slog.Logger) *local.Server {
	if store.IsPostgres(db) {
		return nil
	}
	l := &local.Server{Operations: local.Operations{Store: s}, Log: log}
	if err := l.Listen(db); err != nil {
		log.Warn("commands beside this server, such as attestd company, will not work: its local socket cannot be opened", "error", err)
	}
	return l
}

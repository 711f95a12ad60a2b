package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ownSettings returns the settings of every connection, whatever the role, the database and the URL
// set.
func ownSettings() map[string]string {
	return map[string]string{
		"default_transaction_isolation": "read committed",
		// a server that stalls inside a transaction releases its locks
		"idle_in_transaction_session_timeout": "3s",
		// Check compares definitions as the server formats them
		"quote_all_identifiers":       "off",
		"standard_conforming_strings": "on",
	}
}

// synchronous makes commits wait for the disk, and for a standby if there is one, if a setting has
// disabled that.
const synchronous = `SELECT set_config('synchronous_commit', 'on', false)
	WHERE current_setting('synchronous_commit') IN ('off', 'local')`

// setAfterConnect moves settings from the startup message to a statement after connecting, because
// a pooler refuses unknown settings, or is configured to ignore them. Parameters that poolers know
// and track stay.
func setAfterConnect(c *pgx.ConnConfig) {
	settings := ownSettings()
	for name, value := range c.RuntimeParams {
		if _, ours := settings[name]; !ours && name != "application_name" && name != "options" {
			settings[name] = value
		}
	}
	options, left := parseOptions(c.RuntimeParams["options"])
	for name, value := range options {
		if _, said := settings[name]; !said {
			settings[name] = value
		}
	}
	c.RuntimeParams = map[string]string{"application_name": c.RuntimeParams["application_name"], "client_encoding": "UTF8"}
	if left != "" {
		c.RuntimeParams["options"] = left
	}
	delete(settings, "client_encoding")
	var calls []string
	var args [][]byte
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		calls = append(calls, fmt.Sprintf("set_config($%d, $%d, false)", len(args)+1, len(args)+2))
		args = append(args, []byte(name), []byte(settings[name]))
	}
	timeout := c.ConnectTimeout
	c.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		// pgx bounds only what comes before this, and callers may wait without a deadline
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		b := &pgconn.Batch{}
		b.ExecParams("SELECT "+strings.Join(calls, ", "), args, nil, nil, nil)
		b.ExecParams(synchronous, nil, nil, nil, nil)
		return c.ExecBatch(ctx, b).Close()
	}
}

// parseOptions parses the settings in the parameter options: -c name=value and --name=value. It
// leaves options with anything else unchanged.
func parseOptions(options string) (settings map[string]string, left string) {
	settings = map[string]string{}
	words := strings.Fields(options)
	for i := 0; i < len(words); i++ {
		word := words[i]
		setting, is := strings.CutPrefix(word, "--")
		if !is {
			setting, is = strings.CutPrefix(word, "-c")
		}
		if is && setting == "" && i+1 < len(words) {
			i++
			setting = words[i]
		}
		name, value, found := strings.Cut(setting, "=")
		if !is || !found || strings.Contains(word, `\`) {
			return nil, options
		}
		settings[strings.ReplaceAll(name, "-", "_")] = value
	}
	return settings, ""
}

const (
	poolerRounds  = 8
	poolerTimeout = 10 * time.Second // for all rounds, including the connection
)

// checkPooler refuses a pooler that uses different server connections for the transactions of a
// session, or the same one for two sessions, because settings and prepared statements would then be
// shared. If a pooler is present, the process ID of the server differs from the one sent on
// connecting. Then checkPooler compares process IDs on c and, inside a transaction, on a second
// connection.
func checkPooler(ctx context.Context, db *sql.DB, c *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, poolerTimeout)
	defer cancel()
	return onNative(c, func(first *pgx.Conn) error {
		const number = "SELECT pg_backend_pid()"
		mine, err := ask(ctx, first, number)
		if err != nil || mine == fmt.Sprint(first.PgConn().PID()) {
			return err
		}
		beside, second, err := connect(ctx, db)
		if err != nil {
			return err
		}
		defer beside.Close()
		for range poolerRounds {
			other, err := ask(ctx, second, "BEGIN; "+number)
			if err != nil {
				return err
			}
			now, err := ask(ctx, first, number)
			if err != nil {
				return err
			}
			if other == mine || now != mine {
				return errPooled
			}
			if _, err = ask(ctx, second, "ROLLBACK"); err != nil {
				return err
			}
		}
		return nil
	})
}

var errPooled = fmt.Errorf("%w: the pooler before the database gives each transaction another connection to the server, or each statement; attestd needs session pooling (pool_mode = session)", ErrRefused)

// ask runs unprepared statements, and returns the first value of the last row.
func ask(ctx context.Context, c *pgx.Conn, statements string) (value string, err error) {
	results, err := c.PgConn().Exec(ctx, statements).ReadAll()
	var answer *pgconn.PgError
	// the pooler forbids transactions
	if errors.As(err, &answer) && answer.Code == "08P01" {
		return "", errPooled
	}
	for _, r := range results {
		if len(r.Rows) > 0 {
			value = string(r.Rows[0][0])
		}
	}
	return value, err
}

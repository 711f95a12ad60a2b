// Package postgres stores the database of attestd in PostgreSQL 15 or newer. It implements the
// connection, the checks of the server, and the schema. Package store, which calls it, has the rows
// and their SQL.
package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	connectTimeout = 3 * time.Second // for each address, unless the URL has a connect_timeout

	// lossTimeout is how long sent data may stay unacknowledged before a connection counts as lost.
	lossTimeout = 3 * time.Second
)

// Open returns a database for a URL,
// postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?sslmode=verify-full, without connecting. No
// error contains the password. Each connection is closed on release. warnings counts the warnings
// from servers.
func Open(url string, warnings *atomic.Int64) (*sql.DB, error) {
	c, err := config(url)
	if err != nil {
		return nil, err
	}
	c.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			warnings.Add(1)
		}
	}
	db := stdlib.OpenDB(*c)
	db.SetMaxIdleConns(0)
	return db, nil
}

// config returns the configuration of every connection to a database. With several hosts, it
// selects the first writable one, unless the URL has a target_session_attrs. The URL may also set
// application_name and connect_timeout.
func config(address string) (*pgx.ConnConfig, error) {
	if !IsURL(address) {
		return nil, fmt.Errorf("%w: the address of a PostgreSQL database begins with postgres://", ErrRefused)
	}
	if _, rest, _ := strings.Cut(address, "://"); strings.IndexAny(rest, "/?#@") < strings.LastIndexByte(rest, '@') {
		// what parses as a host or a name may be part of the password
		return nil, fmt.Errorf("%w: %s", ErrRefused, unescaped)
	}
	c, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrRefused, parseFailure(address))
	}
	if !strings.Contains(address, "target_session_attrs=") {
		c.ValidateConnect = validateWritable
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	c.DialFunc = dial
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "attestd"
	}
	setAfterConnect(c)
	return c, nil
}

// IsURL reports whether an address names a PostgreSQL database instead of a file.
func IsURL(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// Name returns the display name of a database: its URL with only hosts and database name.
func Name(address string) string {
	c, err := config(address)
	if err != nil {
		return "postgres://"
	}
	hosts := []string{}
	add := func(host string, port uint16) {
		at := net.JoinHostPort(host, fmt.Sprint(port))
		// a host is listed twice if sslmode allows two ways to connect
		if len(hosts) == 0 || hosts[len(hosts)-1] != at {
			hosts = append(hosts, at)
		}
	}
	add(c.Host, c.Port)
	for _, f := range c.Fallbacks {
		add(f.Host, f.Port)
	}
	return "postgres://" + strings.Join(hosts, ",") + "/" + url.PathEscape(c.Database)
}

// unescaped is the likely error of an address in which the password seems to end too early.
const unescaped = "the user or the password in the address of the database cannot be read: percent-encode what is not a letter, a digit or one of -._~"

// parseFailure describes why an address cannot be parsed, without quoting what may be its password.
// It returns the error for the address without the user and the password, if there is one.
func parseFailure(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	rest, query, _ := strings.Cut(rest, "?")
	var kept []string
	for _, pair := range strings.Split(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(name); err == nil && !strings.Contains(strings.ToLower(name), "pass") {
			kept = append(kept, pair)
		}
	}
	if _, err := pgx.ParseConfig(scheme + "://" + rest + "?" + strings.Join(kept, "&")); err != nil {
		reason := err.Error()
		// without the address, which pgx quotes first
		return "the address of the database cannot be read: " + reason[strings.LastIndex(reason, "`: ")+len("`: "):]
	}
	return unescaped
}

// validateWritable refuses a server that reports on connecting that it accepts no writes, so that
// the next host is tried.
func validateWritable(_ context.Context, c *pgconn.PgConn) error {
	switch {
	case c.ParameterStatus("in_hot_standby") == "on":
		return fmt.Errorf("%w: it is a standby", ErrReadOnly)
	case c.ParameterStatus("default_transaction_read_only") == "on":
		return fmt.Errorf("%w: default_transaction_read_only is on", ErrReadOnly)
	}
	return nil
}

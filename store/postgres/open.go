// Package postgres keeps the database of attestd in PostgreSQL 15 or newer: how it is reached, what
// it refuses to use, and its schema. The rows and their SQL are those of package store, which calls
// it.
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
	connectTimeout = 3 * time.Second // of each address, unless the URL has another connect_timeout

	// lossTimeout is after how long without an answer to what was sent a connection is lost.
	lossTimeout = 3 * time.Second
)

// Open prepares to connect to the database that a URL names:
// postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?sslmode=verify-full. It connects to nothing
// yet. No error has the password. Each connection is closed when it is given back. warnings counts
// those that servers send.
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

// config is what every connection to a database begins with. Of several hosts, it takes the first
// that can be written, unless the URL has a target_session_attrs of its own. What the URL says of
// application_name and connect_timeout is kept as well.
func config(address string) (*pgx.ConnConfig, error) {
	if !IsURL(address) {
		return nil, fmt.Errorf("%w: the address of a PostgreSQL database begins with postgres://", ErrRefused)
	}
	if _, rest, _ := strings.Cut(address, "://"); strings.IndexAny(rest, "/?#@") < strings.LastIndexByte(rest, '@') {
		// what is read as a host or a name may be a piece of the password
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

// IsURL says whether an address names a PostgreSQL database, not a file.
func IsURL(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// Name is the URL of a database for people: its hosts and its name, without what else stands in it.
func Name(address string) string {
	c, err := config(address)
	if err != nil {
		return "postgres://"
	}
	hosts := []string{}
	add := func(host string, port uint16) {
		at := net.JoinHostPort(host, fmt.Sprint(port))
		// one host stands twice where sslmode lets it be reached in two ways
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

// unescaped is what is most likely wrong with an address in which the password ends too early.
const unescaped = "the user or the password in the address of the database cannot be read: percent-encode what is not a letter, a digit or one of -._~"

// parseFailure says why an address cannot be read, without quoting what may be its password: the
// error of the rest of it, if that cannot be read either.
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
		// without the address that pgx quotes before
		return "the address of the database cannot be read: " + reason[strings.LastIndex(reason, "`: ")+len("`: "):]
	}
	return unescaped
}

// validateWritable refuses a server that takes no writes, as far as it says so when one connects,
// so that the next host is tried.
func validateWritable(_ context.Context, c *pgconn.PgConn) error {
	switch {
	case c.ParameterStatus("in_hot_standby") == "on":
		return fmt.Errorf("%w: it is a standby", ErrReadOnly)
	case c.ParameterStatus("default_transaction_read_only") == "on":
		return fmt.Errorf("%w: default_transaction_read_only is on", ErrReadOnly)
	}
	return nil
}

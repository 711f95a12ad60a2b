package postgres

import (
	"context"
	"database/sql"
	"fmt"
)

// guardsFire is the SQL condition that triggers and foreign keys are active in this session.
const guardsFire = `current_setting('session_replication_role') <> 'replica'`

// silencedGuards describes the sessions in which a setting disables the guards: those of a role or
// a database, or of the whole server.
func silencedGuards(ctx context.Context, q querier) (found []string, err error) {
	err = each(ctx, q, func(rows *sql.Rows) error {
		var whose string
		err := rows.Scan(&whose)
		found = append(found, fmt.Sprintf("no guard fires in the sessions of %s: session_replication_role = replica is set for them", whose))
		return err
	}, `SELECT concat_ws(' in ', CASE WHEN setrole = 0 THEN 'every role' ELSE 'role ' || setrole::regrole END, CASE WHEN setdatabase <> 0 THEN 'this database' END)
			FROM pg_db_role_setting, unnest(setconfig) AS s (setting)
			WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())) AND lower(setting) = 'session_replication_role=replica'
		UNION ALL
		SELECT 'this server' FROM pg_settings WHERE name = 'session_replication_role' AND reset_val = 'replica' AND source IN ('configuration file', 'command line')
		ORDER BY 1`)
	return found, err
}

package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"attestd/store/db"
)

// exportSetting is the name in the table setting for how far an export has come in a chain.
func exportSetting(name string, number int64) string {
	return "export " + name + " " + strconv.FormatInt(number, 10)
}

// ExportPosition returns what SaveExportPositions has stored for an export and a chain, or "".
func (l *Ledger) ExportPosition(ctx context.Context, name string, number int64) (position string, err error) {
	err = l.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&position}, `SELECT value FROM setting WHERE name = ?`, exportSetting(name, number))
	})
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return "", fmt.Errorf("position of the export in chain %d: %w", number, err)
	}
	return position, nil
}

// ExportPositions returns what SaveExportPositions has stored for a chain, of all exports that
// there ever were.
func (l *Ledger) ExportPositions(ctx context.Context, number int64) (positions []string, err error) {
	err = l.Read(ctx, func(r *db.Conn) error {
		positions, err = db.All(r, func(rows *sql.Rows) (position string, err error) {
			return position, rows.Scan(&position)
		}, `SELECT value FROM setting WHERE name LIKE ? ORDER BY name`, exportSetting("%", number))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("positions of exports in chain %d: %w", number, err)
	}
	return positions, nil
}

// SaveExportPositions stores how far an export has come, by chain, in one transaction. It returns
// ErrDutyLost, and stores nothing, when the duty to export has gone to another server.
func (l *Ledger) SaveExportPositions(ctx context.Context, duty *db.Held, name string, positions map[int64]string) error {
	mine, args := duty.Fence()
	err := l.Write(ctx, func(w *db.Conn) error {
		for number, position := range positions {
			setting := exportSetting(name, number)
			// Roles of servers may not change a setting, but put another one in its place.
			if _, err := w.Exec(`DELETE FROM setting WHERE name = ? AND `+mine, slices.Concat([]any{setting}, args)...); err != nil {
				return err
			}
			n, err := w.Exec(`INSERT INTO setting (name, value) SELECT ?, ? WHERE `+mine+` ON CONFLICT (name) DO NOTHING`,
				slices.Concat([]any{setting, position}, args)...)
			if err == nil && n == 0 {
				err = db.ErrDutyLost
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save the positions of the export: %w", err)
	}
	return nil
}

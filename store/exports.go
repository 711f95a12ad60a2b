package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
)

// exportSetting is the name in the table setting for how far an export has come in a chain.
func exportSetting(name string, number int64) string {
	return "export " + name + " " + strconv.FormatInt(number, 10)
}

// ExportPosition returns what SaveExportPositions has stored for an export and a chain, or "".
func (s *Store) ExportPosition(ctx context.Context, name string, number int64) (position string, err error) {
	err = s.read(ctx, func(r *conn) error {
		return r.one([]any{&position}, `SELECT value FROM setting WHERE name = ?`, exportSetting(name, number))
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", fmt.Errorf("position of the export in chain %d: %w", number, err)
	}
	return position, nil
}

// ExportPositions returns what SaveExportPositions has stored for a chain, of all exports that
// there ever were.
func (s *Store) ExportPositions(ctx context.Context, number int64) (positions []string, err error) {
	err = s.read(ctx, func(r *conn) error {
		positions, err = all(r, func(rows *sql.Rows) (position string, err error) {
			return position, rows.Scan(&position)
		}, `SELECT value FROM setting WHERE name LIKE ? ORDER BY name`, exportSetting("%", number))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("positions of exports in chain %d: %w", number, err)
	}
	return positions, nil
}

// SaveExportPositions stores how far an export has come, by chain, in one transaction.
func (s *Store) SaveExportPositions(ctx context.Context, name string, positions map[int64]string) error {
	err := s.write(ctx, func(w *conn) error {
		for number, position := range positions {
			if _, err := w.exec(`INSERT INTO setting (name, value) VALUES (?, ?)
				ON CONFLICT (name) DO UPDATE SET value = excluded.value`, exportSetting(name, number), position); err != nil {
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

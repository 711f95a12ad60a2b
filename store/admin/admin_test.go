package admin_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"attestd/store"
	"attestd/store/admin"
)

// What goes wrong while a command runs a database reaches the command: the error of the writer
// beside that of what the command does, and the database is closed whatever happens.
func TestRunReturnsTheErrorsOfAll(t *testing.T) {
	t.Parallel()
	schema, err := os.ReadFile("../../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "a.db")
	open := func() *store.Store {
		t.Helper()
		s, err := store.Open(ctx, path, string(schema), store.Options{})
		if err != nil {
			t.Fatal(err) // above all where the one before was not closed
		}
		return s
	}
	mine := errors.New("mine")
	if err := admin.Run(ctx, open(), store.RunOptions{}, func() error { return mine }); !errors.Is(err, mine) {
		t.Errorf("of the command: %v", err)
	}
	s := open()
	if err := admin.Run(ctx, s, store.RunOptions{}, func() error { return s.RecordStart(ctx, nil) }); err != nil {
		t.Errorf("of nothing: %v", err)
	}
	read, err := store.OpenReadOnly(context.WithoutCancel(ctx), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Run(ctx, read, store.RunOptions{}, func() error { return nil }); !errors.Is(err, store.ErrRefused) {
		t.Errorf("of a writer that cannot run: %v", err)
	}
}

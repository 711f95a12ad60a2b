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

// An error that occurs while a command has a database open reaches the command: the writer's error
// is joined with that of the command, and the database is closed in any case.
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
			t.Fatal(err) // the database before it may not have been closed
		}
		return s
	}
	mine := errors.New("mine")
	if err := admin.Run(ctx, open(), store.RunOptions{}, func() error { return mine }); !errors.Is(err, mine) {
		t.Errorf("of the command: %v", err)
	}
	s := open()
	if err := admin.Run(ctx, s, store.RunOptions{}, func() error { return s.Settings.RecordStart(ctx, nil) }); err != nil {
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

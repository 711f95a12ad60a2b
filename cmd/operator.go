package cmd

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"attestd/chain/lines"
	"attestd/server/local"
	"attestd/store"
	"attestd/store/admin"
)

// operations are what an operator does to companies: a *local.Client in the server that has the
// database open, or *local.Operations here.
type operations interface {
	List(ctx context.Context) iter.Seq2[local.Company, error]
	Show(ctx context.Context, id string) (local.Company, error)
	Suspend(ctx context.Context, d local.Decision) (local.Company, error)
	Resume(ctx context.Context, d local.Decision) (local.Company, error)
	SetQuota(ctx context.Context, q local.Quota) (local.Company, error)
	RotateKey(ctx context.Context, r local.Rotation) (local.Rotated, error)
	InvitePerson(ctx context.Context, p local.PersonInvitation) (local.PersonInvited, error)
	Archive(ctx context.Context, a local.Archive) (lines.Frame, error)
	BeginPrune(ctx context.Context, p local.Prune, archive io.Reader) error
	Prune(ctx context.Context, p local.Prune) (local.Pruned, error)
}

// operatorFlags say which database a command of an operator works on.
type operatorFlags struct {
	schema, db, heads string
	ignoreExports     bool // of archive --prune
	master            masterKeyFlags
}

func (f *operatorFlags) add(cmd *cobra.Command) {
	databaseFlag(cmd, &f.db)
	headsFlag(cmd, &f.heads)
	f.master.add(cmd, "", masterKeyUse)
}

// read calls fn with a reader of the database, with or without a running server.
func (f *operatorFlags) read(ctx context.Context, fn func(operations) error) error {
	s, err := store.OpenReadOnly(ctx, f.db)
	if err != nil {
		return err
	}
	defer s.Close()
	if !s.UpToDate() {
		return refuseOlder(ctx, f.db)
	}
	return fn(&local.Operations{Store: s})
}

// change calls fn with what changes the database: the server that has the file open, or this
// process.
func (f *operatorFlags) change(ctx context.Context, fn func(operations) error) error {
	client, err := local.Dial(ctx, f.db)
	if err == nil {
		return fn(client)
	}
	if !errors.Is(err, local.ErrNone) {
		return err
	}
	if err := refuseOlder(ctx, f.db); err != nil {
		return err
	}
	options := store.Options{Heads: headsPath(f.heads, f.db)}
	if options.Master, err = f.master.read(ctx); err != nil {
		return err
	}
	s, err := store.Open(ctx, f.db, f.schema, options)
	if err != nil {
		return err
	}
	return admin.Run(ctx, s, store.RunOptions{}, func() error { return fn(&local.Operations{Store: s, IgnoreExports: f.ignoreExports}) })
}

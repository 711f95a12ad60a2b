package admin

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"attestd/crypto/seal"
	"attestd/store"
	"attestd/store/db"
)

// AcceptOptions are the options of AcceptRollback.
type AcceptOptions struct {
	Heads  string // path of the head file
	Reason string // in the operator's words, for the control logs
	Master *seal.Master
}

// maxAcceptReason is the maximum length of a reason in bytes.
const maxAcceptReason = 4096

// checkReason returns ErrRefused if a control record cannot contain the reason.
func checkReason(reason string) error {
	if reason == "" || len(reason) > maxAcceptReason || !utf8.ValidString(reason) {
		return fmt.Errorf("%w: the reason must be UTF-8 text of at most %d bytes, and not empty", store.ErrRefused,
			maxAcceptReason)
	}
	return nil
}

// AcceptRollback accepts the state of the database at path, and returns in what it was behind its
// head file or its stored checkpoints. In one transaction it records what was lost in the control
// log of each affected company, or of the oldest company if the affected one is gone. Then it
// creates a new head file. If that fails, call it again; it records nothing twice. It returns
// ErrRefused if the database is not behind, and ErrInUse.
func AcceptRollback(ctx context.Context, path, schema string, o AcceptOptions) (accepted []store.Behind, err error) {
	if err := checkReason(o.Reason); err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, path, schema, store.Options{Master: o.Master, Heads: o.Heads})
	if err != nil {
		return nil, err
	}
	accepted, err = s.Rollback.All(ctx)
	if err == nil && len(accepted) == 0 {
		err = fmt.Errorf("%w: %s is not behind its head file, so there is nothing to accept; nor is it behind a checkpoint that it keeps", store.ErrRefused, db.Name(path))
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Rollback.MayWrite()
	err = Run(ctx, s, store.RunOptions{}, func() error {
		if err := s.Rollback.Accept(ctx, accepted, o.Reason); err != nil {
			return fmt.Errorf("accept the rollback: %w", err)
		}
		if err := s.Rollback.MakeHeadFile(ctx, o.Heads); err != nil {
			return fmt.Errorf("the rollback is recorded, but the head file is not brought to it; accept it once more: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return accepted, nil
}

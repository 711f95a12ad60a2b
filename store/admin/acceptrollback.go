package admin

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"attestd/crypto/seal"
	"attestd/store"
)

// AcceptOptions say what is accepted, and why.
type AcceptOptions struct {
	Heads  string // the head file
	Reason string // in the operator's words, for the control logs
	Master *seal.Master
}

// maxAcceptReason is the length in bytes of the reason for which something is accepted.
const maxAcceptReason = 4096

// checkReason says whether a control record can give the reason: ErrRefused.
func checkReason(reason string) error {
	if reason == "" || len(reason) > maxAcceptReason || !utf8.ValidString(reason) {
		return fmt.Errorf("%w: the reason must be UTF-8 text of at most %d bytes, and not empty", store.ErrRefused, maxAcceptReason)
	}
	return nil
}

// AcceptRollback makes what the database at path has the truth that its head file knows, and
// returns in what it was behind that or the checkpoints that it keeps. What was lost is written to
// the control log of each company that it concerns, and where a company itself is gone to that of
// the oldest company that is there, all in one transaction; then the head file is made anew. When
// that fails, it is to be called again, and records nothing twice. ErrRefused where the database is
// not behind; ErrInUse.
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
		err = fmt.Errorf("%w: %s is not behind its head file, so there is nothing to accept; nor is it behind a checkpoint that it keeps", store.ErrRefused, store.Name(path))
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

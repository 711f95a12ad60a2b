package store

import (
	"context"
	"strings"

	"attestd/store/verified"
)

// VerifiedFile returns the file that has what a server of this version of the program has verified,
// or nil if there is none because the database has no head file. It is next to the head file. Its
// key is the master key or in the same folder, never in the database.
func (s *Store) VerifiedFile(ctx context.Context, program string) (*verified.File, error) {
	if s.opened.Heads == "" {
		return nil, nil
	}
	id, err := s.DatabaseID(ctx)
	if err != nil {
		return nil, err
	}
	return verified.NewFile(VerifiedBeside(s.opened.Heads), s.opened.Master, id, program), nil
}

// VerifiedBeside returns the path of the file of what was verified, for the path of a head file.
func VerifiedBeside(heads string) string { return strings.TrimSuffix(heads, ".heads") + ".verified" }

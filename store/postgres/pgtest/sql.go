package pgtest

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// execute runs one statement on a new connection to the database postgres.
func (s *server) execute(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, statement); err != nil {
		return fmt.Errorf("pgtest: %s: %w", statement, err)
	}
	return nil
}

// ask runs a query with a boolean result on a new connection to the database postgres.
func (s *server) ask(ctx context.Context, query string) (yes bool, err error) {
	c, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return false, err
	}
	defer c.Close(ctx)
	err = c.QueryRow(ctx, query).Scan(&yes)
	return yes, err
}

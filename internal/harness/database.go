package harness

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/url"

	"github.com/jackc/pgx/v5"
)

// CreateDatabase creates a database on the server of the one at address, and returns its address
// and a function that drops it.
func CreateDatabase(ctx context.Context, address string) (string, func() error, error) {
	admin, err := pgx.Connect(ctx, address)
	if err != nil {
		return "", nil, err
	}
	var random [6]byte
	_, _ = rand.Read(random[:]) // never returns an error
	name := "attestd_" + hex.EncodeToString(random[:])
	u, err := url.Parse(address)
	if err == nil {
		_, err = admin.Exec(ctx, "CREATE DATABASE "+name+" ENCODING 'UTF8' TEMPLATE template0")
	}
	if err != nil {
		return "", nil, errors.Join(err, admin.Close(ctx))
	}
	u.Path = "/" + name
	return u.String(), func() error {
		_, err := admin.Exec(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)")
		return errors.Join(err, admin.Close(context.WithoutCancel(ctx)))
	}, nil
}

package db

import (
	"crypto/ed25519"
	"database/sql/driver"
	"errors"
	"sync"

	"attestd/store/sqlite"
)

// PrepareDriver comes before the first database is opened.
var PrepareDriver = sync.OnceFunc(func() {
	sqlite.Prepare()
	registerFunctions()
})

// registerFunctions registers the SQL function that upgrades and comparisons with older files need.
// It returns the public key of a seed.
func registerFunctions() {
	sqlite.DefineFunction("ed25519_public", 1, func(args []driver.Value) (driver.Value, error) {
		seed, ok := args[0].([]byte)
		if !ok || len(seed) != ed25519.SeedSize {
			return nil, errors.New("not the seed of an Ed25519 key")
		}
		return []byte(PublicOf(seed)), nil
	})
}

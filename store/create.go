package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"

	"attestd/crypto/cred"
	"attestd/crypto/seal"
	"attestd/store/atrest"
	"attestd/store/sqlite"
)

// newSettings returns the settings of a new database on either engine.
func newSettings(d cred.Domain, master *seal.Master) (map[string]string, error) {
	d.TrustDomain = cmp.Or(d.TrustDomain, cred.DefaultTrustDomain)
	d.Service = cmp.Or(d.Service, "service")
	if err := d.Check(); err != nil {
		return nil, err
	}
	_, settings := atrest.New(master, nil)
	var id [16]byte
	_, _ = rand.Read(id[:]) // never returns an error
	settings["service_name"], settings["trust_domain"], settings["database_id"] = d.Service, d.TrustDomain, hex.EncodeToString(id[:])
	return settings, nil
}

// makeFile creates a new database at path.
func makeFile(ctx context.Context, path, schema string, o Options) error {
	settings, err := newSettings(o.Domain, o.Master)
	if err != nil {
		return err
	}
	return sentinel(sqlite.Create(ctx, path, schema, settings))
}

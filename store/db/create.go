package db

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"

	"attestd/crypto/cred"
	"attestd/crypto/seal"
	"attestd/store/atrest"
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

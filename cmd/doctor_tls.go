package cmd

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"attestd/cmd/cli"
	"attestd/cmd/doctor"
)

// inspect reads the certificate that a server with these flags would show: that of the files, or of
// several domains the one that ends first.
func (f *tlsFlags) inspect(db string) (c doctor.Certificate, err error) {
	if len(f.domains) == 0 {
		discard := slog.New(slog.DiscardHandler)
		files, err := f.openFiles(discard)
		if err != nil {
			return c, err
		}
		c.Status, c.IsFor = files.Status(), files.VerifyHostname
		if f.clientCA != "" {
			_, err = f.openClientCAs(discard)
		}
		return c, err
	}
	cache := cmp.Or(f.cache, db+".acme")
	if err := checkCache(cache); err != nil {
		return c, err
	}
	for _, domain := range f.domains {
		leaf, err := readCached(filepath.Join(cache, domain))
		if err == nil {
			err = leaf.VerifyHostname(domain)
		}
		if err != nil {
			return c, fmt.Errorf("the certificate for %s from the CA: %w", domain, err)
		}
		if c.NotAfter.IsZero() || leaf.NotAfter.Before(c.NotAfter) {
			c.Names, c.NotBefore, c.NotAfter = leaf.DNSNames, leaf.NotBefore, leaf.NotAfter
		}
	}
	c.IsFor = func(string) error { return nil } // the CA has checked the domains
	return c, nil
}

// readCached reads a certificate from the cache of ACME, and not its key, which is in the same
// file.
func readCached(path string) (*x509.Certificate, error) {
	text, err := cli.ReadBounded(path, cli.MaxCAFile)
	if err != nil {
		return nil, err
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, errors.New("there is none in its file")
		}
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
}

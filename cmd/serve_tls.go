package cmd

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/mail"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/server"
	"attestd/server/https"
	"attestd/store"
	"attestd/store/db"
)

// tlsFlags are the flags of `attestd serve` about TLS as typed.
type tlsFlags struct {
	cert, key, clientCA                               string
	domains                                           []string
	directory, directoryCA, email, cache, redirection string
}

func (f *tlsFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.cert, "tls-cert", "", "`file` with the certificate for https, and its intermediates, in PEM; read again when it changes")
	flags.StringVar(&f.key, "tls-key", "", "`file` with its private key in PEM, which only its owner may read")
	flags.StringVar(&f.clientCA, "tls-client-ca", "", "`file` with CAs whose client certificates sign in as the agent of their SPIFFE ID")
	flags.StringSliceVar(&f.domains, "acme-domain", nil, "`name`,… for which to get the certificate for https from an ACME CA; accepts its terms")
	flags.StringVar(&f.directory, "acme-directory", "", "`URL` of the ACME CA's directory (default Let's Encrypt's)")
	flags.StringVar(&f.directoryCA, "acme-ca", "", "`file` with the CAs of that URL's own certificate, where they are private")
	flags.StringVar(&f.email, "acme-email", "", "`address` to which the ACME CA writes")
	flags.StringVar(&f.cache, "acme-cache", "", "`folder` for certificates and keys from the ACME CA (default the database with .acme)")
	flags.StringVar(&f.redirection, "http-redirect", "", "`address` on which plain HTTP is redirected to https, such as :80")
}

func (f *tlsFlags) on() bool { return f.cert != "" || len(f.domains) > 0 }

// scheme is that of the URLs of the service.
func (f *tlsFlags) scheme() string {
	if f.on() {
		return "https"
	}
	return "http"
}

// check refuses flags that do not go together. Where no base URL is set, it is that of the first
// domain, with the port of listen.
func (f *tlsFlags) check(baseURL *string, listen, database string) error {
	acme := len(f.domains) > 0
	switch {
	case (f.cert == "") != (f.key == ""):
		return cli.Usagef("--tls-cert and --tls-key require each other")
	case f.cert != "" && acme:
		return cli.Usagef("--tls-cert and --acme-domain exclude each other")
	case !f.on() && (f.clientCA != "" || f.redirection != ""):
		return cli.Usagef("--tls-client-ca and --http-redirect require --tls-cert or --acme-domain")
	case !acme && (f.directory != "" || f.directoryCA != "" || f.email != "" || f.cache != ""):
		return cli.Usagef("--acme-directory, --acme-ca, --acme-email and --acme-cache require --acme-domain")
	case f.on() && strings.HasPrefix(*baseURL, "http://"):
		return cli.Usagef("--base-url must begin with https://, because this server speaks TLS; got %q", *baseURL)
	}
	if f.redirection != "" {
		if _, _, err := net.SplitHostPort(f.redirection); err != nil {
			return cli.Usagef("--http-redirect must look like :80 or 192.0.2.1:80, got %q", f.redirection)
		}
	}
	if !acme {
		return nil
	}
	return f.checkACME(baseURL, listen, database)
}

var domainName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (f *tlsFlags) checkACME(baseURL *string, listen, database string) error {
	for i, name := range f.domains {
		f.domains[i] = strings.ToLower(strings.TrimSpace(name))
		if !domainName.MatchString(f.domains[i]) || net.ParseIP(f.domains[i]) != nil || len(f.domains[i]) > 253 {
			return cli.Usagef("--acme-domain must list names such as attest.example.com, got %q", name)
		}
	}
	if f.directory != "" {
		if u, err := url.Parse(f.directory); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return cli.Usagef("--acme-directory must be a URL that begins with https://, got %q", f.directory)
		}
	}
	if f.email != "" {
		if a, err := mail.ParseAddress(f.email); err != nil || a.Address != f.email {
			return cli.Usagef("--acme-email must be an address such as ops@example.com, got %q", f.email)
		}
	}
	if f.cache == "" && db.IsPostgres(database) {
		return cli.Usagef("--acme-domain on PostgreSQL requires --acme-cache, a folder for certificates and their keys")
	}
	if *baseURL == "" {
		*baseURL = "https://" + f.domains[0]
		if _, port, _ := net.SplitHostPort(listen); port != "443" && port != "https" {
			*baseURL += ":" + port
		}
	}
	return nil
}

// open reads the certificates and listens for what is redirected. It returns nil without TLS.
func (f *tlsFlags) open(version, database, port string, log *slog.Logger) (t *server.TLS, err error) {
	if !f.on() {
		return nil, nil
	}
	t = new(server.TLS)
	if len(f.domains) > 0 {
		t.Certificates, err = f.openACME(version, cmp.Or(f.cache, database+".acme"), log)
	} else {
		t.Certificates, err = f.openFiles(log)
	}
	if err == nil && f.clientCA != "" {
		t.ClientCAs, err = f.openClientCAs(log)
	}
	if err == nil && f.redirection != "" {
		if port != "443" {
			t.RedirectPort = port
		}
		if t.Redirect, err = net.Listen("tcp", f.redirection); err != nil {
			err = cannotListen(f.redirection, "http-redirect", err)
		}
	}
	return t, err
}

// openFiles reads the certificate and its key. An attacker who can write the file of the
// certificate alone can make no other one count than of this key.
func (f *tlsFlags) openFiles(log *slog.Logger) (*https.Files, error) {
	return https.OpenFiles(f.cert, f.key, readTLSKey, https.ReadEvery, log)
}

func (f *tlsFlags) openClientCAs(log *slog.Logger) (*https.ClientCAs, error) {
	read := func(path string) ([]byte, error) { return cli.ReadRights(path, cli.MaxCAFile) }
	return https.OpenClientCAs(f.clientCA, read, https.ReadEvery, log)
}

func (f *tlsFlags) openACME(version, cache string, log *slog.Logger) (server.Certificates, error) {
	o := https.ACMEOptions{Domains: f.domains, Cache: cache, Directory: f.directory, Roots: cli.TrustedRoots(), Email: f.email, UserAgent: "attestd/" + version, Log: log}
	if err := os.Mkdir(cache, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("--acme-cache: %w", err)
	}
	if err := checkCache(cache); err != nil {
		return nil, err
	}
	if f.directoryCA != "" {
		text, err := cli.ReadRights(f.directoryCA, cli.MaxCAFile)
		if err != nil {
			return nil, fmt.Errorf("--acme-ca: %w", err)
		}
		o.Roots = x509.NewCertPool()
		if !o.Roots.AppendCertsFromPEM(text) {
			return nil, cli.Usagef("--acme-ca: %s holds no certificate in PEM", f.directoryCA)
		}
	}
	return https.NewACME(o), nil
}

// checkCache refuses a folder of keys that others may read, change or replace.
func checkCache(cache string) error {
	info, err := os.Stat(cache)
	if err == nil {
		err = cli.CheckRights(cache, info)
	}
	switch {
	case err != nil:
		return fmt.Errorf("--acme-cache: %w", err)
	case !info.IsDir() || info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows":
		return fmt.Errorf("%w: --acme-cache: %s must be a folder that only its owner can read, because it holds keys; chmod 700 %s", store.ErrRefused, cache, printable.ShellWord(cache))
	}
	return nil
}

// readTLSKey reads a private key.
func readTLSKey(path string) ([]byte, error) {
	return cli.ReadSecret(path, cli.MaxPrivateFile, func(fs.FileInfo) error {
		return fmt.Errorf("%w: others than the owner can read %s; chmod 600 %s", store.ErrRefused, filepath.Base(path), printable.ShellWord(path))
	})
}

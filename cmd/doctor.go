package cmd

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/cmd/cli"
	"attestd/cmd/doctor"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

// asServe marks flags that a command only has because serve has them.
const asServe = "as-serve"

// doctorFlags are the flags of `attestd doctor`: those of serve, and its own.
type doctorFlags struct {
	serveFlags
	quick, asJSON bool
	skip          []string
}

func doctorCommand(version, schema string) *cobra.Command {
	f := doctorFlags{serveFlags: serveFlags{version: version, schema: schema}}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check an installation, while a server runs or not",
		Long: `Check an installation: the database and what is beside it, the settings of serve, and where a
server has the database file open, what that says of itself. Prints a line for each check and a
remedy where something is wrong:

` + checkList() + `

It takes no lock, makes no checkpoint and writes nothing to the database. Run it as the user of
the server, and with the flags, the variables or the configuration file of serve: it takes all of
them, also those that are not listed here. A state is ok, warn, fail, or skipped with the reason.

It verifies every log and table, as attestd verify does. That may take long; --quick leaves it out.

Exit status 0 when nothing is wrong, 9 when there are warnings, 10 when there are failures.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{readsNoPipes: "yes"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.options(cmd)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	f.add(cmd)
	own := []string{"config", "db", "heads", "listen", "disk-floor", "backup-to", "backup-every", "tls-cert", "tls-key", "master-key-file", "master-key-command"}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		delete(flag.Annotations, reloads) // it does not run on
		if !slices.Contains(own, flag.Name) {
			flag.Hidden = true
			flag.Annotations = map[string][]string{asServe: {"yes"}}
		}
	})
	cmd.Flags().BoolVar(&f.quick, "quick", false, "leave out the checks that read the whole database")
	cmd.Flags().StringSliceVar(&f.skip, "skip", nil, "`check`,… to leave out")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print a JSON object")
	cmd.Flags().String("url", "", "`address` of a server of a PostgreSQL database, which is asked whether it is ready")
	// ATTESTD_URL is the server of a client.
	cmd.Flag("url").Annotations = map[string][]string{cli.TypedOnly: {"yes"}}
	return cmd
}

// checkList has the names of all checks, in lines of at most 96 columns.
func checkList() string {
	var b strings.Builder
	width := 0
	for i, name := range doctor.Checks() {
		switch {
		case i == 0:
		case width+len(name) > 90:
			b.WriteString(",\n")
			width = 0
		default:
			b.WriteString(", ")
		}
		b.WriteString(name)
		width += len(name) + 2
	}
	return b.String()
}

// options returns what is checked.
func (f *doctorFlags) options(cmd *cobra.Command) (o doctor.Options, err error) {
	for _, name := range f.skip {
		if !slices.Contains(doctor.Checks(), name) {
			return o, cli.Usagef("--skip: there is no check %q", name)
		}
	}
	o = doctor.Options{DB: f.db, AllowNetworkFS: f.allowNetworkFS, Heads: headsPath(f.heads, f.db), Schema: f.schema, Program: "attestd/" + f.version, Now: time.Now(), Skip: f.skip,
		Quick: f.quick, Master: f.master.read, MasterFile: f.master.file, Listen: f.listen, BackupEvery: f.backup.every}
	o.Config, o.ConfigErr = f.config(cmd.Flags())
	if _, err := f.domain(cmd.Flags()); o.ConfigErr == nil {
		o.ConfigErr = err
	}
	if base, err := url.Parse(o.Config.BaseURL); err == nil {
		o.Host = base.Hostname()
	}
	if f.backup.to != "" {
		o.Backups = f.backup.place
	}
	if f.tls.on() && o.ConfigErr == nil {
		o.TLS = func() (doctor.Certificate, error) { return f.tls.inspect(f.db) }
	}
	if address := cmd.Flag("url").Value.String(); address != "" {
		client, err := attestd.New(attestd.Config{URL: address, Retry: &attestd.Retry{}})
		if err != nil {
			return o, cli.UsageError{Err: err}
		}
		o.Readyz = func(ctx context.Context) (string, []string, error) {
			ready, err := client.Ready(ctx)
			return ready.Status, ready.Reasons, err
		}
	}
	return o, nil
}

// run makes the checks and prints what they find.
func (f *doctorFlags) run(ctx context.Context, out io.Writer, o doctor.Options) error {
	lowerPriority(idlePriority) // a server on this machine goes first
	report, finish := cli.Progress()
	defer finish()
	if report != nil {
		o.Progress = func(done, total int64) { report("records", done, total) }
	}
	counts := map[doctor.State]int{}
	r, err := doctor.Run(ctx, o, func(found doctor.Finding) {
		finish() // otherwise the line would be drawn into the bar
		if counts[found.State]++; f.asJSON {
			return
		}
		printable.Fprintf(out, "%-7s  %-12s  %s\n", found.State, found.Check, found.Detail)
		if found.Remedy != "" {
			printable.Fprintf(out, "%23sremedy: %s\n", "", found.Remedy)
		}
	})
	if err != nil {
		return err
	}
	if f.asJSON {
		err = printable.JSON(out, r)
	} else {
		printable.Fprintf(out, "%d ok, %d warn, %d fail, %d skipped\n", counts[doctor.OK], counts[doctor.Warn], counts[doctor.Fail],
			counts[doctor.Skipped])
	}
	switch {
	case err != nil:
		return err
	case r.State == doctor.Fail:
		return cli.ExitError{Status: cli.ExitFailures}
	case r.State == doctor.Warn:
		return cli.ExitError{Status: cli.ExitWarnings}
	}
	return nil
}

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

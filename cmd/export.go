package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/server/export"
)

func exportCommand() *cobra.Command {
	var f destinationFlags
	var follow bool
	var cursor string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Send the company's logs to a file, a syslog receiver or an HTTPS receiver",
		Long: `Send the records of both logs of the company elsewhere, as lines that attestd check --lines checks:
each with its index and hash, and at least every 10,000 lines or 10 seconds a signed checkpoint.
Without --follow, ends with the records that there are.

  --to file     appends to --file, mode 0600, synced. When the file was moved, or on SIGHUP, goes on
                in a new one
  --to syslog   RFC 5424 over TLS (RFC 5425, octet counting) to --address host:port. There is no UDP
                and no plain TCP
  --to https    POST of NDJSON to --address, or in the --form of splunk (HTTP Event Collector) or
                elastic (_bulk)

How far the export has come is in the file --cursor, which is written only after the receiver has
acknowledged. So a killed export goes on where it was, and lines may come twice; then a line says
so. A receiver that refuses or hangs is tried again, without an end with --follow.

--from now begins behind the last record that there is, --from TIME at the first record of that
time or later. The lines say and prove where they begin, and attestd check --lines names what is
not in them. It is for the first start alone: an export that has begun goes on where it was.

A reader's key is enough. A server sends the logs itself with attestd serve --export-to.

` + cli.ConnectionHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.to == "" {
				return cli.Usagef("--to must say where the logs are sent: file, syslog or https")
			}
			from, err := f.start(time.Now())
			if err != nil {
				return err
			}
			to, linger, err := f.open()
			if err != nil {
				return err
			}
			if cursor == "" {
				if f.to != "file" {
					return cli.Usagef("--cursor FILE must say where to store how far the export has come")
				}
				cursor = f.file + ".cursor"
			}
			c, err := cli.Connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			return runExport(cmd.Context(), newExportSource(c), cursor, export.Config{
				Destination: to, From: from, OCSF: f.format == "ocsf", Follow: follow, CheckpointAtEnd: true, Linger: linger,
				Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
			})
		},
	}
	cli.URLFlag(cmd)
	f.add(cmd, "")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with new records")
	cmd.Flags().StringVar(&cursor, "cursor", "", "`file` with how far the export has come (default for --to file: its name and .cursor)")
	for _, name := range []string{"to", "file", "address", "form", "format", "from", "receiver-ca-file", "cert", "cert-key", "token-file", "follow", "cursor"} {
		// those of serve have variables
		_ = cmd.Flags().SetAnnotation(name, cli.TypedOnly, []string{"true"})
	}
	return cmd
}

// runExport exports until it is done, or a signal ends it.
func runExport(ctx context.Context, source *exportSource, cursor string, c export.Config) error {
	company, err := source.client.Company(ctx)
	if err != nil {
		return err
	}
	source.company = company.CompanyID
	cursors, err := openCursorFile(cursor, company.CompanyID, c.Destination)
	if err != nil {
		return err
	}
	defer cursors.close()
	if c.From != (export.Start{}) && len(cursors.content.Logs) > 0 {
		return cli.ExitError{Status: cli.ExitRefused, Err: fmt.Errorf("the export has begun already, as %s says: leave out --from, or name another --cursor", cursor)}
	}
	c.Source, c.Cursors = source, cursors
	defer reopenOnHangup(c.Destination)()
	err = export.New(c).Run(ctx)
	if err = errors.Join(err, cursors.flush()); c.Follow && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // the way to end it
	}
	return err
}

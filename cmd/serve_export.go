package cmd

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"attestd/server"
	"attestd/server/export"
)

// exportFlags are the flags of `attestd serve` about the export of the logs.
type exportFlags struct {
	destination destinationFlags
	companies   []string
}

func (f *exportFlags) add(cmd *cobra.Command) {
	f.destination.add(cmd, "export-")
	cmd.Flags().StringSliceVar(&f.companies, "export-companies", nil, "`ID`,… of the companies whose logs are sent (default: all)")
}

// config returns where the logs are sent, nil for nowhere.
func (f *exportFlags) config() (*server.Export, error) {
	d := &f.destination
	if d.to == "" {
		if d.file != "" || d.address != "" || d.tokenFile != "" || d.caFile != "" || d.cert != "" || f.companies != nil {
			return nil, usagef("--export-to must say where the logs are sent: file, syslog or https")
		}
		return nil, nil
	}
	to, linger, err := d.open()
	if err != nil {
		return nil, err
	}
	return &server.Export{Destination: to, OCSF: d.format == "ocsf", Linger: linger, Companies: f.companies}, nil
}

// reopenOnHangup makes SIGHUP reopen the file of an export, which a rotation has moved. It returns
// what ends that.
func reopenOnHangup(d export.Destination) (stop func()) {
	file, ok := d.(*export.File)
	if !ok {
		return func() {}
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			file.Reopen()
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
	}
}

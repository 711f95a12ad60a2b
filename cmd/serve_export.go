package cmd

import (
	"time"

	"github.com/spf13/cobra"

	"attestd/server"
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
		return nil, nil
	}
	to, linger, err := d.open()
	if err != nil {
		return nil, err
	}
	from, err := d.start(time.Now())
	if err != nil {
		return nil, err
	}
	return &server.Export{Destination: to, From: from, OCSF: d.format == "ocsf", Linger: linger, Companies: f.companies}, nil
}

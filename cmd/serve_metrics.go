package cmd

import (
	"net"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/server"
)

// metricsFlags say where the metrics are served.
type metricsFlags struct{ address string }

func (f *metricsFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "metrics-listen", "",
		"`address` on which GET /metrics serves metrics for Prometheus to anybody (default: none)")
}

func (f metricsFlags) config() error {
	if f.address == "" {
		return nil
	}
	return cli.CheckListen("metrics-listen", f.address)
}

// listen sets the listener of cfg. Where the server does not run, nobody needs to close it: the
// process ends.
func (f metricsFlags) listen(cfg *server.Config) (err error) {
	if f.address == "" {
		return nil
	}
	if cfg.MetricsListener, err = net.Listen("tcp", f.address); err != nil {
		return cannotListen(f.address, "metrics-listen", err)
	}
	cfg.Log.Info("serving metrics", "url", "http://"+cfg.MetricsListener.Addr().String()+"/metrics")
	return nil
}

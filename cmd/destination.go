package cmd

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/server/export"
)

// destinationFlags say where lines are exported to.
type destinationFlags struct {
	prefix                           string // of the flags' names
	from                             string
	to, file, address, form, format  string
	caFile, cert, certKey, tokenFile string
}

func (f *destinationFlags) add(cmd *cobra.Command, prefix string) {
	f.prefix = prefix
	flags := cmd.Flags()
	flags.StringVar(&f.to, prefix+"to", "", "where the logs are sent: `file|syslog|https`")
	flags.StringVar(&f.file, prefix+"file", "", "`path` of the file, for "+prefix+"to file")
	flags.StringVar(&f.address, prefix+"address", "", "`address` of the receiver: host:port for syslog, a URL for https")
	flags.StringVar(&f.form, prefix+"form", export.FormLines, "form of requests to an https receiver: `ndjson|splunk|elastic`")
	flags.StringVar(&f.format, prefix+"format", "lines", "form of the lines: `lines|ocsf`")
	begins := "begin logs that were not sent yet at the first record of this `time` or later, such as 2026-11-23T17:00:00Z"
	if prefix == "" {
		begins += ", or now"
	}
	flags.StringVar(&f.from, prefix+"from", "", begins+" (default: the first record)")
	flags.StringVar(&f.caFile, f.caFlag(), "", "`file` with the certificates that a receiver's must lead to (default: the system's and those of --ca-file)")
	flags.StringVar(&f.cert, prefix+"cert", "", "`file` with a client certificate for the receiver")
	flags.StringVar(&f.certKey, prefix+"cert-key", "", "`file` with the key of the client certificate")
	flags.StringVar(&f.tokenFile, prefix+"token-file", "", "`file` with the token for an https receiver; or set ATTESTD_EXPORT_TOKEN")
}

// caFlag is the name of the flag for the CAs of the receiver. Where there is no prefix, --ca-file
// is for the CAs of the server.
func (f *destinationFlags) caFlag() string {
	if f.prefix == "" {
		return "receiver-ca-file"
	}
	return f.prefix + "ca-file"
}

// name returns a flag as it is typed.
func (f *destinationFlags) name(flag string) string { return "--" + f.prefix + flag }

// open returns the destination, and the least time between two deliveries.
func (f *destinationFlags) open() (export.Destination, time.Duration, error) {
	if f.format != "lines" && f.format != "ocsf" {
		return nil, 0, cli.Usagef("%s must be lines or ocsf, got %q", f.name("format"), f.format)
	}
	if (f.file != "") != (f.to == "file") {
		return nil, 0, cli.Usagef("%s file and %s PATH go together", f.name("to"), f.name("file"))
	}
	if (f.address != "") != (f.to == "syslog" || f.to == "https") {
		return nil, 0, cli.Usagef("%s is for %s syslog or https, which need it", f.name("address"), f.name("to"))
	}
	if f.to != "https" && (f.form != export.FormLines || f.tokenFile != "") {
		return nil, 0, cli.Usagef("%s and %s are for %s https", f.name("form"), f.name("token-file"), f.name("to"))
	}
	if f.to == "file" {
		return export.NewFile(f.file), 100 * time.Millisecond, nil
	}
	config, err := f.tls()
	if err != nil {
		return nil, 0, err
	}
	switch f.to {
	case "syslog":
		d, err := export.NewSyslog(f.address, config)
		if err != nil {
			return nil, 0, cli.Usagef("%s: %v", f.name("address"), err)
		}
		return d, time.Second, nil
	case "https":
		token, err := f.token()
		if err != nil {
			return nil, 0, err
		}
		d, err := export.NewHTTPS(f.address, f.form, token, config)
		if err != nil {
			return nil, 0, cli.Usagef("%s: %v", f.name("address"), err)
		}
		return d, 200 * time.Millisecond, nil
	}
	return nil, 0, cli.Usagef("%s must be file, syslog or https, got %q", f.name("to"), f.to)
}

// token reads the token of a receiver. It may be empty.
func (f *destinationFlags) token() (string, error) {
	if f.tokenFile == "" {
		return os.Getenv("ATTESTD_EXPORT_TOKEN"), nil
	}
	text, err := cli.ReadPrivate(f.tokenFile)
	if err != nil {
		return "", fmt.Errorf("%s: %w", f.name("token-file"), err)
	}
	token := strings.TrimSpace(text)
	if token == "" {
		return "", fmt.Errorf("%s: %s is empty", f.name("token-file"), f.tokenFile)
	}
	return token, nil
}

// tls returns how receivers are verified.
func (f *destinationFlags) tls() (*tls.Config, error) {
	config := &tls.Config{RootCAs: cli.TrustedRoots()}
	if f.caFile != "" {
		text, err := cli.ReadRights(f.caFile, cli.MaxCAFile)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", f.caFlag(), err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, cli.Usagef("--%s: there is no certificate in %s", f.caFlag(), f.caFile)
		}
	}
	if (f.cert == "") != (f.certKey == "") {
		return nil, cli.Usagef("%s and %s go together", f.name("cert"), f.name("cert-key"))
	}
	if f.cert != "" {
		key, err := cli.ReadPrivate(f.certKey)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name("cert-key"), err)
		}
		chain, err := cli.ReadBounded(f.cert, cli.MaxCAFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name("cert"), err)
		}
		pair, err := tls.X509KeyPair(chain, []byte(key))
		if err != nil {
			return nil, cli.Usagef("%s: %v", f.name("cert"), err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

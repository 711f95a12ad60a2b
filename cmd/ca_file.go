package cmd

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// caFileVariable names the file of private CAs, in the environment and in the connection file.
const caFileVariable = "ATTESTD_CA_FILE"

// trustCA makes the process trust the CAs in the file that --ca-file, ATTESTD_CA_FILE or the
// connection file names, beside those of the system, when it connects to the server. All our
// clients begin with http.DefaultTransport, which nothing has used yet. What a command runs is not
// affected.
func trustCA(cmd *cobra.Command) error {
	flag := cmd.Flag("ca-file")
	if flag == nil {
		return nil
	}
	path := flag.Value.String()
	if path == "" {
		_, file, err := readConnectionFile()
		if path = file[caFileVariable]; err != nil || path == "" {
			return nil // the command says what is wrong with that file, if it reads it
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return usagef("--ca-file: %v", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return usagef("--ca-file: %s holds no certificate in PEM", path)
	}
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return fmt.Errorf("--ca-file: unknown transport %T", http.DefaultTransport)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return nil
}

// caFileSetting is the line of the connection file by which later commands trust the same CAs, or
// none.
func caFileSetting(cmd *cobra.Command) (settings [][2]string) {
	flag := cmd.Flag("ca-file")
	if flag == nil || flag.Value.String() == "" {
		return nil
	}
	path, err := filepath.Abs(flag.Value.String())
	if err != nil {
		path = flag.Value.String()
	}
	return [][2]string{{caFileVariable, path}}
}

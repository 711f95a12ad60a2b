package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// OpenNamed opens a file named on the command line. If it does not exist, the error is
// fs.ErrNotExist, with the exit status of that.
func OpenNamed(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ExitError{Status: ExitNotFound, Err: missingError{path}}
	}
	return f, err
}

// ReadBounded reads at most one byte more than the limit, so that the caller can recognise a file
// that is too long.
func ReadBounded(path string, most int64) ([]byte, error) {
	f, err := OpenNamed(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return BoundedText(f, f, most)
}

// BoundedText is ReadBounded of a file that src reads.
func BoundedText(f *os.File, src io.Reader, most int64) ([]byte, error) {
	about, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// A pipe has size 0; the buffer then grows.
	text := bytes.NewBuffer(make([]byte, 0, min(about.Size(), most+1)+bytes.MinRead))
	_, err = text.ReadFrom(io.LimitReader(src, most+1))
	return text.Bytes(), err
}

// missingError says that a file named on the command line does not exist.
type missingError struct{ path string }

func (e missingError) Error() string { return e.path + ": not found" }

func (missingError) Is(target error) bool { return target == fs.ErrNotExist }

// MaxCAFile bounds a file with certificates, in bytes.
const MaxCAFile = 8 << 20

// caFileVariable names the file of private CAs, in the environment and in the connection file.
const caFileVariable = "ATTESTD_CA_FILE"

// CaFileFlag adds the flag of the CAs that trustCA reads.
func CaFileFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("ca-file", "", "`file` with private CAs to trust for https, in addition to the system's")
}

// trustCA makes the process trust the CAs in the file that --ca-file or ATTESTD_CA_FILE names,
// in addition to those of the system. Commands that connect to a server also take it from the
// connection file. It is called before anything connects.
func trustCA(cmd *cobra.Command) error {
	flag := cmd.Flag("ca-file")
	if flag == nil {
		return nil
	}
	path := flag.Value.String()
	if path == "" && cmd.Flag("url") != nil {
		_, file, err := ReadConnectionFile()
		if path = file[caFileVariable]; err != nil || path == "" {
			return nil // the command says what is wrong with that file, if it reads it
		}
	}
	if path == "" {
		return nil
	}
	pool, err := ReadCAs(path)
	if err != nil {
		return Usagef("--ca-file: %v", err)
	}
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return fmt.Errorf("--ca-file: unknown transport %T", http.DefaultTransport)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return nil
}

// ReadCAs returns the CAs in a file in addition to those of the system.
func ReadCAs(path string) (*x509.CertPool, error) {
	text, err := ReadRights(path, MaxCAFile)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", path)
	}
	return pool, nil
}

// TrustedRoots returns the CAs that trustCA has made the process trust, for what has a transport of
// its own; nil for those of the system.
func TrustedRoots() *x509.CertPool {
	if t, ok := http.DefaultTransport.(*http.Transport); ok && t.TLSClientConfig != nil {
		return t.TLSClientConfig.RootCAs
	}
	return nil
}

// CaFileSetting is the line of the connection file by which later commands trust the same CAs, or
// none.
func CaFileSetting(cmd *cobra.Command) (settings [][2]string) {
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

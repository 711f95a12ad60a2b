//go:build profile

package cmd

import (
	"net/http"
	_ "net/http/pprof"
	"os"
)

// A build with -tags profile answers net/http/pprof where ATTESTD_PROFILE says, which should be
// loopback: a profile shows what the server does for whom. No release is built like that.
func init() {
	if addr := os.Getenv("ATTESTD_PROFILE"); addr != "" {
		go func() { panic(http.ListenAndServe(addr, nil)) }()
	}
}

package cmd

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	"attestd/cmd/cli"
)

// A variable that is a misspelt setting of serve is refused with the right name. Other unknown ones
// are warned of, and what Kubernetes makes of a service named attestd is let through.
func TestMisspeltVariables(t *testing.T) {
	t.Parallel()
	serve, _, _ := Commands().Find([]string{"serve"})
	values := map[string]string{"ATTESTD_PORT": "tcp://10.0.0.1:8080", "ATTESTD_SERVICE_PORT": "8080", "ATTESTD_SERVICE_PORT_HTTP": "8080"}
	for name, want := range map[string]string{
		"ATTESTD_REGISTRATON":       "refused ATTESTD_REGISTRATION",
		"ATTESTD_REGISTRATIONS":     "refused ATTESTD_REGISTRATION",
		"ATTESTD_STRAEM":            "refused ATTESTD_STREAM",
		"ATTESTED_STREAM":           "refused ATTESTD_STREAM",
		"ATTEST_STREAM":             "refused ATTESTD_STREAM",
		"attestd_stream":            "refused ATTESTD_STREAM",
		"Attestd_Stream":            "refused ATTESTD_STREAM",
		"ATTESTD_TLS-CERT":          "refused ATTESTD_TLS_CERT",
		"ATTESTD_MAX_KEY":           "refused ATTESTD_MAX_KEYS",
		"ATTESTD_TRUSTED_PROXY":     "refused ATTESTD_TRUSTED_PROXIES",
		"ATTESTD_NO_RECOVER_ENDPNT": "refused ATTESTD_NO_RECOVER_ENDPOINT",
		"ATTESTD_CONFG":             "refused ATTESTD_CONFIG",
		"ATTESTD_DBS":               "refused ATTESTD_DB",

		"ATTESTD_VERSION": "warned", "ATTESTD_IMAGE": "warned", "ATTESTD_WHATEVER": "warned", "ATTESTD_DB_PASSWORD": "warned",
		"ATTESTD_": "warned", "ATTESTD_LISTEN_PORT": "warned",

		"ATTESTD_STREAM": "", "ATTESTD_URL": "", "ATTESTD_KEY": "", "ATTESTD_KEY_FILE": "", "ATTESTD_COMPANY": "", "ATTESTD_AGENT_KEY_FILE": "",
		"ATTESTD_EXPORT_TOKEN": "", "SERVICE_BASE_URL": "", "PATH": "", "STREAM": "", "AT": "", "": "",
		"ATTESTD_SERVICE_HOST": "", "ATTESTD_SERVICE_PORT": "", "ATTESTD_SERVICE_PORT_HTTP": "", "ATTESTD_PORT": "",
		"ATTESTD_PORT_8080_TCP": "", "ATTESTD_PORT_8080_TCP_PROTO": "", "ATTESTD_PORT_8080_TCP_PORT": "", "ATTESTD_PORT_8080_TCP_ADDR": "",
		"ATTESTD_WEB_SERVICE_HOST": "", "ATTESTD_WEB_PORT_53_UDP_ADDR": "",
	} {
		unknown, err := cli.CheckEnvironment(serve, []string{name + "=" + cmp.Or(values[name], "hush"), "ATTESTD_LISTN=", "HOME=/x"})
		got := ""
		switch {
		case err != nil:
			_, meant, _ := strings.Cut(err.Error(), "did you mean ")
			meant, _, _ = strings.Cut(meant, "?")
			got = "refused " + meant
			if strings.Contains(err.Error(), "hush") || !errors.As(err, new(cli.UsageError)) {
				t.Errorf("%s: %v", name, err)
			}
		case slices.Equal(unknown, []string{name}):
			got = "warned"
		case len(unknown) > 0:
			got = strings.Join(unknown, " ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Every variable of every command, and each that the program reads by name, is known.
func TestKnownVariables(t *testing.T) {
	t.Parallel()
	serve, _, _ := Commands().Find([]string{"serve"})
	var all []string
	for _, c := range cli.AllCommands(Commands()) {
		for _, name := range cli.Variables(c.Flags()) {
			all = append(all, name+"=1")
		}
	}
	all = append(all, "ATTESTD_TEST_DB=postgres")
	unknown, err := cli.CheckEnvironment(serve, all)
	if err != nil || len(unknown) > 0 || len(all) < 200 {
		t.Errorf("%d variables: %v, %v", len(all), unknown, err)
	}
}

package cmd

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/server"
	"attestd/server/api"
	"attestd/store"
	"attestd/store/ledger"
)

// leastVerifyEvery is the smallest interval of the background verification.
const leastVerifyEvery = time.Minute

// verifyFlags are the flags of the background verification.
type verifyFlags struct{ every string }

func (f *verifyFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.every, "verify-every", "24h",
		"`interval` at which every log and table is verified in the background, from 1m on; or off")
}

// config returns the interval, or 0 for off.
func (f verifyFlags) config() (time.Duration, error) {
	if f.every == "off" {
		return 0, nil
	}
	every, err := time.ParseDuration(f.every)
	if err != nil || every < leastVerifyEvery {
		return 0, cli.Usagef("--verify-every must be off or a time from 1m on, such as 24h, got %q", f.every)
	}
	return every, nil
}

// readyFlags say when the server is ready for a load balancer.
type readyFlags struct {
	diskFloor  string
	drainDelay time.Duration
}

func (f *readyFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.diskFloor, "disk-floor", "1MiB",
		"free `size` on the disk of the database below which the server is not ready; 0 for none")
	cmd.Flags().DurationVar(&f.drainDelay, "drain-delay", 0,
		"how long the server is not ready and goes on serving after it was asked to stop")
}

func (f readyFlags) config(cfg *server.Config) error {
	floor, err := humanize.ParseBytes(f.diskFloor)
	if err != nil || floor > 1<<50 {
		return cli.Usagef("--disk-floor must be a size such as 1GiB, got %q", f.diskFloor)
	}
	if f.drainDelay < 0 || f.drainDelay > time.Hour {
		return cli.Usagef("--drain-delay must be from 0s to 1h, got %s", f.drainDelay)
	}
	cfg.DiskFloor, cfg.DrainDelay = int64(floor), f.drainDelay
	return nil
}

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

// listen sets the listener of cfg. Where the server does not run, it need not be closed: the
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

// quotaFlags bound what companies make the server store.
type quotaFlags struct {
	records, totalRecords, companies, companiesPerDay int64
	bytes, totalBytes                                 string
}

func (f *quotaFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Int64Var(&f.records, "max-records", 0,
		"largest `number` of records in each log of a company without a quota of its own; 0 for no limit")
	flags.StringVar(&f.bytes, "max-bytes", "0",
		"largest `size` of the payloads in each log of a company without a quota of its own; 0 for no limit")
	flags.Int64Var(&f.totalRecords, "max-total-records", 0, "largest `number` of records of all companies together; 0 for no limit")
	flags.StringVar(&f.totalBytes, "max-total-bytes", "0", "largest `size` of the payloads of all companies together; 0 for no limit")
	flags.Int64Var(&f.companies, "max-companies", 100_000, "largest `number` of companies; 0 for no limit")
	flags.Int64Var(&f.companiesPerDay, "max-companies-per-day", 10_000,
		"largest `number` of companies that register within 24 hours; 0 for no limit")
}

func (f *quotaFlags) config() (q ledger.Quotas, err error) {
	q = ledger.Quotas{Records: f.records, AllRecords: f.totalRecords, Companies: f.companies, CompaniesPerDay: f.companiesPerDay}
	for name, n := range map[string]int64{
		"max-records": f.records, "max-total-records": f.totalRecords, "max-companies": f.companies,
		"max-companies-per-day": f.companiesPerDay,
	} {
		if n < 0 || n > mostQuota {
			return q, cli.Usagef("--%s must be a number from 0 to 2^53, got %d", name, n)
		}
	}
	if q.Bytes, err = parseQuotaSize("--max-bytes", f.bytes); err != nil {
		return q, err
	}
	q.AllBytes, err = parseQuotaSize("--max-total-bytes", f.totalBytes)
	return q, err
}

const mostQuota = 1 << 53

func parseQuotaSize(flag, text string) (int64, error) {
	size, err := humanize.ParseBytes(text)
	if err != nil || size > mostQuota {
		return 0, cli.Usagef("%s must be a size such as 20GiB, or 0 for no limit, got %q", flag, text)
	}
	return int64(size), nil
}

// parseQuotaNumber reads a number of records.
func parseQuotaNumber(flag, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > mostQuota {
		return 0, cli.Usagef("%s must be a number from 0 to 2^53, 0 for no limit, got %q", flag, text)
	}
	return n, nil
}

// retentionFlags say how long rows stay in the database after what they are for has ended.
type retentionFlags struct{ passports, tokens, sessions, retryKeys string }

func (f *retentionFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.passports, "keep-passports", "30d",
		"`time` for which passports stay in the database after their end, from 2d on; or forever")
	flags.StringVar(&f.tokens, "keep-tokens", "7d",
		"`time` for which access tokens, and notes of revoked ones, stay in the database after their end, from 1d on; or forever")
	flags.StringVar(&f.sessions, "keep-sessions", "forever",
		"`time` for which sessions without statements are listed after their last record, from 30d on; or forever")
	flags.StringVar(&f.retryKeys, "keep-retry-keys", "30d",
		"`time` for which an Idempotency-Key counts, from 30d on; or forever")
}

func (f *retentionFlags) config() (retention store.Retention, err error) {
	for _, t := range []struct {
		flag, text string
		least      time.Duration
		to         *time.Duration
	}{
		{"--keep-passports", f.passports, store.LeastPassports, &retention.Passports},
		{"--keep-tokens", f.tokens, store.LeastTokens, &retention.Tokens},
		{"--keep-sessions", f.sessions, store.LeastSessions, &retention.Sessions},
		{"--keep-retry-keys", f.retryKeys, ledger.KeyLifetime, &retention.RetryKeys},
	} {
		var ok bool
		if *t.to, ok = parseRetention(t.text); !ok || *t.to < t.least {
			return retention, cli.Usagef("%s must be forever or a time from %dd on, such as 400d, got %q", t.flag, t.least/day, t.text)
		}
	}
	return retention, nil
}

const (
	day = 24 * time.Hour
	// maxRetention is the longest time that is not forever: 100 years.
	maxRetention = 36500 * day
)

// parseRetention parses a number of days, a time, or forever.
func parseRetention(text string) (retention time.Duration, ok bool) {
	if text == "forever" {
		return store.Forever, true
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.ParseUint(days, 10, 16)
		retention = time.Duration(n) * day
		return retention, err == nil && retention <= maxRetention
	}
	retention, err := time.ParseDuration(text)
	return retention, err == nil && retention <= maxRetention
}

const (
	minToken = 16
	maxToken = 4096
)

// parseRegistration parses who may register a company, and reads the token if the mode requires
// one.
func parseRegistration(mode, tokenFile string) (r api.Registration, err error) {
	if r.Mode, err = api.ParseRegistration(mode); err != nil {
		return r, cli.Usagef("--registration: %v", err)
	}
	if needs := r.Mode == api.RegistrationToken; needs != (tokenFile != "") {
		return r, cli.Usagef("--registration token and --registration-token-file require each other")
	} else if needs {
		r.Token, err = readToken("registration-token-file", tokenFile, minToken)
	}
	return r, err
}

// readToken reads a secret of so many characters at least from the file of a flag, which only its
// owner may read. Errors do not contain the secret.
func readToken(flag, path string, least int) (string, error) {
	f, info, err := cli.OpenRights(path, false)
	if err != nil {
		return "", cli.Usagef("--%s: %v", flag, err)
	}
	defer f.Close()
	if cli.IsExposed(path, info) {
		return "", cli.Usagef("--%s: others may read %s; chmod 600 %s", flag, path, printable.ShellWord(path))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", cli.Usagef("--%s: %v", flag, err)
	}
	token := bytes.TrimSpace(text)
	hidden := func(c rune) bool { return c <= ' ' || c >= 0x7f }
	if len(token) < least || len(text) > maxToken || bytes.ContainsFunc(token, hidden) {
		return "", cli.Usagef("--%s: %s must hold %d to %d visible ASCII characters on one line", flag, path, least, maxToken)
	}
	return string(token), nil
}

// registrationHeader returns the curl argument that registering a company needs, if any.
func (f serveFlags) registrationHeader() string {
	if f.registrationTokenFile == "" {
		return ""
	}
	return ` -H "Authorization: Bearer $(cat ` + printable.ShellWord(f.registrationTokenFile) + `)"`
}

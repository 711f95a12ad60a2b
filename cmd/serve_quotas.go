package cmd

import (
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/store"
)

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

func (f *quotaFlags) config() (q store.Quotas, err error) {
	q = store.Quotas{Records: f.records, AllRecords: f.totalRecords, Companies: f.companies, CompaniesPerDay: f.companiesPerDay}
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

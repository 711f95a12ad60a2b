package projection

// The tables as differences and records name them.
const (
	TableSuspension = "company_suspension"
	TableQuota      = "company_quota"
)

// Suspension says whether an operator has suspended the company.
type Suspension struct {
	SuspendedAt string `json:"suspendedAt"` // "" while it is not
	Reason      string `json:"reason"`
}

func (d *details) suspension() Suspension {
	return Suspension{SuspendedAt: d.SuspendedAt, Reason: valueOf(d.Reason)}
}

// Suspension compares a suspension; the zero one means a missing row.
func (l *Latest) Suspension(has Suspension) *Difference {
	return againstOrNone(l, TableSuspension, "", has, Suspension{}, (*details).suspension)
}

func (l *Latest) suspension() (Suspension, error) {
	want, _, is, err := row[Suspension](l)
	if !is {
		want = l.Payload.suspension()
	}
	return want, err
}

// Suspends reports whether the record says that the company is suspended. One that cannot be read
// does.
func (l *Latest) Suspends() bool {
	if l == nil {
		return false
	}
	want, err := l.suspension()
	return err != nil || want.SuspendedAt != ""
}

// Quota is what an operator allows each log of the company.
type Quota struct {
	MaxRecords int64 `json:"maxRecords"` // 0 for no bound, ServersQuota for that of the server
	MaxBytes   int64 `json:"maxBytes"`
}

// ServersQuota means the quota that a server has for companies without their own.
const ServersQuota = -1

func (d *details) quota() Quota {
	return Quota{orServers(d.MaxRecords), orServers(d.MaxBytes)}
}

func orServers(n *int64) int64 {
	if n == nil {
		return ServersQuota
	}
	return *n
}

// Quota compares a quota; the server's means a missing row.
func (l *Latest) Quota(has Quota) *Difference {
	return againstOrNone(l, TableQuota, "", has, Quota{ServersQuota, ServersQuota}, (*details).quota)
}

func (l *Latest) quota() (Quota, error) {
	want, gone, is, err := row[Quota](l)
	switch {
	case !is:
		want = l.Payload.quota()
	case gone:
		want = Quota{ServersQuota, ServersQuota}
	}
	return want, err
}

// Quotas returns the quota that the record says: the server's where it says none, or cannot be
// read.
func (l *Latest) Quotas() Quota {
	if l != nil {
		if want, err := l.quota(); err == nil {
			return want
		}
	}
	return Quota{ServersQuota, ServersQuota}
}

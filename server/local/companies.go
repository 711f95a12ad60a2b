package local

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"attestd/crypto/keys"
	"attestd/store"
	"attestd/store/db"
)

// Operations are what an operator does to companies, in the server that has the database open or in
// a command that has opened it.
type Operations struct {
	Store *store.Store
	// called with the number of a company of which something has changed; may be nil
	Changed func(company int64)
	// says how the server is; nil where none runs
	State func(ctx context.Context) State
	// says how many of the first actions of a company the receiver of the server's export has
	// acknowledged; it is false where that exports none of them. nil where no server runs
	Exported func(ctx context.Context, c *store.Company) (acknowledged int64, is bool, err error)
	// where no server runs: prune what an export had not sent
	IgnoreExports bool
}

// Company is a company with what it has and may have. A quota of null is that of the server.
type Company struct {
	CompanyID      string `json:"companyId"`
	RegisteredAt   string `json:"registeredAt"`
	SuspendedAt    string `json:"suspendedAt,omitempty"`
	Reason         string `json:"reason,omitempty"` // of the suspension
	Records        int64  `json:"records"`          // of the actions
	Bytes          int64  `json:"bytes"`
	ControlRecords int64  `json:"controlRecords"`
	ControlBytes   int64  `json:"controlBytes"`
	Agents         int64  `json:"agents"`
	MaxRecords     *int64 `json:"maxRecords"`
	MaxBytes       *int64 `json:"maxBytes"`
}

func newCompany(u store.CompanyUsage) Company {
	return Company{u.ID, u.RegisteredAt, u.Suspension.At, u.Suspension.Reason, u.Records, u.Bytes, u.ControlRecords, u.ControlBytes,
		u.Agents, u.Quota.Records, u.Quota.Bytes}
}

// A Decision is about a company. Its reason is recorded in the company's control log.
type Decision struct {
	CompanyID string `json:"companyId"`
	Reason    string `json:"reason"`
}

// Quota is a decision about what each log of a company may have. null is the quota of the server, 0
// none.
type Quota struct {
	Decision
	MaxRecords *int64 `json:"maxRecords"`
	MaxBytes   *int64 `json:"maxBytes"`
}

// Rotation asks for a new signing key of a company.
type Rotation struct {
	CompanyID   string `json:"companyId"`
	Compromised bool   `json:"compromised"`
}

// Rotated says which key signs from which record of the actions on.
type Rotated struct {
	KID         string `json:"kid"`
	From        int64  `json:"from"`
	Fingerprint string `json:"fingerprint"`
	Retired     string `json:"retired"` // kid of the key before
}

const (
	maxReason = 1024
	maxQuota  = 1 << 53 // as far as JSON numbers are exact
)

// List yields all companies in the order of registration.
func (o *Operations) List(ctx context.Context) iter.Seq2[Company, error] {
	return func(yield func(Company, error) bool) {
		for u, err := range o.Store.Companies.Usages(ctx) {
			if !yield(newCompany(u), err) || err != nil {
				return
			}
		}
	}
}

// Show returns a company. It returns store.ErrNotFound for an unknown one, as all operations do.
func (o *Operations) Show(ctx context.Context, id string) (Company, error) {
	u, err := o.Store.Companies.Usage(ctx, id)
	if err != nil {
		return Company{}, err
	}
	return newCompany(u), nil
}

// Suspend suspends a company; it returns when that holds on all servers.
func (o *Operations) Suspend(ctx context.Context, d Decision) (Company, error) {
	return o.decide(ctx, d, func(by store.Caller) error {
		changed, err := o.Store.Companies.Suspend(ctx, by, d.Reason)
		return refuseUnchanged(changed, err, "is suspended already")
	})
}

// Resume ends the suspension of a company.
func (o *Operations) Resume(ctx context.Context, d Decision) (Company, error) {
	return o.decide(ctx, d, func(by store.Caller) error {
		changed, err := o.Store.Companies.Resume(ctx, by, d.Reason)
		return refuseUnchanged(changed, err, "is not suspended")
	})
}

func refuseUnchanged(changed bool, err error, what string) error {
	if err == nil && !changed {
		err = fmt.Errorf("%w: the company %s", store.ErrRefused, what)
	}
	return err
}

// SetQuota sets the quota of a company.
func (o *Operations) SetQuota(ctx context.Context, q Quota) (Company, error) {
	for _, n := range []*int64{q.MaxRecords, q.MaxBytes} {
		if n != nil && (*n < 0 || *n > maxQuota) {
			return Company{}, fmt.Errorf("%w: a quota is 0 for none, or at most 2^53", store.ErrRefused)
		}
	}
	return o.decide(ctx, q.Decision, func(by store.Caller) error {
		return o.Store.Companies.SetQuota(ctx, by, store.Quota{Records: q.MaxRecords, Bytes: q.MaxBytes}, q.Reason)
	})
}

// decide changes something of a company.
func (o *Operations) decide(ctx context.Context, d Decision, change func(store.Caller) error) (Company, error) {
	if strings.TrimSpace(d.Reason) == "" || len(d.Reason) > maxReason {
		return Company{}, fmt.Errorf("%w: a reason of 1 to %d bytes is required", store.ErrRefused, maxReason)
	}
	if d.CompanyID == db.InstallationID {
		return Company{}, fmt.Errorf("%w: %s is no company", store.ErrRefused, d.CompanyID)
	}
	by, err := o.operator(ctx, d.CompanyID)
	if err != nil {
		return Company{}, err
	}
	err = change(by)
	o.changed(by) // even if the outcome is unknown
	if err != nil {
		return Company{}, err
	}
	return o.Show(ctx, d.CompanyID)
}

func (o *Operations) operator(ctx context.Context, id string) (store.Caller, error) {
	of, err := o.Store.Companies.Get(ctx, id)
	if id == db.InstallationID {
		of, err = o.Store.Companies.Installation(ctx)
	}
	return store.Caller{Company: of, Role: store.Admin, Operator: true, At: time.Now()}, err
}

func (o *Operations) changed(by store.Caller) {
	if o.Changed != nil {
		o.Changed(by.Company.Chain)
	}
}

// RotateKey gives a company, or with db.InstallationID the log of the companies, a new signing
// key.
func (o *Operations) RotateKey(ctx context.Context, r Rotation) (Rotated, error) {
	by, err := o.operator(ctx, r.CompanyID)
	if err != nil {
		return Rotated{}, err
	}
	old, next, err := o.Store.Companies.RotateKey(ctx, by, r.Compromised)
	o.changed(by)
	if err != nil {
		return Rotated{}, err
	}
	public := keys.Describe(next.Public)
	return Rotated{public.KID, next.From, public.Fingerprint, keys.Describe(old.Public).KID}, nil
}

package local

import (
	"context"
	"errors"
	"fmt"

	"attestd/chain/lines"
	"attestd/service"
	"attestd/store"
	"attestd/store/db"
)

// Archive asks for an archive of a company's records from before a time.
type Archive struct {
	CompanyID string `json:"companyId"`
	Before    string `json:"before"` // a timestamp
}

// Archive returns what an archive has in addition to the records: checkpoints that the company's
// key signs now, and proofs. The command that asks reads the records itself.
func (o *Operations) Archive(ctx context.Context, a Archive) (lines.Frame, error) {
	if a.CompanyID == db.InstallationID {
		return lines.Frame{}, fmt.Errorf("%w: %s is no company", store.ErrRefused, a.CompanyID)
	}
	by, err := o.operator(ctx, a.CompanyID)
	if err != nil {
		return lines.Frame{}, err
	}
	e := service.Evidence{Store: o.Store, Checkpoints: service.NewCheckpoints(o.Store)}
	f, err := e.Archive(ctx, by, a.Before)
	if refused := (*service.Error)(nil); errors.As(err, &refused) {
		err = fmt.Errorf("%w: %s", store.ErrRefused, refused.Message)
	}
	return f, err
}

// Archive is that of Operations.
func (c *Client) Archive(ctx context.Context, a Archive) (f lines.Frame, err error) {
	return f, c.callFor(ctx, "/archive", a, &f, maxFrame)
}

// maxFrame limits what an archive has in addition to its records, in bytes: the keys line, with up
// to 10,000 keys and their rotations, is JSON in JSON.
const maxFrame = 4 * lines.MaxLine

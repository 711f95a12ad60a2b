package local

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"attestd/chain/evidence"
	"attestd/chain/lines"
	"attestd/crypto/keys"
	"attestd/internal/sleep"
	"attestd/server/export"
	"attestd/store"
	"attestd/store/db"
)

// Prune names the company whose payloads are pruned.
type Prune struct {
	CompanyID string `json:"companyId"`
}

// Pruned is how far the pruning of a company is.
type Pruned struct {
	Records int64  `json:"records"` // whose payloads go
	Left    int64  `json:"left"`    // that still have theirs
	Archive string `json:"archive"` // its SHA-256, in lower-case hex
}

// prunedAtOnce is how many payloads one call deletes, so that its caller sees progress.
const prunedAtOnce = 4096

// BeginPrune reads an archive of the company to its end, and records in the control log that the
// payloads of its actions go. So the control record names no archive that this process has not
// read: the archive must hold, begin no later than the payloads that are still there, and have the
// very records of the log. Prune then deletes the payloads.
func (o *Operations) BeginPrune(ctx context.Context, p Prune, archive io.Reader) error {
	by, err := o.ofCompany(ctx, p.CompanyID)
	if err != nil {
		return err
	}
	set, err := o.Store.KeySet(ctx, by.Company.Actions.Chain)
	if err != nil {
		return err
	}
	former, err := o.Store.PrunedRecords(ctx, by.Company.Actions.Chain)
	if err != nil {
		return err
	}
	// the key that all keys of the company follow
	trust := evidence.Trust{Fingerprint: keys.Describe(set.At(0).Key).Fingerprint}
	v, err := lines.CheckArchive(archive, lines.Options{Trust: trust, CompanyID: p.CompanyID})
	switch {
	case err != nil:
		return fmt.Errorf("the archive cannot be read: %w", err)
	case v.Outcome != evidence.Holds:
		return fmt.Errorf("%w: the archive does not hold: %s: %s", store.ErrNotPrunable, v.Code, v.Reason)
	}
	for _, part := range v.Logs {
		if part.Log == evidence.Actions && part.First > former.Records {
			return fmt.Errorf("%w: the archive begins with record %d, and the payloads from %d on are not in an archive before it",
				store.ErrNotPrunable, part.First, former.Records)
		}
	}
	if err := o.mayPruneBesideExports(ctx, by.Company, v.Archive.Actions.Size); err != nil {
		return err
	}
	_, err = o.Store.Pruning.BeginPrune(context.WithoutCancel(ctx), by, v.Archive.Actions.Size, v.Archive.Actions.Root, v.Archive.SHA256)
	return err
}

// mayPruneBesideExports refuses to prune what an export has not sent: that of this server, or where
// none runs each that was ever on. What was acknowledged stays so, and this needs no transaction.
func (o *Operations) mayPruneBesideExports(ctx context.Context, c *store.Company, records int64) error {
	if o.Exported != nil {
		acknowledged, is, err := o.Exported(ctx, c)
		if err == nil && is && acknowledged < records {
			err = fmt.Errorf("%w: the receiver of the export has not acknowledged records from %d on; wait for it, "+
				"or export to another name of it with --export-from", store.ErrNotPrunable, acknowledged)
		}
		return err
	}
	if o.IgnoreExports {
		return nil
	}
	positions, err := o.Store.ExportPositions(ctx, c.Actions.Chain)
	for _, text := range positions {
		at, err := export.ReadPosition(text)
		if err != nil {
			return fmt.Errorf("the position of an export: %w", err)
		}
		if at.Frontier.Size < records {
			return fmt.Errorf("%w: the receiver of an export has not acknowledged records from %d on; start the server that exports and wait for it, "+
				"or give --ignore-exports where that export is no more", store.ErrNotPrunable, at.Frontier.Size)
		}
	}
	return err
}

// Prune deletes some thousands of the payloads that may go. The caller calls it until none is left.
func (o *Operations) Prune(ctx context.Context, p Prune) (Pruned, error) {
	by, err := o.ofCompany(ctx, p.CompanyID)
	if err != nil {
		return Pruned{}, err
	}
	pruned, err := o.Store.PrunedRecords(ctx, by.Company.Actions.Chain)
	if err != nil {
		return Pruned{}, err
	}
	if pruned.Records == 0 {
		return Pruned{}, fmt.Errorf("%w: no payload of %s was pruned: give --before and --out", store.ErrRefused, p.CompanyID)
	}
	left, err := o.Store.Pruning.PruneNext(ctx, by, prunedAtOnce)
	return Pruned{Records: pruned.Records, Left: left, Archive: pruned.Archive}, err
}

// ofCompany is operator of a company, and not of the log of the companies.
func (o *Operations) ofCompany(ctx context.Context, id string) (store.Caller, error) {
	if id == db.InstallationID {
		return store.Caller{}, fmt.Errorf("%w: %s is no company", store.ErrRefused, id)
	}
	return o.operator(ctx, id)
}

// BeginPrune is that of Operations. The server reads the archive through the socket, because its
// user may not see the file.
func (c *Client) BeginPrune(ctx context.Context, p Prune, archive io.Reader) error {
	body, err := c.post(ctx, "/prune/"+url.PathEscape(p.CompanyID), archive)
	if err != nil {
		return err
	}
	return body.Close()
}

// Prune is that of Operations.
func (c *Client) Prune(ctx context.Context, p Prune) (found Pruned, err error) {
	return found, c.call(ctx, "/prune", p, &found)
}

// beginPrune is the one operation whose body is no JSON object: it is the archive.
func (s *Server) beginPrune(w http.ResponseWriter, r *http.Request) {
	s.served.Add(1)
	archive := &pacedReader{ctx: r.Context(), src: r.Body, timeout: http.NewResponseController(w)}
	err := fmt.Errorf("%w: the server reads another archive; try again when that is done", store.ErrRefused)
	if s.reading.TryLock() {
		err = s.BeginPrune(r.Context(), Prune{r.PathValue("companyId")}, archive)
		s.reading.Unlock()
	}
	if err != nil {
		// who still sends when the connection closes may not see the answer
		_, _ = io.Copy(io.Discard, archive)
		s.fail(w, r, err)
		return
	}
	s.Log.Info("local command", "command", "/prune/{companyId}")
	answer(w, http.StatusOK, struct{}{})
}

const (
	archiveTimeout = 30 * time.Second // for the next bytes of an archive
	workAtOnce     = 10 * time.Millisecond
)

// pacedReader reads an archive for a check that works for a core's time: it rests as long as the
// check has worked, so that at least half of the core is for requests.
type pacedReader struct {
	ctx     context.Context
	src     io.Reader
	timeout *http.ResponseController
	since   time.Time // when the last read ended
	worked  time.Duration
}

func (r *pacedReader) Read(p []byte) (n int, err error) {
	if !r.since.IsZero() {
		r.worked += time.Since(r.since)
	}
	if r.worked >= workAtOnce {
		if err := sleep.For(r.ctx, r.worked); err != nil {
			return 0, err
		}
		r.worked = 0
	}
	// what is no connection, as in a test, has no deadline
	_ = r.timeout.SetReadDeadline(time.Now().Add(archiveTimeout))
	n, err = r.src.Read(p)
	r.since = time.Now()
	return n, err
}

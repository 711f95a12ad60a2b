package cmd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/cmd/cli"
	"attestd/crypto/keyring"
	"attestd/internal/atomicfile"
	"attestd/internal/sleep"
	"attestd/sdk/attestd"
	"attestd/server/export"
	"attestd/server/jobs"
)

func exportCommand() *cobra.Command {
	var f destinationFlags
	var follow bool
	var cursor string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Send the company's logs to a file, a syslog receiver or an HTTPS receiver",
		Long: `Send the records of both logs of the company elsewhere, as lines that attestd check --lines checks:
each with its index and hash, and at least every 10,000 lines or 10 seconds a signed checkpoint.
Without --follow, ends with the records that there are.

  --to file     appends to --file, mode 0600, synced. When the file was moved, or on SIGHUP, goes on
                in a new one
  --to syslog   RFC 5424 over TLS (RFC 5425, octet counting) to --address host:port. There is no UDP
                and no plain TCP
  --to https    POST of NDJSON to --address, or in the --form of splunk (HTTP Event Collector) or
                elastic (_bulk)

How far the export has come is in the file --cursor, which is written only after the receiver has
acknowledged. So a killed export goes on where it was, and lines may come twice; then a line says
so. A receiver that refuses or hangs is tried again, without an end with --follow.

--from now begins behind the last record that there is, --from TIME at the first record of that
time or later. The lines say and prove where they begin, and attestd check --lines names what is
not in them. It is for the first start alone: an export that has begun goes on where it was.

A reader's key is enough. A server sends the logs itself with attestd serve --export-to.

` + cli.ConnectionHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.to == "" {
				return cli.Usagef("--to must say where the logs are sent: file, syslog or https")
			}
			from, err := f.start(time.Now())
			if err != nil {
				return err
			}
			to, linger, err := f.open()
			if err != nil {
				return err
			}
			if cursor == "" {
				if f.to != "file" {
					return cli.Usagef("--cursor FILE must say where to store how far the export has come")
				}
				cursor = f.file + ".cursor"
			}
			c, err := cli.Connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			return runExport(cmd.Context(), newExportSource(c), cursor, export.Config{
				Destination: to, From: from, OCSF: f.format == "ocsf", Follow: follow, CheckpointAtEnd: true, Linger: linger,
				Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)),
			})
		},
	}
	cli.URLFlag(cmd)
	f.add(cmd, "")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with new records")
	cmd.Flags().StringVar(&cursor, "cursor", "", "`file` with how far the export has come (default for --to file: its name and .cursor)")
	for _, name := range []string{"to", "file", "address", "form", "format", "from", "receiver-ca-file", "cert", "cert-key", "token-file", "follow", "cursor"} {
		// those of serve have variables
		_ = cmd.Flags().SetAnnotation(name, cli.TypedOnly, []string{"true"})
	}
	return cmd
}

// runExport exports until it is done, or a signal ends it.
func runExport(ctx context.Context, source *exportSource, cursor string, c export.Config) error {
	company, err := source.client.Company(ctx)
	if err != nil {
		return err
	}
	source.company = company.CompanyID
	cursors, err := openCursorFile(cursor, company.CompanyID, c.Destination)
	if err != nil {
		return err
	}
	defer cursors.close()
	if c.From != (export.Start{}) && len(cursors.content.Logs) > 0 {
		return cli.ExitError{Status: cli.ExitRefused, Err: fmt.Errorf("the export has begun already, as %s says: leave out --from, or name another --cursor", cursor)}
	}
	c.Source, c.Cursors = source, cursors
	defer reopenOnHangup(c.Destination)()
	err = export.New(c).Run(ctx)
	if err = errors.Join(err, cursors.flush()); c.Follow && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // the way to end it
	}
	return err
}

// start parses where an export begins that has not begun yet. A server reads it again at each
// start, when "now" would be another time, so there it must be a time.
func (f *destinationFlags) start(now time.Time) (s export.Start, err error) {
	if f.from == "" {
		return s, nil
	}
	if f.from == "now" && f.prefix == "" {
		return export.Start{Now: true}, nil
	}
	at, err := time.Parse(time.RFC3339, f.from)
	switch {
	case err != nil && f.prefix == "":
		return s, cli.Usagef("--from must be now, or a time such as 2026-11-23T17:00:00Z, got %q", f.from)
	case err != nil:
		return s, cli.Usagef("%s must be a time such as 2026-11-23T17:00:00Z, got %q; the present is %s", f.name("from"), f.from, now.UTC().Format(time.RFC3339))
	case at.After(now):
		return s, cli.Usagef("%s must not be in the future, got %s; it is %s", f.name("from"), f.from, now.UTC().Format(time.RFC3339))
	}
	return export.Start{At: at}, nil
}

const (
	cursorFormat  = "attestd-export-cursor/v1"
	maxCursorFile = 64 << 10
	cursorEvery   = time.Second // the least time between two writes
)

// cursorFile stores how far an export has come. It is written in full and renamed into place, at
// most once in cursorEvery; what a kill loses of it comes again.
type cursorFile struct {
	path    string
	lock    *flock.Flock
	content cursorContent
	written time.Time
	dirty   bool
}

type cursorContent struct {
	Format      string                     `json:"format"`
	CompanyID   string                     `json:"companyId"`
	Destination string                     `json:"destination"` // for people
	ID          string                     `json:"id"`          // of the destination
	Logs        map[string]export.Position `json:"logs"`
}

// openCursorFile reads a cursor, or begins one. No other process can have it at the same time.
func openCursorFile(path, companyID string, to export.Destination) (c *cursorFile, err error) {
	id := sha256.Sum256([]byte(to.ID())) // the destination may have a token
	c = &cursorFile{path: path, lock: flock.New(path+".lock", flock.SetPermissions(0o600)),
		content: cursorContent{cursorFormat, companyID, to.String(), hex.EncodeToString(id[:]), map[string]export.Position{}}}
	has, err := c.lock.TryLock()
	if err != nil {
		return nil, err
	}
	if !has {
		return nil, cli.ExitError{Status: cli.ExitInUse, Err: fmt.Errorf("another export uses %s", path)}
	}
	if err := c.read(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *cursorFile) read() error {
	text, err := cli.ReadBounded(c.path, maxCursorFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var stored cursorContent
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&stored); err != nil || len(text) > maxCursorFile || stored.Format != cursorFormat {
		return fmt.Errorf("%s is no cursor of an export; remove it to begin with the first record", c.path)
	}
	if stored.CompanyID != c.content.CompanyID || stored.ID != c.content.ID {
		return fmt.Errorf("%s is the cursor of another export, of %s to %s; name another file with --cursor", c.path, stored.CompanyID,
			stored.Destination)
	}
	maps.Copy(c.content.Logs, stored.Logs)
	return nil
}

// Load implements export.Cursors.
func (c *cursorFile) Load(_ context.Context, l export.Log) (export.Position, error) {
	return c.content.Logs[l.Name], nil
}

// Save implements export.Cursors.
func (c *cursorFile) Save(at map[export.Log]export.Position) error {
	for l, p := range at {
		c.content.Logs[l.Name] = p
	}
	c.dirty = true
	if time.Since(c.written) < cursorEvery {
		return nil
	}
	return c.flush()
}

// flush writes the file.
func (c *cursorFile) flush() error {
	if !c.dirty {
		return nil
	}
	text, err := json.Marshal(c.content)
	if err != nil {
		return err
	}
	if err := atomicfile.Replace(c.path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("the cursor cannot be written: %w", err)
	}
	c.written, c.dirty = time.Now(), false
	return nil
}

func (c *cursorFile) close() { _ = c.lock.Unlock() }

const (
	pollEvery    = time.Second
	exportAtOnce = 1000 // records of one request
)

// exportSource reads the logs of a company from a server.
type exportSource struct {
	client  *attestd.Client
	company string
	polled  time.Time
	ids     map[string]string // of the logs, by name
	origins map[string]string
	sizes   map[string]int64
}

func newExportSource(c *attestd.Client) *exportSource {
	return &exportSource{client: c, ids: map[string]string{}, origins: map[string]string{}, sizes: map[string]int64{}}
}

// Grown implements export.Source.
func (s *exportSource) Grown(ctx context.Context, until time.Time) (grown []export.Log, err error) {
	for {
		wait := time.Until(s.polled.Add(pollEvery))
		if left := time.Until(until); !until.IsZero() && left < wait {
			return nil, sleep.For(ctx, left)
		}
		if err := sleep.For(ctx, wait); err != nil {
			return nil, err
		}
		s.polled = time.Now()
		logs, err := s.client.Logs(ctx)
		if err != nil {
			return nil, err
		}
		for _, l := range logs {
			name := string(l.Log)
			size, known := s.sizes[name]
			s.ids[name], s.origins[name], s.sizes[name] = l.LogID, l.Origin, l.Size
			if !known || size != l.Size {
				grown = append(grown, export.Log{CompanyID: s.company, Name: name})
			}
		}
		if len(grown) > 0 {
			return grown, nil
		}
	}
}

// Size implements export.Source.
func (s *exportSource) Size(_ context.Context, l export.Log) (int64, error) {
	return s.sizes[l.Name], nil
}

// Records implements export.Source.
func (s *exportSource) Records(ctx context.Context, l export.Log, from, to int64, yield func(*chain.Record) error) error {
	for ; from < to; from += exportAtOnce {
		part := attestd.Range{Log: attestd.Log(l.Name), From: from, Limit: min(to-from, exportAtOnce)}
		for answered, err := range s.client.Records(ctx, part) {
			if err != nil {
				return err
			}
			r, err := storedRecord(&answered)
			if err == nil {
				err = yield(r)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// storedRecord returns a record of the API with the bytes of its parts.
func storedRecord(answered *attestd.Record) (*chain.Record, error) {
	text, err := answered.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var parts struct{ Payload, Delegation json.RawMessage }
	if err := json.Unmarshal(text, &parts); err != nil {
		return nil, err
	}
	r := &chain.Record{Index: answered.Index, Timestamp: answered.Timestamp, Payload: parts.Payload, Delegation: parts.Delegation}
	if string(r.Payload) == "null" { // it was pruned
		r.Payload = nil
	}
	hash, err1 := hex.DecodeString(answered.Hash)
	signature, err2 := base64.RawURLEncoding.DecodeString(answered.Signature)
	if err1 != nil || err2 != nil || copy(r.Hash[:], hash) != len(r.Hash) || copy(r.Signature[:], signature) != len(r.Signature) {
		return nil, fmt.Errorf("record %d has a malformed hash or signature", answered.Index)
	}
	return r, nil
}

// Keys implements export.Source.
func (s *exportSource) Keys(ctx context.Context, companyID string) (*evidence.File, error) {
	published, err := s.client.PublicKeys(ctx, companyID)
	if err != nil {
		return nil, err
	}
	f := &evidence.File{CompanyID: companyID}
	actions := evidence.Log{Name: evidence.Actions, ID: s.ids[evidence.Actions], Origin: s.origins[evidence.Actions]}
	generations := make(map[string]int)
	for i, k := range published.Keys {
		public, err := base64.RawURLEncoding.DecodeString(k.JWK.X)
		if err != nil {
			return nil, fmt.Errorf("key %d of the company is malformed", i)
		}
		generations[k.KID] = i
		f.Keys = append(f.Keys, public)
		made, err := ringKey(i, public, k.FromIndex, k.Rotation)
		if err != nil {
			return nil, err
		}
		actions.Keys = append(actions.Keys, made)
	}
	f.Logs = []evidence.Log{actions}
	for _, l := range published.Logs {
		if l.Log != attestd.Control {
			continue
		}
		control := evidence.Log{Name: evidence.Control, ID: s.ids[evidence.Control], Origin: s.origins[evidence.Control]}
		for _, k := range l.Keys {
			n, ok := generations[k.KID]
			if !ok {
				return nil, errors.New("the control log has a key that the company has not")
			}
			made, err := ringKey(n, f.Keys[n], k.FromIndex, k.Rotation)
			if err != nil {
				return nil, err
			}
			control.Keys = append(control.Keys, made)
		}
		f.Logs = append(f.Logs, control)
	}
	if len(f.Logs) != 2 {
		return nil, errors.New("the server does not publish the keys of both logs")
	}
	return f, nil
}

func ringKey(generation int, public []byte, from int64, r *attestd.Rotation) (k keyring.Key, err error) {
	k = keyring.Key{Generation: int64(generation), Public: public, From: from}
	if r == nil {
		return k, nil
	}
	old, err1 := base64.RawURLEncoding.DecodeString(r.OldSignature)
	next, err2 := base64.RawURLEncoding.DecodeString(r.NewSignature)
	if err := errors.Join(err1, err2); err != nil {
		return k, fmt.Errorf("the rotation of key %d is malformed: %w", generation, err)
	}
	k.Rotation = &keyring.Rotation{Statement: r.Statement, OldSignature: old, NewSignature: next}
	return k, nil
}

// Frontier implements export.Source.
func (s *exportSource) Frontier(ctx context.Context, l export.Log, size int64) (tlog.Frontier, error) {
	return tlog.FrontierAt(ctx, tiles{s.client, s.ids[l.Name]}, size)
}

// tiles reads the tree of a log from the tiles that a server publishes. It implements tlog.Reader.
type tiles struct {
	client *attestd.Client
	log    string // ID
}

func (t tiles) Hashes(ctx context.Context, level int, from, to int64) ([]tlog.Hash, error) {
	const size = int64(len(tlog.Hash{}))
	list := make([]tlog.Hash, 0, to-from)
	for from < to {
		first := from % tlog.TileWidth
		end := min(to, from-first+tlog.TileWidth)
		tile := tlog.Tile{Level: level / 8, Index: from / tlog.TileWidth, Width: int(end - from + first)}
		data, err := t.client.Tile(ctx, t.log, strings.TrimPrefix(tile.Path(), "tile/"))
		if err != nil {
			return nil, err
		}
		if int64(len(data)) != size*int64(tile.Width) {
			return nil, fmt.Errorf("%s has %d bytes", tile.Path(), len(data))
		}
		for data = data[first*size:]; len(data) > 0; data = data[size:] {
			list = append(list, tlog.Hash(data[:size]))
		}
		from = end
	}
	return list, nil
}

// Consistency implements export.Source.
func (s *exportSource) Consistency(ctx context.Context, l export.Log, from int64) ([]byte, error) {
	return s.client.LogConsistency(ctx, s.ids[l.Name], from)
}

// exportFlags are the flags of `attestd serve` about the export of the logs.
type exportFlags struct {
	destination destinationFlags
	companies   []string
}

func (f *exportFlags) add(cmd *cobra.Command) {
	f.destination.add(cmd, "export-")
	cmd.Flags().StringSliceVar(&f.companies, "export-companies", nil, "`ID`,… of the companies whose logs are sent (default: all)")
}

// config returns where the logs are sent, nil for nowhere.
func (f *exportFlags) config() (*jobs.Export, error) {
	d := &f.destination
	if d.to == "" {
		return nil, nil
	}
	to, linger, err := d.open()
	if err != nil {
		return nil, err
	}
	from, err := d.start(time.Now())
	if err != nil {
		return nil, err
	}
	return &jobs.Export{Destination: to, From: from, OCSF: d.format == "ocsf", Linger: linger, Companies: f.companies}, nil
}

package cmd

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/crypto/keyring"
	"attestd/internal/sleep"
	"attestd/sdk/attestd"
	"attestd/server/export"
)

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

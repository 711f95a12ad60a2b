package api

import (
	"context"
	"encoding/hex"
	"net/http"
	"strconv"

	"filippo.io/torchwood"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

// Logs are the logs of a company as trees of RFC 6962.
type Logs struct {
	Store       *store.Store
	Checkpoints *service.Checkpoints
}

// logsBody lists the logs of a company.
type logsBody struct {
	Logs []logBody `json:"logs"`
}

type logBody struct {
	Log        string   `json:"log"`
	LogID      string   `json:"logId"`
	Origin     string   `json:"origin"`
	VKeys      []string `json:"vkeys"`
	Size       int64    `json:"size"`
	MerkleRoot string   `json:"merkleRoot"` // of the specified tree
	Root       string   `json:"root"`       // of the RFC 6962 tree
}

// List is an addition to the specification.
func (s *Logs) List(ctx context.Context, by store.Caller, _ httpapi.None) (answer logsBody, err error) {
	for _, l := range by.Company.Logs() {
		head, _, err := s.Store.Tip(ctx, l.Chain)
		if err != nil {
			return logsBody{}, err
		}
		trusted, err := service.VKeys(ctx, s.Store, l)
		if err != nil {
			return logsBody{}, err
		}
		spelt := make([]string, len(trusted))
		for i, k := range trusted {
			spelt[i] = k.String()
		}
		answer.Logs = append(answer.Logs, logBody{
			string(l.Name), l.ID, l.Origin, spelt, head.Length, head.Root.String(), hex.EncodeToString(head.LogRoot[:]),
		})
	}
	return answer, nil
}

// logRequest is a request about a log, which must belong to the caller's company.
type logRequest struct {
	LogID string `path:"logId"`
}

func (r logRequest) of(by store.Caller) (store.Log, error) {
	for _, l := range by.Company.Logs() {
		if l.ID == r.LogID {
			return l, nil
		}
	}
	return store.Log{}, httpapi.Fail(http.StatusNotFound, "Log not found: "+r.LogID)
}

// Checkpoint returns the newest checkpoint, which was signed for this response or shortly
// before.
func (s *Logs) Checkpoint(ctx context.Context, by store.Caller, r logRequest) (httpapi.File, error) {
	log, err := r.of(by)
	if err != nil {
		return httpapi.File{}, err
	}
	note, err := s.Checkpoints.Newest(ctx, by, log)
	if err == nil {
		note, err = s.Checkpoints.WithCosignatures(ctx, log.ID, note)
	}
	return httpapi.File{ContentType: httpapi.PlainText, Caching: "private, no-cache", Content: note}, err
}

type tileRequest struct {
	LogID string `path:"logId"`
	Path  string `path:"path"`
}

// Tile returns a tile of hashes or an entry bundle. Its content never changes: a partial tile is
// a different tile.
func (s *Logs) Tile(ctx context.Context, by store.Caller, r tileRequest) (httpapi.File, error) {
	log, err := logRequest{r.LogID}.of(by)
	if err != nil {
		return httpapi.File{}, err
	}
	head, _, err := s.Store.Tip(ctx, log.Chain)
	if err != nil {
		return httpapi.File{}, err
	}
	tile, err := tlog.ParseTilePath("tile/" + r.Path)
	if err != nil || !tile.Within(head.Length) {
		return httpapi.File{}, httpapi.Fail(http.StatusNotFound, "No such tile")
	}
	content, err := s.readTile(ctx, log, tile, head.Length)
	return httpapi.File{ContentType: "application/octet-stream", Caching: "private, max-age=31536000, immutable", Content: content}, err
}

func (s *Logs) readTile(ctx context.Context, l store.Log, t tlog.Tile, size int64) (content []byte, err error) {
	tree := s.Store.LogTree(l)
	if t.Level != tlog.Entries {
		return tlog.ReadTile(ctx, tree, t, size)
	}
	from, to := t.Range()
	content = make([]byte, 0, t.Width*(2+tlog.LeafSize))
	err = tree.EachLeaf(ctx, from, to, func(leaf *tlog.Leaf) error {
		content, err = torchwood.AppendTileEntry(content, leaf[:])
		return err
	})
	return content, err
}

type logProofRequest struct {
	LogID string `path:"logId"`
	Index string `path:"index"`
}

// Proof returns a tlog-proof that the record's leaf is in the tree of the checkpoint in the
// proof.
func (s *Logs) Proof(ctx context.Context, by store.Caller, r logProofRequest) (httpapi.File, error) {
	log, err := logRequest{r.LogID}.of(by)
	if err != nil {
		return httpapi.File{}, err
	}
	index, ok := httpapi.Decimal(r.Index)
	if !ok {
		return httpapi.File{}, httpapi.Fail(http.StatusBadRequest, "index must be a non-negative integer")
	}
	note, err := s.Checkpoints.Covering(ctx, by, log, index)
	if err == nil {
		note, err = s.Checkpoints.Witnessed(ctx, log, index, note)
	}
	if err != nil {
		return httpapi.File{}, err
	}
	checkpoint, _, err := tlog.ParseSignedCheckpoint(note)
	if err != nil {
		return httpapi.File{}, err
	}
	if index >= checkpoint.Size {
		return httpapi.File{}, httpapi.Fail(http.StatusNotFound, "Index out of bounds: the log has "+strconv.FormatInt(checkpoint.Size, 10)+
			" records")
	}
	hashes, err := tlog.ProveInclusion(ctx, s.Store.LogTree(log), checkpoint.Tree, index)
	if err != nil {
		return httpapi.File{}, err
	}
	return httpapi.File{ContentType: httpapi.PlainText, Caching: "no-store", Content: tlog.Proof{Index: index, Hashes: hashes, Checkpoint: note}.Format()}, nil
}

type logConsistencyRequest struct {
	LogID string `path:"logId"`
	From  string `query:"from"`
}

// Consistency returns the newest checkpoint, with a proof that the log's tree at a size, for
// which the caller has a checkpoint, is a prefix of it. It has the format of a request to a
// witness.
func (s *Logs) Consistency(ctx context.Context, by store.Caller, r logConsistencyRequest) (httpapi.File, error) {
	log, err := logRequest{r.LogID}.of(by)
	if err != nil {
		return httpapi.File{}, err
	}
	from, ok := httpapi.Decimal(r.From)
	head, _, err := s.Store.Tip(ctx, log.Chain)
	if err != nil {
		return httpapi.File{}, err
	}
	if !ok || from > head.Length {
		return httpapi.File{}, httpapi.Fail(http.StatusBadRequest, "from must be a whole number up to the log's size, which is "+
			strconv.FormatInt(head.Length, 10))
	}
	text, err := s.Checkpoints.NewestAfter(ctx, by, log, from)
	return httpapi.File{ContentType: httpapi.PlainText, Caching: "no-store", Content: text}, err
}

type consistencyRequest struct {
	From string        `query:"from"`
	To   string        `query:"to"`
	Log  store.LogName `query:"log" must:"log"`
}

type consistencyBody struct {
	From     int64    `json:"from"`
	To       int64    `json:"to"`
	FromRoot string   `json:"fromRoot"`
	ToRoot   string   `json:"toRoot"`
	Proof    []string `json:"proof"`
}

// ProveConsistency is an addition to the specification: a proof that the specified tree of the
// first from records is a prefix of that of the first to records.
func (s *Logs) ProveConsistency(ctx context.Context, by store.Caller, r consistencyRequest) (consistencyBody, error) {
	number := by.Company.Log(r.Log).Chain
	head, _, err := s.Store.Tip(ctx, number)
	if err != nil {
		return consistencyBody{}, err
	}
	from, ok1 := httpapi.Decimal(r.From)
	to, ok2 := httpapi.Decimal(r.To)
	if !ok1 || !ok2 || from > to || to > head.Length {
		return consistencyBody{}, httpapi.Fail(http.StatusBadRequest,
			"from and to must be whole numbers with from ≤ to ≤ the chain's length, which is "+
				strconv.FormatInt(head.Length, 10))
	}
	proof, err := chain.ProveConsistency(ctx, s.Store, number, from, to, head)
	if err != nil {
		return consistencyBody{}, err
	}
	hashes := make([]string, len(proof.Proof))
	for i, h := range proof.Proof {
		hashes[i] = h.String()
	}
	return consistencyBody{from, to, proof.FromRoot.String(), proof.ToRoot.String(), hashes}, nil
}

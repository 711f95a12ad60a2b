package demo

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"time"

	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/internal/sleep"
	"attestd/sdk/attestd"
)

// witnessName is the name of the demo's witness. Its key lives as long as the player.
const witnessName = "witness.demo.example"

// demoWitness is a witness of the company's log of actions (c2sp.org/tlog-witness). It is of the
// demo's own: it shows what a cosignature is and proves nothing to others, because the operator who
// runs the demo has its key.
type demoWitness struct {
	cosigner *witness.Cosigner
	latest   tlog.Tree
}

// Latest and Advance make it a witness.State that is held in memory.
func (w *demoWitness) Latest(context.Context, string) (tlog.Tree, error) { return w.latest, nil }

func (w *demoWitness) Advance(_ context.Context, _ string, _, to tlog.Tree, _ []byte) (bool, error) {
	w.latest = to
	return true, nil
}

// cosign has the witness cosign the newest checkpoint, once it is proven that the log has only
// grown since the last one: {checkpoint} is the cosigned checkpoint, {witness} the key of the
// witness.
func (p *player) cosign(ctx context.Context) error {
	client, err := p.client()
	if err != nil {
		return err
	}
	defer client.Close()
	logs, err := client.Logs(ctx)
	if err != nil {
		return err
	}
	if len(logs) == 0 || len(logs[0].VKeys) == 0 {
		return errors.New("the server lists no log")
	}
	actions := logs[0]
	if p.witness == nil {
		if p.witness, err = newWitness(actions); err != nil {
			return err
		}
	}
	w := p.witness
	asked, checkpoint, err := w.request(ctx, client, actions)
	if err != nil {
		return err
	}
	answer, err := w.cosigner.AddCheckpoint(ctx, asked, time.Now())
	if err != nil {
		return err
	}
	if answer.Status != http.StatusOK {
		return fmt.Errorf("the witness refuses: %s", answer.Body)
	}
	p.values["checkpoint"], p.values["witness"] = string(checkpoint)+answer.Body, w.cosigner.VKey().String()
	return nil
}

// request returns what the witness is asked, and the checkpoint in it, which covers all that the
// log has by now. A server signs a new checkpoint at most once a second.
func (w *demoWitness) request(ctx context.Context, client *attestd.Client, now attestd.LogInfo) (asked, checkpoint []byte, err error) {
	for range askedTimes {
		if w.latest.Size == 0 {
			checkpoint, err = client.Checkpoint(ctx, now.LogID)
			asked = witness.Request{Checkpoint: checkpoint}.Format()
		} else { // a proof of consistency has the form of a request
			asked, err = client.LogConsistency(ctx, now.LogID, w.latest.Size)
		}
		if err != nil {
			return nil, nil, err
		}
		request, err := witness.ParseRequest(asked)
		if err != nil {
			return nil, nil, err
		}
		is, _, err := tlog.ParseSignedCheckpoint(request.Checkpoint)
		if err != nil || is.Size >= now.Size {
			return asked, request.Checkpoint, err
		}
		if err := sleep.For(ctx, pollInterval); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, errors.New("the server signs no checkpoint of all records")
}

func newWitness(log attestd.LogInfo) (*demoWitness, error) {
	key, err := tlog.ParseVKey(log.VKeys[0])
	if err != nil {
		return nil, err
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	w := &demoWitness{latest: tlog.Tree{Root: tlog.EmptyRoot()}}
	w.cosigner, err = witness.NewCosigner(witnessName, private, []tlog.PolicyLog{{Key: key}}, w)
	return w, err
}

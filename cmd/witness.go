package cmd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/cmd/check"
	"attestd/cmd/cli"
	"attestd/server"
	"attestd/store"
)

// parseWitnesses parses URLs and keys of witnesses from a list of URL=VKEY.
func parseWitnesses(list []string) ([]*witness.Client, error) {
	var clients []*witness.Client
	for _, text := range list {
		url, vkey, _ := strings.Cut(strings.TrimSpace(text), "=")
		key, err := tlog.ParseVKey(vkey)
		if err != nil {
			return nil, cli.Usagef("--witness must list URL=VKEY, such as https://witness.example.com=witness.example.com+4b9a01d2+BF…, got %q", text)
		}
		client, err := witness.NewClient(url, key)
		if err != nil {
			return nil, cli.Usagef("--witness: %v", err)
		}
		clients = append(clients, client)
	}
	return clients, nil
}

// readCosignedLogs reads the logs in a policy and ignores its witnesses.
func readCosignedLogs(path string) ([]tlog.PolicyLog, error) {
	text, err := cli.ReadRights(path, check.MaxPolicyFile)
	if err != nil {
		return nil, cli.Usagef("--cosign-for: %v", err)
	}
	logs, err := tlog.ParseLogs(text)
	if err != nil {
		return nil, cli.Usagef("--cosign-for: %s: %v", path, err)
	}
	return logs, nil
}

// cosignedName describes logs for control records by their number and a hash of their keys, which
// does not disclose their origins.
func cosignedName(logs []tlog.PolicyLog) string {
	var names []string
	for _, l := range logs {
		names = append(names, l.Key.String())
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "\n")))
	return fmt.Sprintf("%d logs, SHA-256 %x", len(names), sum[:8])
}

// openCosigner configures the server to cosign logs with the key in the database. If the database
// was rolled back to before that key, the server answers requests with an error.
func (f serveFlags) openCosigner(ctx context.Context, cfg *server.Config, logs []tlog.PolicyLog) error {
	if len(logs) == 0 {
		return nil
	}
	name, private, err := cfg.Store.Cosigner.Key(ctx, f.witnessName, time.Now())
	if errors.Is(err, store.ErrRolledBack) {
		cfg.CosignerStopped = err
		return nil
	}
	if err == nil {
		cfg.Cosigner, err = witness.NewCosigner(name, private, logs, cfg.Store.Cosigner.Logs())
	}
	return err
}

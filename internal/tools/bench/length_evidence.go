package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// check measures the process that checks the evidence of a random record of a chain.
func (b *bench) check(ctx context.Context, s *shape) error {
	path := filepath.Join(b.dir, "evidence.json")
	var took []float64
	for range pick(b.quick, 5, 20) {
		t := s.tenants[rand.IntN(s.chains)]
		var text json.RawMessage
		if _, err := ask(ctx, s.server.addr, request("GET", fmt.Sprintf("/v1/evidence/%d", rand.IntN(s.records)), t.key, "",
			""), 200, &text); err != nil {
			return err
		}
		var file struct {
			Keys []struct{ Fingerprint string }
		}
		if err := json.Unmarshal(text, &file); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
		start := time.Now()
		if out, err := exec.CommandContext(ctx, b.binary(), "check", path, "--key",
			file.Keys[0].Fingerprint).CombinedOutput(); err != nil {
			return fmt.Errorf("attestd check: %w\n%s", err, out)
		}
		took = append(took, millis(time.Since(start)))
	}
	b.report.add(lengthSection, s.column, "attestd check, median", median(took), milli, only(s.million, atMost(100)))
	return nil
}

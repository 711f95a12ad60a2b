package main

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// machine describes the machine, for reading absolute figures.
type machine struct {
	Cores  int    `json:"cores"`
	System string `json:"system"`
	Go     string `json:"go"`
	// median time of a durable write of 4 KiB in the folder of the databases
	SyncMicros float64 `json:"syncMicros"`
}

func (m machine) String() string {
	return fmt.Sprintf("%d cores, %s, %s, one durable write of 4 KiB takes %.0f µs", m.Cores, m.System, m.Go, m.SyncMicros)
}

func describeMachine(dir string) (machine, error) {
	m := machine{Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return m, err
	}
	defer f.Close()
	var took []float64
	page := make([]byte, 4096)
	for range 50 {
		start := time.Now()
		if _, err := f.Write(page); err != nil {
			return m, err
		}
		if err := f.Sync(); err != nil {
			return m, err
		}
		took = append(took, micros(time.Since(start)))
	}
	m.SyncMicros = median(took)
	return m, nil
}

// ed25519Verify measures one signature check on one core, for about d. It is the unit of the cost
// of a first verification.
func ed25519Verify(d time.Duration) time.Duration {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err) // never returns an error
	}
	digest := make([]byte, 32) // a record's signature is over its hash
	signature := ed25519.Sign(private, digest)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, checks := time.Now(), 0
	for time.Since(start) < d {
		for range 16 {
			if !ed25519.Verify(public, digest, signature) {
				panic("a good signature does not verify")
			}
		}
		checks += 16
	}
	return time.Since(start) / time.Duration(checks)
}

package db

import (
	"crypto/ed25519"
	"fmt"
	"time"
)

func PublicOf(seed []byte) ed25519.PublicKey {
	return ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
}

func ParseTime(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return at, nil
}

func Later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

package attestd_test

import (
	"context"
	"log"

	"attestd/internal/harness"
)

// exampleServer builds attestd and starts it on a new database. stop ends it, and removes all that
// it has made.
func exampleServer(ctx context.Context) (address string, stop func()) {
	lab, err := harness.NewLab(ctx)
	if err != nil {
		log.Fatal(err)
	}
	s, _, err := lab.ServeNew(ctx)
	if err != nil {
		_ = lab.Close()
		log.Fatal(err)
	}
	return "http://" + s.Addr, func() {
		if err := s.Stop(); err != nil {
			log.Print(err)
		}
		if err := lab.Close(); err != nil {
			log.Print(err)
		}
	}
}

// Soak runs attestd at a steady rate of records, with all other kinds of requests, and checks that
// its state at the end is as after a third of the time: memory, file descriptors, and chains that
// are valid and as long as acknowledged. Then it truncates the write-ahead log under load, and
// fills the disk.
//
//	go -C internal/tools run ./soak                            14 minutes at 5,000 records a second; some 4 GB in the
//	                                                           temporary folder
//	go -C internal/tools run ./soak --short                    the form for CI, about 20 seconds; a rate that the
//	                                                           machine cannot reach is no failure
//	go -C internal/tools run ./soak --time 2m --rate 1000      any other
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"attestd/internal/harness"
)

func main() {
	var length time.Duration
	var rate int
	cases := []harness.Case{{Name: "soak", About: "a steady load, for a long time",
		Run: func(ctx context.Context, r *harness.Run) error {
			if length == 0 {
				if length = 14 * time.Minute; r.Short {
					length = 12 * time.Second
				}
			}
			if rate == 0 {
				if rate = 5000; r.Short {
					rate = 2000
				}
			}
			if length < 0 || rate < 0 {
				return errors.New("--time and --rate must not be negative")
			}
			return soak(ctx, r, length, rate)
		}},
		{Name: "emptied-log", About: "the write-ahead log is emptied or cut under load", Run: emptiedLog},
		{Name: "read-errors", About: "the disk refuses to read a part of what was written (Linux)", Run: readErrors},
		{Name: "full-disk", About: "the disk fills up under load, and has room again (needs root on Linux)", Run: fullDisk},
	}
	flags, options := harness.Flags("soak", "Run attestd at a steady rate, and say whether it stays the same.", cases)
	flags.DurationVar(&length, "time", 0, "how `long`; 14m, or 12s in the short form, when 0")
	flags.IntVar(&rate, "rate", 0, "`records` a second; 5000, or 2000 in the short form, when 0")
	os.Exit(harness.Main(flags, options, cases))
}

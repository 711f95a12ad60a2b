package pgtest_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"attestd/store/postgres/pgtest"
)

// No server outlives a test process that was killed.
func TestServersEndWithKilledTest(t *testing.T) {
	const child = "PGTEST_CHILD"
	if os.Getenv(child) != "" {
		os.Stdout.WriteString(pgtest.Database(t) + "\n")
		io.Copy(io.Discard, os.Stdin) // until it is killed or its parent has ended
		return
	}
	pgtest.Database(t) // skip here if the child would skip
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(url, err)
	}
	url = strings.TrimSpace(url)
	db := connect(t, url)
	var data string
	if err := db.QueryRow(t.Context(), "SHOW data_directory").Scan(&data); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(data)) })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := db.WaitForNotification(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatal("the server still runs: ", err)
	}
	for err = nil; err == nil; { // the postmaster ends after its children
		var c *pgx.Conn
		if c, err = pgx.Connect(ctx, url); err == nil {
			c.Close(ctx)
		}
	}
	if ctx.Err() != nil {
		t.Fatal("the server still takes connections")
	}
}

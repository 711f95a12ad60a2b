package attack

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"attestd/internal/harness"
)

// powerLoss records what a server acknowledges with the length of its write-ahead log. From the
// files it makes the images that a power loss may leave, and verifies each: it must be valid, and
// have everything acknowledged before the cut. A file does not show whether the log was synced by
// then; the attack assumes that.
func powerLoss(ctx context.Context, r *run) error {
	folder, err := r.Lab.Folder()
	if err != nil {
		return err
	}
	p := &loss{run: r, folder: folder, db: filepath.Join(folder, "attestd.db")}
	if err := p.record(ctx); err != nil {
		return err
	}
	list := p.images()
	if err := p.check(ctx, list); err != nil {
		return err
	}
	r.Count(len(list), "images")
	r.Count(p.first.writes()+p.second.writes(), "acknowledged writes")
	r.Count(int(p.served.Load()), "images served")
	return nil
}

// loss is the state of the attack.
type loss struct {
	*run
	folder, db, key string

	before, after []byte // database before the first log, and after its checkpoint
	log, next     []byte // the first log, and the one after the checkpoint
	first, second *journal
	served        atomic.Int64
}

// record creates the files: a database at rest, a log for it, the database after a checkpoint of
// the log, and a log for that.
func (p *loss) record(ctx context.Context) error {
	s, err := p.Lab.Serve(ctx, p.db, "--rate-limits", "off")
	if err != nil {
		return err
	}
	c := &harness.Client{Addr: s.Addr}
	p.key, err = c.Register("acme")
	if err == nil {
		err = c.RegisterBot(p.key)
	}
	if err = errors.Join(err, s.Stop()); err != nil {
		return err
	}
	if p.before, err = os.ReadFile(p.db); err != nil {
		return err
	}
	p.first = newJournal()
	if p.log, err = p.write(ctx, p.first, p.before); err != nil {
		return err
	}
	if err := checkpoint(p.db); err != nil {
		return err
	}
	if p.after, err = os.ReadFile(p.db); err != nil {
		return err
	}
	p.second = p.first.atRest()
	p.next, err = p.write(ctx, p.second, p.after)
	return err
}

// write lets clients write, and kills the server when the log is long, before SQLite would
// checkpoint it (1,000 pages).
func (p *loss) write(ctx context.Context, j *journal, file []byte) (log []byte, err error) {
	s, err := p.Lab.Serve(ctx, p.db, "--rate-limits", "off")
	if err != nil {
		return nil, err
	}
	most := int64(3 << 20)
	if short() {
		most = 1 << 20
	}
	err = j.fill(ctx, s.Addr, p.key, p.db+"-wal", most)
	if err = errors.Join(err, s.Kill()); err != nil {
		return nil, err
	}
	now, err := os.ReadFile(p.db)
	if err == nil && !bytes.Equal(now, file) {
		err = errors.New("the database has changed under the log: there was a checkpoint that this attack does not expect")
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(p.db + "-wal")
}

// checkpoint moves the whole log into the database.
func checkpoint(db string) error {
	file, err := sql.Open("sqlite", "file:"+db)
	if err != nil {
		return err
	}
	var busy, pages, moved int
	err = file.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
	return errors.Join(err, file.Close())
}

// check opens the images, a few at a time.
func (p *loss) check(ctx context.Context, list []image) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1) - 1)
				if n >= len(list) {
					return
				}
				if err := p.open(ctx, n, list[n]); err != nil {
					cancel(fmt.Errorf("%s: %w", list[n].name, err))
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// open verifies one image, starts a server on some, and queries what was acknowledged.
func (p *loss) open(ctx context.Context, n int, i image) error {
	folder, err := p.Lab.Folder()
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	db := filepath.Join(folder, "attestd.db")
	if err := os.WriteFile(db, i.db, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(db+"-wal", i.wal, 0o600); err != nil {
		return err
	}
	verdicts, err := p.Lab.Verify(ctx, db)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		p.Errorf("%s: %v", i.name, err)
		return nil
	}
	for _, wrong := range i.journal.judge(verdicts["acme"], i.cut) {
		p.Errorf("%s: %s", i.name, wrong)
	}
	if short() && n%4 > 0 {
		return nil
	}
	p.served.Add(1)
	s, err := p.Lab.Serve(ctx, db, "--rate-limits", "off")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		p.Errorf("%s: %v", i.name, err)
		return nil
	}
	c := &harness.Client{Addr: s.Addr}
	defer c.Close()
	for _, wrong := range i.journal.ask(c, p.key, i.cut) {
		p.Errorf("%s, served: %s", i.name, wrong)
	}
	c.Close()
	if err := s.Stop(); err != nil {
		p.Errorf("%s: %v", i.name, err)
	}
	return nil
}

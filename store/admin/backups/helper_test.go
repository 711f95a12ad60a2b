package backups_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"attestd/chain"
	"attestd/internal/must"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/admin/backups"
	"attestd/store/storetest"
)

var at = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func schema(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../../../schema.sql")
	must.OK(t, err)
	return string(text)
}

// live is a database that is served.
type live struct {
	*store.Store
	path    string
	company *store.Company
}

func serve(t testing.TB) *live {
	t.Helper()
	storetest.AboutFile(t)
	l := &live{path: storetest.New(t)}
	l.open(t)
	var err error
	l.company, _, err = l.Companies.Create(t.Context(), "acme", nil, time.Now())
	must.OK(t, err)
	return l
}

func (l *live) open(t testing.TB) {
	t.Helper()
	s, err := store.Open(t.Context(), l.path, schema(t), store.Options{})
	must.OK(t, err)
	l.Store = s
	go s.Run(context.WithoutCancel(t.Context()), store.RunOptions{})
	t.Cleanup(func() { s.Close() })
}

// attest appends n records.
func (l *live) attest(t testing.TB, n int) {
	t.Helper()
	l.attestText(t, n, "ok")
}

// attestText appends n records with a text in them.
func (l *live) attestText(t testing.TB, n int, text string) {
	t.Helper()
	payload := []byte(`{"actionType":"build","agentId":"bot","companyId":"acme","payload":"` + text + `"}`)
	var drafts []chain.Draft
	for range n {
		drafts = append(drafts, chain.Draft{Chain: l.company.Chain, Payload: payload, Canonical: payload})
	}
	_, err := l.AppendAll(t.Context(), drafts)
	must.OK(t, err)
}

// options are those of a backup in plaintext. Backups of later steps are hours apart.
func (l *live) options(t testing.TB, step int) backups.Options {
	t.Helper()
	return backups.Options{Schema: schema(t), Program: "attestd/test", At: at.Add(time.Duration(step) * 6 * time.Hour)}
}

func (l *live) make(t testing.TB, to backups.Place, step, keep int) (backups.Made, error) {
	t.Helper()
	o := l.options(t, step)
	o.Keep = keep
	return backups.Make(t.Context(), l.path, to, o)
}

func folder(t testing.TB) *backups.Folder {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, os.Chmod(dir, 0o700))
	f, err := backups.OpenFolder(dir)
	must.OK(t, err)
	return f
}

// key makes a key of age.
func key(t testing.TB) *age.X25519Identity {
	t.Helper()
	k, err := age.GenerateX25519Identity()
	must.OK(t, err)
	return k
}

func encryptTo(o *backups.Options, keys ...*age.X25519Identity) {
	for _, k := range keys {
		o.Recipients = append(o.Recipients, k.Recipient())
		o.RecipientNames = append(o.RecipientNames, k.Recipient().String())
	}
}

// done returns the names of the backups in a place that are done.
func done(t testing.TB, p backups.Place) (names []string) {
	t.Helper()
	list, err := backups.List(t.Context(), p)
	must.OK(t, err)
	for _, l := range list {
		if l.Done() {
			names = append(names, l.Name.String())
		}
	}
	return names
}

// restored restores a backup to a new database, and returns the number of records of acme.
func restored(t testing.TB, p backups.Place, name string, identities ...age.Identity) int64 {
	t.Helper()
	r, err := p.Read(t.Context(), name, "")
	must.OK(t, err)
	defer r.Close()
	path := filepath.Join(t.TempDir(), "restored.db")
	_, err = backups.Restore(t.Context(), r, path, schema(t), identities, admin.RestoreOptions{At: at})
	must.OK(t, err)
	s, err := store.OpenReadOnly(t.Context(), path)
	must.OK(t, err)
	defer s.Close()
	must.OK(t, s.VerifyAll(t.Context(), "", 1, nil, nil))
	c, err := s.Companies.Get(t.Context(), "acme")
	must.OK(t, err)
	head, _, err := s.Tip(t.Context(), c.Chain)
	must.OK(t, err)
	return head.Length
}

// nothingLeft fails if temporary copies are left next to the database.
func (l *live) nothingLeft(t testing.TB) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(l.path))
	must.OK(t, err)
	if i := slices.IndexFunc(entries, func(e os.DirEntry) bool { return strings.Contains(e.Name(), ".tmp-") }); i >= 0 {
		t.Errorf("left: %s", entries[i].Name())
	}
}

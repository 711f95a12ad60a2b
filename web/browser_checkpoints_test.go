package web_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"attestd/chain/tlog"
	"attestd/internal/must"
	"attestd/internal/rewrite"
	"attestd/internal/testenv"
	"attestd/store"
)

// logOf returns the ID and the vkey of a log of the company of a key.
func logOf(s *service, key, name string) (id, vkey string) {
	s.t.Helper()
	for _, l := range s.api("GET", "/v1/logs", key, nil)["logs"].([]any) {
		if l := l.(map[string]any); l["log"] == name {
			return l["logId"].(string), l["vkeys"].([]any)[0].(string)
		}
	}
	s.t.Fatalf("there is no log %s", name)
	return "", ""
}

// checkpointOf returns the checkpoint of a log at a size, which is signed a second after the one
// before at the latest.
func checkpointOf(s *service, key, name string, size int) (signed string) {
	s.t.Helper()
	id, _ := logOf(s, key, name)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		signed = string(s.raw(key, "/v1/log/"+id+"/checkpoint", "text/plain"))
		if strings.Contains(signed, fmt.Sprintf("\n%d\n", size)) {
			return signed
		}
	}
	s.t.Fatalf("no checkpoint of %d records of %s was signed: %s", size, name, signed)
	return ""
}

// dropOn drops a file onto the drop area in an element.
func (b *browser) dropOn(within, name, content string) {
	b.t.Helper()
	b.shows(within + " .drop")
	eval[bool](b, fmt.Sprintf(`(() => {
		const data = new DataTransfer();
		data.items.add(new File([%s], %q));
		return document.querySelector(%q).dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })) || true;
	})()`, jsString(content), name, within+" .drop"))
}

// witnessed starts a service whose logs another one cosigns: the service, its company's key, the
// witness's vkey, and a policy that asks for its cosignature.
func witnessed(t *testing.T, company string) (s *service, key, policy string) {
	t.Helper()
	address, folder := freePort(t), t.TempDir()
	s = startService(t, "", address)
	key = s.company(company)
	_, actions := logOf(s, key, "actions")
	_, control := logOf(s, key, "control")
	s.stop()
	logs := filepath.Join(folder, "logs")
	must.OK(t, os.WriteFile(logs, []byte("log "+actions+"\nlog "+control+"\n"), 0o600))
	w := startService(t, filepath.Join(folder, "witness.db"), "", "--cosign-for", logs, "--witness-name", "witness.example/w1")
	vkey := w.api("GET", "/v1/witness", "", nil)["vkey"].(string)
	s = startService(t, s.db, address, "--witness", w.base+"/v1/witness="+vkey)
	return s, key, "log " + actions + "\nwitness w1 " + vkey + "\nquorum w1\n"
}

// The checkpoints of both logs are checked with the company's key, and the lines below them with
// the policy that the person gives: a real second service has cosigned. A cosignature by a key that
// the policy does not know counts for nothing, a policy that asks for it is not met, and one that
// is none is not stored.
func TestBrowserCheckpointsAndWitnesses(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s, key, policy := witnessed(t, "acme")
	s.attest(key, 12)
	b := openBrowser(t, s.base)
	b.signIn(key)
	b.goTo("#/checkpoints")
	b.shows(`[data-log="actions"][data-checkpoint="warn"]`)
	b.confirmKey(s, "acme")
	b.goTo("#/checkpoints")
	b.shows(`[data-log="actions"][data-checkpoint="ok"]`)
	b.shows(`[data-log="control"][data-checkpoint="ok"]`)
	b.reads(`[data-log="actions"] dd strong`, "12")
	b.wait(`document.querySelectorAll('[data-witness=""]').length === 2 || void [...document.querySelectorAll('button')].find((e) => e.textContent === 'Refresh' && !e.disabled)?.click()`)
	b.reads(`[data-log="actions"] [data-witness=""]`, "witness.example/w1")
	if green := eval[int](b, `document.querySelectorAll('.cosignature .ok').length`); green > 0 {
		t.Errorf("%d cosignatures are green without a policy", green)
	}

	for _, bad := range []string{"quorum w2\n", "witness w1 nonsense\nquorum w1\n", "\x00"} {
		b.dropOn("[data-policy]", "policy", bad)
		b.shows(`[data-policy="none"] [role="alert"]`)
	}
	b.fill(`textarea[name="policy"]`, policy)
	b.press("Save policy")
	b.shows(`[data-log="actions"] [data-witness="w1"][data-failed="no"] .ok`)
	b.shows(`[data-log="actions"] [data-met="yes"]`)
	b.shows(`[data-log="control"] [data-met="yes"]`)
	b.reopen(key)
	b.goTo("#/checkpoints")
	b.shows(`[data-log="actions"] [data-met="yes"]`) // it was stored
	b.lookAt("checkpoints", "#/checkpoints", `[data-log="actions"] [data-met="yes"]`)

	b.press("Remove policy")
	unknown := tlog.VKey{Name: "other.example", Type: tlog.TypeCosignature, Public: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)).Public().(ed25519.PublicKey)}
	b.dropOn("[data-policy]", "policy", strings.Replace(policy, "quorum w1", "witness w2 "+unknown.String()+"\ngroup both all w1 w2\nquorum both", 1))
	b.shows(`[data-log="actions"] [data-met="no"]`)
	b.reads(`[data-log="actions"] [data-met="no"]`, "too few of the policy’s witnesses")
	b.press("Remove policy")
	b.dropOn("[data-policy]", "policy", "witness w2 "+unknown.String()+"\nquorum w2\n")
	b.reads(`[data-log="actions"] [data-met="no"]`, "the policy doesn’t name the key")
	b.reads(`[data-log="actions"] .cosignature`, "not in your policy")
}

// A checkpoint whose root or size the server changes is not shown as the company's, nor is one of a
// smaller log than the server lists, and a cosignature that it breaks is red.
func TestBrowserCheckpointsFindLies(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	s, key, policy := witnessed(t, "acme")
	s.attest(key, 12)
	told := ""
	base := lie(t, s, func(path string, answer []byte) []byte {
		switch {
		case told == "root" && strings.HasSuffix(path, "/checkpoint"):
			lines := bytes.SplitAfter(answer, []byte("\n"))
			copy(lines[2], "AAAA")
			return bytes.Join(lines, nil)
		case told == "cosignature" && strings.HasSuffix(path, "/checkpoint"):
			at := bytes.LastIndexByte(answer, ' ') + 40
			other := byte('A') // of base64 still, so that only the cosignature is broken
			if answer[at] == other {
				other = 'B'
			}
			return append(append(bytes.Clone(answer[:at]), other), answer[at+1:]...)
		case told == "list" && path == "/v1/logs":
			return bytes.Replace(answer, []byte(`"size":12`), []byte(`"size":11`), 1)
		case told == "other" && path == "/v1/logs":
			at := bytes.Index(answer, []byte(`"root":"`)) + len(`"root":"`)
			return append(append(bytes.Clone(answer[:at]), bytes.Repeat([]byte("0"), 64)...), answer[at+64:]...)
		}
		return answer
	})
	b := openBrowser(t, base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/checkpoints")
	b.dropOn("[data-policy]", "policy", policy)
	b.wait(`document.querySelector('[data-log="actions"] [data-met="yes"]') || void [...document.querySelectorAll('button')].find((e) => e.textContent === 'Refresh' && !e.disabled)?.click()`)
	for _, lie := range []struct {
		what, message string
		stays         bool // after the server has gone back to the truth
	}{
		{"root", "no key of the company has signed it", false}, {"list", "signed records are missing", true}, {"other", "it has two histories", true},
	} {
		told = lie.what
		b.press("Refresh")
		b.shows(`[data-log="actions"][data-checkpoint="bad"]`)
		b.reads(`[data-log="actions"] [role="alert"]`, lie.message)
		told = ""
		if lie.stays {
			b.press("Refresh")
			b.reads(`[data-log="actions"][data-checkpoint="bad"]`, "history was rewritten")
			b.acknowledge(`true`)
		}
		b.press("Refresh")
		b.shows(`[data-log="actions"][data-checkpoint="ok"]`)
	}
	told = "cosignature"
	b.press("Refresh")
	b.shows(`[data-log="actions"] [data-failed="yes"] .bad`)
	b.reads(`[data-log="actions"] [data-met="no"]`, "does not verify")
}

// Of checkpoints that the reader saved, those that the log has grown from are proven here; after a
// history was rewritten the later one is red, and the changed record is between them; after an
// older copy of the file was put in place they are red as a rollback.
func TestBrowserStoredCheckpoints(t *testing.T) {
	testenv.Needs(t, testenv.Slow)
	address := freePort(t)
	s := startService(t, "", address)
	key := s.company("acme")
	s.attest(key, 4)
	early := checkpointOf(s, key, "actions", 4)
	s.attest(key, 6)
	late, control := checkpointOf(s, key, "actions", 10), checkpointOf(s, key, "control", 2)
	s.stop()
	whole, err := os.ReadFile(s.db)
	must.OK(t, err)
	s = startService(t, s.db, address)
	globex := s.company("globex")
	s.attest(key, 3)
	last := checkpointOf(s, key, "actions", 13)

	b := openBrowser(t, s.base)
	b.signIn(key)
	b.confirmKey(s, "acme")
	b.goTo("#/checkpoints")
	stored := func(name, file, tone, message string) {
		t.Helper()
		b.dropOn("#kept", name, file)
		b.shows(fmt.Sprintf(`[data-saved=%q][data-tone=%q]`, name, tone))
		b.reads(fmt.Sprintf(`[data-saved=%q]`, name), message)
	}
	stored("early.txt", early, "ok", "the first 4 of the 13 records are those")
	stored("late.txt", late, "ok", "the first 10 of the 13 records are those")
	stored("control.txt", control, "ok", "Unchanged: the log still has exactly")
	stored("other.txt", checkpointOf(s, globex, "actions", 0), "bad", "which is not one of this company")
	stored("forged.txt", strings.Replace(late, "\n10\n", "\n11\n", 1), "bad", "no key of the company has signed it")
	b.dropOn("#kept", "picture.png", "no checkpoint")
	b.reads("#kept > [role=\"alert\"]", "not a checkpoint")
	b.press("Download checkpoint")
	b.lookAt("checkpoints-kept", "#/checkpoints", `[data-log="actions"]`)

	s.stop()
	forgetHeads(t, s.db)
	schema, err := os.ReadFile("../schema.sql")
	must.OK(t, err)
	n, err := rewrite.Record(t.Context(), s.db, string(schema), store.Options{}, "acme", store.Actions, 5, func(payload []byte) []byte {
		return bytes.Replace(payload, []byte(`"note"`), []byte(`"Note"`), 1)
	})
	if err != nil || n != 13 {
		t.Fatalf("%d records, %v", n, err)
	}
	s = startService(t, s.db, address)
	b.reopen(key)
	b.goTo("#/checkpoints")
	b.shows(`[data-log="actions"]`)
	stored("late.txt", late, "bad", "History was rewritten: the 13 records that the server shows now don’t begin with the 10 records")
	b.shows(`[data-rewritten="actions"][data-first="0"][data-last="9"]`)
	// proven, and nothing is green with a rewritten history
	stored("early.txt", early, "warn", "the first 4")
	b.shows(`[data-rewritten="actions"][data-first="4"][data-last="9"]`)
	b.shows(`[data-log="actions"][data-checkpoint="bad"]`) // though it is signed
	b.lookAt("checkpoints-rewritten", "#/checkpoints", `[data-log="actions"]`)

	s.stop()
	forgetHeads(t, s.db)
	must.OK(t, os.WriteFile(s.db, whole, 0o600)) // of when there were 10
	for _, more := range []string{"-wal", "-shm"} {
		_ = os.Remove(s.db + more)
	}
	startService(t, s.db, address)
	b.reopen(key)
	b.goTo("#/checkpoints")
	stored("late.txt", late, "warn", "Unchanged: the log still has exactly")
	stored("last.txt", last, "bad", "Rolled back: this checkpoint covers 13 records, and the server now shows 10")
}

// reopen reloads the console and signs in.
func (b *browser) reopen(key string) {
	b.t.Helper()
	b.goTo("#/start")
	must.OK(b.t, chromedp.Do(b.ctx, chromedp.Reload()))
	b.wait(`document.querySelector('input[name="key"]')`)
	b.signIn(key)
}

// lookAt shows a page in all widths and in both schemes: nothing is wrong for axe-core, it does not
// scroll sideways, and its picture is written.
func (b *browser) lookAt(name, hash, ready string) {
	b.t.Helper()
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must.OK(b.t, err)
	eval[bool](b, string(axe)+"; true")
	for _, l := range looks(360, 1280, 1920) {
		b.look(l)
		b.goTo(hash)
		b.shows(ready)
		full := fmt.Sprintf("%s-%s", name, l)
		b.audit(full)
		b.fits(full)
		b.picture(full, "")
	}
}

// forgetHeads removes what a server stores next to its database to notice an older copy by.
func forgetHeads(t *testing.T, db string) {
	t.Helper()
	found, err := filepath.Glob(db + "*head*")
	must.OK(t, err)
	for _, path := range found {
		must.OK(t, os.Remove(path))
	}
}

package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"attestd/chain/tlog"
	"attestd/internal/harness"
)

// history is a stopped service with three companies and a witness, with what an auditor has stored
// of it. acme has a row in every table, globex has a compromised key, and zoo has registered last.
type history struct {
	*run
	schema string
	// has the database, its head file, the witness's files, and copies of all from before the last
	// records
	folder   string
	vkey     string            // of the witness
	keys     map[string]string // API keys, by company
	deleted  string            // a deleted API key of acme
	evidence []pinned
}

// pinned is an evidence file with its log.
type pinned struct {
	path, company, logID, fingerprint string
	size                              int64 // of the checkpoint in it
}

const (
	dbFile, witnessFile, olderFile = "attestd.db", "witness.db", "older.db"
	headsOf                        = ".heads"
)

var companies = []string{"acme", "globex", "zoo"}

// newHistory creates the history with real servers.
func newHistory(ctx context.Context, r *run) (*history, error) {
	h := &history{run: r, keys: map[string]string{}}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	schema, err := os.ReadFile(filepath.Join(root, "schema.sql"))
	if err != nil {
		return nil, err
	}
	h.schema = string(schema)
	if h.folder, err = r.Lab.Folder(); err != nil {
		return nil, err
	}
	policy, err := h.begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := copyFile(h.file(dbFile), h.file(olderFile)); err != nil {
		return nil, err
	}
	w, err := r.Lab.Serve(ctx, h.file(witnessFile), "--cosign-for", policy)
	if err != nil {
		return nil, err
	}
	return h, errors.Join(h.goOn(ctx, w.Addr), w.Stop())
}

func (h *history) file(name string) string { return filepath.Join(h.folder, name) }

// begin creates companies with all their rows and some records, and returns the policy of a witness
// for all their logs.
func (h *history) begin(ctx context.Context) (policy string, err error) {
	s, err := h.Lab.Serve(ctx, h.file(dbFile), "--rate-limits", "off", "--webhooks-allow-private")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	c := &harness.Client{Addr: s.Addr}
	defer c.Close()
	var logs strings.Builder
	for _, company := range companies {
		if h.keys[company], err = c.Register(company); err != nil {
			return "", err
		}
		if company == "acme" {
			err = h.fillAcme(c)
		}
		if company == "globex" {
			if err = h.issueTokens(c, company); err != nil {
				return "", err
			}
			err = c.Call(200, harness.Request{Method: "POST", Path: "/v1/companies/rotate-keys", Key: h.keys[company],
				Body: `{"compromised":true}`}, nil)
		}
		if err == nil {
			err = h.attest(c, company, 9)
		}
		var list struct{ Logs []struct{ VKeys []string } }
		if err == nil {
			err = c.Call(200, harness.Request{Method: "GET", Path: "/v1/logs", Key: h.keys[company]}, &list)
		}
		if err != nil {
			return "", err
		}
		for _, l := range list.Logs {
			for _, vkey := range l.VKeys {
				fmt.Fprintf(&logs, "log %s\n", vkey)
			}
		}
	}
	policy = h.file("policy")
	return policy, os.WriteFile(policy, []byte(logs.String()), 0o600)
}

// fillAcme creates a row in every table that attackers would change.
func (h *history) fillAcme(c *harness.Client) (err error) {
	do := func(status int, method, path, body string, dest any) {
		if err == nil {
			err = c.Call(status, harness.Request{Method: method, Path: path, Key: h.keys["acme"], Body: body}, dest)
		}
	}
	for _, agent := range []string{"bot", "gone"} {
		do(201, "POST", "/v1/agents/register", fmt.Sprintf(`{"agentId":%q}`, agent), nil)
	}
	do(200, "POST", "/v1/agents/gone/disable", "", nil)
	do(201, "POST", "/v1/keys", `{"label":"reads","role":"reader"}`, nil)
	var deleted struct{ Key string }
	do(201, "POST", "/v1/keys", `{"label":"deleted"}`, &deleted)
	do(200, "DELETE", "/v1/keys/"+deleted.Key, "", nil)
	h.deleted = deleted.Key
	for _, revoked := range []bool{true, false} {
		var issued struct{ Passport string }
		do(201, "POST", "/v1/agents/bot/passport", `{"scopes":["tool:*"]}`, &issued)
		if !revoked || err != nil {
			continue
		}
		jti, err := jtiOf(issued.Passport)
		if err != nil {
			return err
		}
		do(200, "POST", "/v1/passports/"+jti+"/revoke", `{"reason":"leaked"}`, nil)
	}
	// no server listens there
	do(201, "POST", "/v1/webhooks", `{"url":"http://127.0.0.1:9/hook"}`, nil)
	if err == nil {
		err = errors.Join(h.fillKeys(c), h.fillIssuers(c), h.issueTokens(c, "acme"))
	}
	return err
}

func (h *history) attest(c *harness.Client, company string, n int) error {
	for i := range n {
		body := fmt.Sprintf(`{"agentId":"bot","actionType":"pay","payload":{"of":%q,"amount":%d}}`, company, i)
		if err := c.Call(201, harness.Request{Method: "POST", Path: "/v1/attest", Key: h.keys[company], Body: body},
			nil); err != nil {
			return err
		}
	}
	return nil
}

// goOn attests more, until the witness has cosigned every log, and downloads evidence as an auditor
// does.
func (h *history) goOn(ctx context.Context, witness string) (err error) {
	w := &harness.Client{Addr: witness}
	defer w.Close()
	var of struct{ VKey string }
	if err := w.Call(200, harness.Request{Method: "GET", Path: "/v1/witness"}, &of); err != nil {
		return err
	}
	h.vkey = of.VKey
	s, err := h.Lab.Serve(ctx, h.file(dbFile), "--rate-limits", "off", "--webhooks-allow-private", "--witness",
		h.witness(witness))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	c := &harness.Client{Addr: s.Addr}
	defer c.Close()
	name, _, _ := strings.Cut(h.vkey, "+")
	for _, company := range companies {
		if err := h.attest(c, company, 3); err != nil {
			return err
		}
	}
	for _, company := range companies {
		var list struct {
			Logs []struct {
				LogID, Log string
				Size       int64
			}
		}
		if err := c.Call(200, harness.Request{Method: "GET", Path: "/v1/logs", Key: h.keys[company]}, &list); err != nil {
			return err
		}
		var key struct{ Fingerprint string }
		if err := c.Call(200, harness.Request{Method: "GET", Path: "/v1/ca/public-key?companyId=" + company},
			&key); err != nil {
			return err
		}
		for i, l := range list.Logs {
			at := harness.Request{Method: "GET", Path: "/v1/log/" + l.LogID + "/checkpoint", Key: h.keys[company]}
			var size int64
			for end := time.Now().Add(harness.Patience); ; time.Sleep(20 * time.Millisecond) {
				a, err := c.Do(at)
				if err != nil || a.Status != 200 {
					return errors.Join(err, fmt.Errorf("%s: %d %s", at.Path, a.Status, a.Body))
				}
				checkpoint, _, err := tlog.ParseSignedCheckpoint(a.Body)
				if err != nil {
					return err
				}
				if size = checkpoint.Size; size == l.Size && strings.Contains(string(a.Body), "\n— "+name+" ") {
					break
				}
				if time.Now().After(end) {
					return fmt.Errorf("the witness does not cosign the logs of %s", company)
				}
			}
			name := []string{"actions", "control"}[i]
			a, err := c.Do(harness.Request{Method: "GET", Path: "/v1/evidence/1?log=" + name, Key: h.keys[company]})
			if err != nil || a.Status != 200 {
				return errors.Join(err, fmt.Errorf("evidence: %d %s", a.Status, a.Body))
			}
			k := pinned{h.file(company + "-" + name + ".json"), company, l.LogID, key.Fingerprint, size}
			if err := os.WriteFile(k.path, a.Body, 0o600); err != nil {
				return err
			}
			h.evidence = append(h.evidence, k)
		}
	}
	return nil
}

// witness returns the value of --witness for a witness at an address.
func (h *history) witness(addr string) string { return "http://" + addr + "/v1/witness=" + h.vkey }

// copyTo copies all files into another folder, for one attack.
func (h *history) copyTo(folder string) (*scene, error) {
	for _, name := range []string{dbFile, dbFile + headsOf, witnessFile, witnessFile + headsOf} {
		if err := copyFile(h.file(name), filepath.Join(folder, name)); err != nil {
			return nil, err
		}
	}
	return &scene{history: h, folder: folder}, nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

// moduleRoot returns the root of the source tree, which must contain the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "schema.sql")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("run this inside the source tree")
		}
	}
	return "", err
}

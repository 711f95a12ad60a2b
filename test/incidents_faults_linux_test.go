package test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"

	api "attestd/sdk/attestd"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/postgres/pgtest"
	"attestd/store/storetest"
)

const databaseFile = "/var/lib/attestd/attestd.db"

// faults are what the page's comments name: what a machine is like when its recipe begins, and what
// happens to it. Each has the arguments of the comment.
var faults = map[string]func(h *host, args []string){
	// server: the machine has a server, the company acme, and three records of its agent.
	"server": func(h *host, _ []string) { h.serveAcme() },
	// server-with-backups: the same, with backups and the head file on other disks.
	"server-with-backups": func(h *host, _ []string) {
		identity, err := age.GenerateX25519Identity()
		must.OK(h.T, err)
		must.OK(h.T, os.WriteFile(h.path("/mnt/usb/backup.key"), []byte(identity.String()+"\n"), 0o600))
		h.set("ATTESTD_HEADS="+h.path("/mnt/heads/attestd.heads"), "ATTESTD_BACKUP_TO="+h.path("/mnt/backups"),
			"ATTESTD_BACKUP_RECIPIENT="+identity.Recipient().String())
		h.serveAcme()
		await(h.T, "the server makes its first backup", func() bool {
			return strings.Contains(h.run("attestd backup list --backup-to "+h.path("/mnt/backups")), ", done\n")
		})
		h.run("attestd backup --backup-to " + h.path("/mnt/backups") + " --backup-recipient " + identity.Recipient().String())
	},
	// records N: the agent does more.
	"records": func(h *host, args []string) {
		n, err := strconv.Atoi(args[0])
		must.OK(h.T, err)
		h.records(n)
	},
	// backup FILE: an operator has made a backup.
	"backup": func(h *host, args []string) {
		if out := h.run("attestd backup " + h.path(args[0])); h.status != 0 {
			h.Fatal(out)
		}
	},
	// refused CODE: the agent tries to do more.
	"refused": func(h *host, args []string) {
		await(h.T, "a write is refused", func() bool {
			code, answer, err := h.client.send("POST", "/v1/attest", `{"agentId":"bot","actionType":"deploy","payload":0}`)
			return err == nil && code == http.StatusServiceUnavailable && strings.Contains(string(answer), `"code":"`+args[0]+`"`)
		})
	},
	// leak: a key of the company leaks, and its finder makes another one with it.
	"leak": func(h *host, _ []string) {
		leaked := *h.client
		leaked.key = newKey(h.T, h.client)
		newKey(h.T, &leaked)
		h.run("LEAKED=" + leaked.key)
	},
	// disobeyed: a hook refuses a call of the agent bot, which runs it all the same.
	"disobeyed": func(h *host, _ []string) {
		event := func(query, event, more string) {
			h.client.call(h.T, 200, "POST", "/v1/hooks/claude-code?agent=bot"+query,
				`{"hook_event_name":"`+event+`","session_id":"run-7","tool_name":"Bash","tool_use_id":"c-7"`+more+`}`, nil)
		}
		event("&require=passport", "PreToolUse", `,"tool_input":{"command":"rm -r build"}`)
		event("", "PostToolUse", `,"tool_response":""`)
		await(h.T, "the server finds the call", func() bool {
			return strings.Contains(string(h.client.call(h.T, 200, "GET", "/readyz", "", nil)), "DISOBEYED")
		})
	},
	// stolen-agent-key: the agent has a key, which is stolen, and its thief signs an action with
	// it.
	"stolen-agent-key": func(h *host, _ []string) {
		key, err := api.NewAgentKey(api.EdDSA)
		must.OK(h.T, err)
		admin, err := api.New(api.Config{URL: h.client.url, Credential: api.Key(h.client.key)})
		must.OK(h.T, err)
		defer admin.Close()
		enrolled, err := admin.EnrolKey(h.Context(), "bot", key, api.NewEnrolledKey{})
		must.OK(h.T, err)
		identity, err := api.NewIdentity(api.IdentityConfig{Key: key, SPIFFEID: "spiffe://attestd.local/company/acme/agent/bot", Log: enrolled.Log})
		must.OK(h.T, err)
		signed, err := identity.Sign(h.Context(), api.Attestation{AgentID: "bot", ActionType: "deploy", Payload: "by the thief"}, api.Place{})
		must.OK(h.T, err)
		_, err = admin.Attest(h.Context(), signed)
		must.OK(h.T, err)
		h.run("THUMBPRINT=" + key.Thumbprint() + " SINCE=" + enrolled.CreatedAt)
	},
	// disk-dies: the server and its files are gone.
	"disk-dies": func(h *host, _ []string) {
		h.stop()
		h.clear()
	},
	// damage TABLE: all pages of a table become garbage while the server is down.
	"damage": func(h *host, args []string) {
		db := storetest.Stranger(h, h.path(databaseFile))
		rows, err := db.Query("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'", args[0])
		must.OK(h.T, err)
		f, err := os.OpenFile(h.path(databaseFile), os.O_WRONLY, 0)
		must.OK(h.T, err)
		defer f.Close()
		pages := 0
		for ; rows.Next(); pages++ {
			var page int64
			must.OK(h.T, rows.Scan(&page))
			_, err = f.WriteAt(bytes.Repeat([]byte{0xd7}, 4096), (page-1)*4096)
			must.OK(h.T, err)
		}
		must.OK(h.T, errors.Join(rows.Err(), db.Close()))
		if pages == 0 {
			h.Fatal("the table has no page")
		}
	},
	// svid: an agent has a token.
	"svid": func(h *host, _ []string) {
		var made struct{ SVID string }
		h.client.call(h.T, http.StatusOK, "GET", "/v1/agents/bot/svid", "", &made)
		h.run("SVID=" + made.SVID)
	},
	// shell: the operator opens another shell of the service's user.
	"shell": func(h *host, _ []string) { h.run("export CREDENTIALS_DIRECTORY=" + h.path("/etc/attestd")) },
	// stop, start, kill: of the server.
	"stop":  func(h *host, _ []string) { h.stop() },
	"start": func(h *host, _ []string) { h.start() },
	"kill":  func(h *host, _ []string) { h.kill() },
	// truncate FILE: a program empties a file.
	"truncate": func(h *host, args []string) { must.OK(h.T, os.Truncate(h.path(args[0]), 0)) },
	// move FROM TO: a program moves a file.
	"move": func(h *host, args []string) { must.OK(h.T, os.Rename(h.path(args[0]), h.path(args[1]))) },
	// remove FILE
	"remove": func(h *host, args []string) { must.OK(h.T, os.Remove(h.path(args[0]))) },
	// copy FROM TO: a program copies a file.
	"copy": func(h *host, args []string) {
		text, err := os.ReadFile(h.path(args[0]))
		must.OK(h.T, err)
		must.OK(h.T, os.WriteFile(h.path(args[1]), text, 0o600))
	},
	// sql STATEMENT: another program changes the database.
	"sql": func(h *host, args []string) {
		must.OK(h.T, storetest.Stranger(h, h.path(databaseFile), strings.Join(args, " ")).Close())
	},
	// reader: the company has a key that may only read.
	"reader": func(h *host, _ []string) {
		var made struct{ Key string }
		h.client.call(h.T, http.StatusCreated, "POST", "/v1/keys", `{"label":"auditor","role":"reader"}`, &made)
		h.reader = made.Key
	},
	// writes-with-reader: an attacker uses that key to write.
	"writes-with-reader": func(h *host, _ []string) {
		reader := *h.client
		reader.key = h.reader
		reader.call(h.T, http.StatusServiceUnavailable, "POST", "/v1/keys", `{}`, nil)
	},
	// server-on-small-disk: the database is on a disk of 4 MiB.
	"server-on-small-disk": func(h *host, _ []string) {
		mountSmallDisk(h.T, h.path("/var/lib/attestd"))
		h.Cleanup(func() { h.run("cd /") })
		h.run("cd " + h.path("/var/lib/attestd"))
		h.serveAcme()
	},
	// fill-up: something takes all room of that disk.
	"fill-up": func(h *host, _ []string) {
		fillUp(h.T, h.path("/var/lib/attestd"))
		must.OK(h.T, os.Rename(h.path("/var/lib/attestd/ballast"), h.path("/var/lib/attestd/core.4711")))
	},
	// server-whose-clock-was DURATION: the newest record was written with a clock that was off.
	"server-whose-clock-was": func(h *host, args []string) {
		by, err := time.ParseDuration(args[0])
		must.OK(h.T, err)
		h.clear()
		h.writeAt(time.Now().Add(by))
		h.start()
	},
	// server-with-witness: another machine's server cosigns the logs.
	"server-with-witness": func(h *host, _ []string) {
		h.serveAcme()
		var logs struct{ Logs []struct{ VKeys []string } }
		h.client.call(h.T, 200, "GET", "/v1/logs", "", &logs)
		folder, policy := h.T.TempDir(), ""
		for _, log := range logs.Logs {
			policy += "log " + log.VKeys[0] + "\n"
		}
		must.OK(h.T, os.WriteFile(filepath.Join(folder, "policy"), []byte(policy), 0o600))
		w := serve(h.T, filepath.Join(folder, "witness.db"), "--cosign-for", filepath.Join(folder, "policy"))
		var of struct{ VKey string }
		w.client(h.T, "").call(h.T, 200, "GET", "/v1/witness", "", &of)
		h.set("ATTESTD_WITNESS=" + w.URL + "/v1/witness=" + of.VKey)
		h.stop()
		h.start()
	},
	// cosigned SIZE: the witness cosigns so many records.
	"cosigned": func(h *host, args []string) {
		log, _ := h.client.logAndKey(h.T)
		await(h.T, "the witness cosigns", func() bool {
			stored := string(h.client.call(h.T, 200, "GET", "/v1/log/"+log.LogID+"/checkpoint", "", nil))
			return strings.Contains(stored, "\n"+args[0]+"\n") && strings.Count(stored, "\n— ") == 2
		})
	},
	// fresh: the machine is as it was before anything was started.
	"fresh": func(h *host, _ []string) {
		h.stop()
		h.clear()
		must.OK(h.T, os.Remove(h.path("/etc/default/attestd")))
		h.set()
	},
	// heads-written FILE: the head file has all records. It is written milliseconds after them.
	"heads-written": func(h *host, args []string) {
		var logs struct {
			Logs []struct {
				LogID string
				Size  uint64
			}
		}
		h.client.call(h.T, http.StatusOK, "GET", "/v1/logs", "", &logs)
		for _, log := range logs.Logs {
			// a part of the log's slot
			slot, err := hex.DecodeString(fmt.Sprintf("%s%016x", log.LogID, log.Size))
			must.OK(h.T, err)
			await(h.T, "the head file is written", func() bool {
				text, err := os.ReadFile(h.path(args[0]))
				return err == nil && bytes.Contains(text, slot)
			})
		}
	},
	// older-file SCHEMA: the machine has a file of an older program.
	"older-file": func(h *host, args []string) {
		text, err := os.ReadFile("../store/testdata/schema-" + args[0] + ".db")
		must.OK(h.T, err)
		must.OK(h.T, os.WriteFile(h.path(databaseFile), text, 0o600))
		h.plain = true
		var of struct{ Acme struct{ Keys []string } }
		text, err = os.ReadFile("../store/testdata/schema-" + args[0] + ".json")
		must.OK(h.T, errors.Join(err, json.Unmarshal(text, &of)))
		h.run("unset ATTESTD_MASTER_KEY_FILE; export ATTESTD_KEY=" + of.Acme.Keys[0])
	},
	// server-on-postgres: the database is a primary with a standby, and the server has a head file.
	"server-on-postgres": func(h *host, _ []string) {
		testenv.Path(h, "psql")
		h.cluster = pgtest.NewCluster(h)
		h.db = h.cluster.URL()
		h.set("ATTESTD_HEADS=" + h.path("/var/lib/attestd/heads"))
		h.run("export ATTESTD_DB='" + h.db + "'")
		h.standbyIs()
		h.serveAcme()
	},
	// primary-dies: nothing was lost, because the standby was synchronous.
	"primary-dies": func(h *host, _ []string) { h.cluster.Kill() },
	// standby-lags: from here on the standby hears of nothing.
	"standby-lags": func(h *host, _ []string) {
		h.cluster.Rebuild()
		h.standbyIs()
		h.cluster.Detach()
	},
	// promoted: the standby, which the operator promoted, is the primary.
	"promoted": func(h *host, _ []string) { h.cluster.Promoted() },
	// new-host: from here on the recipe is typed on another machine, to which only /mnt/usb was
	// carried.
	"new-host": func(h *host, _ []string) {
		h.stop()
		for _, folder := range []string{"/var/lib/attestd", "/etc/attestd", "/etc/default"} {
			must.OK(h.T, os.MkdirAll(h.path("/old"+filepath.Dir(folder)), 0o700))
			must.OK(h.T, os.Rename(h.path(folder), h.path("/old"+folder)))
			must.OK(h.T, os.MkdirAll(h.path(folder), 0o700))
		}
		h.set()
		h.run("cd " + h.path("/var/lib/attestd"))
	},
}

package attack

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"attestd/chain"
	"attestd/internal/rewrite"
	"attestd/store"
)

// scene is a copy of a history for one attack, while no server runs.
type scene struct {
	*history
	folder string
	undone string // from the rewriting
}

func (s *scene) db() string    { return filepath.Join(s.folder, dbFile) }
func (s *scene) heads() string { return s.db() + headsOf }

// rewriting is an attack.
type rewriting struct {
	what   string
	do     func(context.Context, *scene) error
	undone string // query that is true after a start has undone the attack; "" if no start does
}

// The attackers of the table, in its order. Those in withoutKey need only the file.
var withoutKey = []rewriting{
	{"a disabled agent enabled", statements(`UPDATE agent SET disabled_at = NULL WHERE agent_id = 'gone'`), ""},
	{"a deleted API key brought back", bringBack, ""},
	{"a reader made an admin", statements(`UPDATE api_key SET role = 'admin' WHERE label = 'reads'`), ""},
	{"`compromised_at` of a key taken back", statements(`UPDATE company_key SET compromised_at = NULL WHERE company = 2 AND generation = 0`), ""},
	{"a revocation moved to another passport", statements(
		`UPDATE passport SET revoked_at = (SELECT revoked_at FROM passport
			WHERE revoked_at IS NOT NULL), reason = 'leaked' WHERE revoked_at IS NULL`,
		`UPDATE passport SET revoked_at = NULL, reason = NULL WHERE id = (SELECT min(id) FROM passport)`), ""},
	{"a company renamed", statements(`UPDATE company SET company_id = 'other' WHERE id = 1`), ""},
	{"a webhook's address changed", statements(`UPDATE webhook SET url = 'http://127.0.0.1:9/elsewhere'`), ""},
	{"a trust setting changed", statements(`UPDATE setting SET value = replace(value, '"registration":"open"', '"registration":"closed"') WHERE name = 'trust_settings'`),
		`SELECT value LIKE '%"registration":"open"%' FROM setting WHERE name = 'trust_settings'`},
	{"a key enrolled for an agent", statements(`INSERT INTO agent_key (company, thumbprint, agent_id, jwk, created_at)
		SELECT company, 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k', agent_id, '{"crv":"Ed25519","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}', created_at
		FROM agent_key WHERE revoked_at IS NULL`), ""},
	{"an agent's revoked key brought back", statements(`UPDATE agent_key SET revoked_at = NULL WHERE revoked_at IS NOT NULL`), ""},
	{"an agent's key given to another agent", statements(`UPDATE agent_key SET agent_id = 'bot' WHERE revoked_at IS NULL`), ""},
	{"an agent's key that may make older statements", statements(`UPDATE agent_key SET statement_version = 1 WHERE revoked_at IS NULL`), ""},
	{"an agent's key deleted", statements(`DELETE FROM agent_key WHERE revoked_at IS NULL`), ""},
	{"an enrolment token added", statements(`INSERT INTO enrolment (company, hash, fingerprint, agent_id, created_at, expires_at)
		SELECT company, zeroblob(32), '0000000000000000', agent_id, created_at, expires_at FROM enrolment WHERE key IS NULL`), ""},
	{"an enrolment token made good for longer", statements(`UPDATE enrolment SET expires_at = expires_at + 86400000 WHERE key IS NULL`), ""},
	{"a spent enrolment token made good again", statements(`UPDATE enrolment SET key = NULL WHERE key IS NOT NULL`), ""},
	{"an agent's policy weakened", statements(`UPDATE attest_policy SET attest = 'any' WHERE agent_id = 'signs'`), ""},
	{"an agent's policy deleted", statements(`DELETE FROM attest_policy WHERE agent_id = 'signs'`), ""},
	{"a record's payload changed", statements(`UPDATE record SET payload = replace(payload, '"amount":5', '"amount":5000') WHERE id = (1 << 40) + 5`), ""},
	{"a record's time changed", statements(`UPDATE record SET timestamp = replace(timestamp, '20', '19') WHERE id = (1 << 40) + 5`), ""},
	{"the last record replaced", statements(`UPDATE record SET payload = replace(payload, '"amount":2', '"amount":9') WHERE id = (1 << 40) + 11`), ""},
	{"the last records deleted", statements(`DELETE FROM record WHERE id >= (1 << 40) + 9 AND id >> 40 = 1`), ""},
	{"the last records cut off, so that all in the file fits", cutOff, ""},
	{"the last records cut off, and the checkpoints in the file deleted", func(ctx context.Context, s *scene) error { return errors.Join(cutOff(ctx, s), s.forget(ctx)) }, ""},
	{"the company that registered last cut out whole", cutOut, ""},
	{"an older copy of the file put in place", func(_ context.Context, s *scene) error { return copyFile(s.file(olderFile), s.db()) }, ""},
}

// withKey have the company's signing key, and sign everything again.
var withKey = []rewriting{
	{"a record changed", actionsOfAcme(func(list []chain.Record) []chain.Record { return amounts(list, 5, 6) }), ""},
	{"the last records replaced", actionsOfAcme(func(list []chain.Record) []chain.Record { return amounts(list, 9, 12) }), ""},
	{"a record inserted", actionsOfAcme(func(list []chain.Record) []chain.Record { return slices.Insert(list, 5, list[4]) }), ""},
	{"two records swapped", actionsOfAcme(func(list []chain.Record) []chain.Record {
		list[3].Payload, list[4].Payload = list[4].Payload, list[3].Payload
		return list
	}), ""},
	{"all records dated an hour earlier", actionsOfAcme(func(list []chain.Record) []chain.Record {
		for i := range list {
			at, err := time.Parse(time.RFC3339, list[i].Timestamp)
			if err == nil {
				list[i].Timestamp = chain.FormatTime(at.Add(-time.Hour))
			}
		}
		return list
	}), ""},
	{"the logs of two companies swapped", swapLogs, ""},
	{"a log cut short and grown again with other records", actionsOfAcme(func(list []chain.Record) []chain.Record {
		return append(amounts(list[:9], 6, 9), list[:5]...)
	}), ""},
	{"the control log written so that tables and log agree", unsayDisabling, ""},
}

// cutOff needs no key, although this implementation uses one: Ed25519 is deterministic, so the
// remaining records keep their signatures.
var cutOff = actionsOfAcme(func(list []chain.Record) []chain.Record { return list[:9] })

// statements returns an attack that runs SQL on the file, past its guards.
func statements(list ...string) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error { return s.exec(ctx, list...) }
}

// exec runs statements, each of which must change something.
func (s *scene) exec(ctx context.Context, list ...string) error { return execOn(ctx, s.db(), list...) }

func execOn(ctx context.Context, db string, list ...string) error {
	return rewrite.Unguarded(ctx, db, func(tx *sql.Tx) error {
		for _, statement := range list {
			done, err := tx.ExecContext(ctx, statement)
			if err != nil {
				return err
			}
			if n, err := done.RowsAffected(); err != nil || n == 0 {
				return fmt.Errorf("%s: changes nothing: %v", statement, err)
			}
		}
		return nil
	})
}

func bringBack(ctx context.Context, s *scene) error {
	hash := sha256.Sum256([]byte(s.deleted))
	return s.exec(ctx, fmt.Sprintf(`INSERT INTO api_key (company, hash, key, label, created_at, made_by, role, fingerprint)
		SELECT company, x'%x', '%s', 'deleted', created_at, made_by, 'admin', '%s' FROM api_key WHERE label = 'reads'`, hash, s.deleted, hex.EncodeToString(hash[:8])))
}

// cutOut deletes every row of zoo, which has the number 3.
func cutOut(ctx context.Context, s *scene) error {
	return rewrite.Unguarded(ctx, s.db(), func(tx *sql.Tx) error {
		for _, where := range []string{
			"record WHERE id >> 40 IN (3, -3)", "head WHERE chain IN (3, -3)", "node WHERE chain IN (3, -3)",
			"summary WHERE id >> 32 IN (3, -3)",
			"idempotency_key WHERE chain IN (3, -3)", "log_key WHERE chain IN (3, -3)",
			"checkpoint WHERE log_id IN (SELECT log_id FROM log WHERE company = 3)",
			"cosignature WHERE log_id IN (SELECT log_id FROM log WHERE company = 3)",
			"webhook WHERE company = 3", "oauth_token WHERE company = 3", "oauth_client WHERE company = 3",
			"api_key WHERE company = 3", "passport WHERE company = 3",
			"agent WHERE company = 3", "company_usage WHERE company = 3", "company_key WHERE company = 3",
			"log WHERE company = 3", "company WHERE id = 3",
		} {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+where); err != nil {
				return fmt.Errorf("%s: %w", where, err)
			}
		}
		return nil
	})
}

// amounts changes the amount in the records [from, to).
func amounts(list []chain.Record, from, to int) []chain.Record {
	for i := from; i < to; i++ {
		list[i].Payload = []byte(strings.Replace(string(list[i].Payload), `"amount":`, `"amount":1000`, 1))
	}
	return list
}

func actionsOfAcme(change func([]chain.Record) []chain.Record) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		return s.rebuild(ctx, []rewrite.Log{{Company: "acme", Name: store.Actions}}, func(logs [][]chain.Record) error {
			times := make([]string, len(logs[0]))
			for i := range logs[0] {
				times[i] = logs[0][i].Timestamp
			}
			logs[0] = change(logs[0])
			// a record that was copied to another place has the time of that place
			for i := range logs[0] {
				if i > 0 && logs[0][i].Timestamp < logs[0][i-1].Timestamp {
					logs[0][i].Timestamp = times[min(i, len(times)-1)]
				}
			}
			return nil
		})
	}
}

// swapLogs exchanges the actions of two companies, which keep their names.
func swapLogs(ctx context.Context, s *scene) error {
	logs := []rewrite.Log{{Company: "acme", Name: store.Actions}, {Company: "zoo", Name: store.Actions}}
	return s.rebuild(ctx, logs, func(lists [][]chain.Record) error {
		lists[0], lists[1] = lists[1], lists[0]
		for at, list := range lists {
			for i := range list {
				was := fmt.Sprintf(`"companyId":%q`, logs[1-at].Company)
				list[i].Payload = []byte(strings.Replace(string(list[i].Payload), was,
					fmt.Sprintf(`"companyId":%q`, logs[at].Company), 1))
			}
		}
		return nil
	})
}

// unsayDisabling removes the disabling of an agent from the log and from the table.
func unsayDisabling(ctx context.Context, s *scene) error {
	err := s.rebuild(ctx, []rewrite.Log{{Company: "acme", Name: store.Control}}, func(logs [][]chain.Record) error {
		n := len(logs[0])
		logs[0] = slices.DeleteFunc(logs[0], func(r chain.Record) bool {
			return strings.Contains(string(r.Payload), `"actionType":"agent.disabled"`)
		})
		if len(logs[0]) != n-1 {
			return fmt.Errorf("%d of %d control records are left", len(logs[0]), n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.exec(ctx, `UPDATE agent SET disabled_at = NULL WHERE agent_id = 'gone'`)
}

// rebuild rewrites logs, and keeps the stored checkpoints.
func (s *scene) rebuild(ctx context.Context, logs []rewrite.Log, change func([][]chain.Record) error) error {
	before := filepath.Join(s.folder, "before.db")
	if err := copyFile(s.db(), before); err != nil {
		return err
	}
	if err := rewrite.Logs(ctx, s.db(), s.schema, store.Options{}, logs, change); err != nil {
		return err
	}
	file, err := sql.Open("sqlite", "file:"+s.db())
	if err != nil {
		return err
	}
	defer file.Close()
	file.SetMaxOpenConns(1)
	for _, statement := range []string{
		`ATTACH '` + before + `' AS before`,
		`INSERT OR IGNORE INTO checkpoint SELECT * FROM before.checkpoint`,
		`INSERT OR IGNORE INTO cosignature SELECT * FROM before.cosignature`,
		`DETACH before`,
	} {
		if _, err := file.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return file.Close()
}

// forget deletes the stored checkpoints and cosignatures.
func (s *scene) forget(ctx context.Context) error { return forgetIn(ctx, s.db()) }

func forgetIn(ctx context.Context, db string) error {
	return rewrite.Unguarded(ctx, db, func(tx *sql.Tx) error {
		for _, table := range []string{"checkpoint", "cosignature"} {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table); err != nil {
				return err
			}
		}
		return nil
	})
}

// forgeHeads lets a server create the head file for the changed database.
func (s *scene) forgeHeads(ctx context.Context) error {
	if err := os.Remove(s.heads()); err != nil {
		return err
	}
	running, err := s.Lab.Serve(ctx, s.db())
	if err != nil {
		return err
	}
	return running.Stop()
}

// takeWitness makes the witness forget what it has signed: the attacker has its key too.
func (s *scene) takeWitness(ctx context.Context) error {
	db := filepath.Join(s.folder, witnessFile)
	if err := os.Remove(db + headsOf); err != nil {
		return err
	}
	return execOn(ctx, db, `DELETE FROM witness_log`)
}

package db

// formerSteps are the first of migrations, up to schema 10.
var formerSteps = [...]migration{
	1: {sql: `
ALTER TABLE api_key ADD COLUMN made_by TEXT;
ALTER TABLE api_key ADD COLUMN last_used_at TEXT;
ALTER TABLE oauth_client ADD COLUMN made_by TEXT;
ALTER TABLE oauth_client ADD COLUMN last_used_at TEXT;
ALTER TABLE oauth_token ADD COLUMN client INTEGER REFERENCES oauth_client (id) ON DELETE CASCADE;
CREATE INDEX oauth_token_client ON oauth_token (client);
ALTER TABLE agent ADD COLUMN disabled_at TEXT;
CREATE TABLE company_usage (
  company INTEGER PRIMARY KEY REFERENCES company (id),
  agents  INTEGER NOT NULL
) STRICT;
INSERT INTO company_usage (company, agents) SELECT company, count(*) FROM agent GROUP BY company;
CREATE TRIGGER company_usage_agent_added AFTER INSERT ON agent BEGIN
  INSERT INTO company_usage (company, agents) VALUES (NEW.company, 1) ON CONFLICT (company) DO UPDATE SET agents = agents + 1;
END;
CREATE TRIGGER company_usage_agent_removed AFTER DELETE ON agent BEGIN
  UPDATE company_usage SET agents = agents - 1 WHERE company = OLD.company;
END;
CREATE INDEX passport_unrevoked ON passport (company, agent_id) WHERE revoked_at IS NULL;
PRAGMA user_version = 2;`},

	2: {sql: `
ALTER TABLE api_key ADD COLUMN role TEXT NOT NULL DEFAULT 'admin' CHECK (role IN ('admin', 'writer', 'reader'));
ALTER TABLE api_key ADD COLUMN expires_at INTEGER;
ALTER TABLE oauth_client ADD COLUMN role TEXT NOT NULL DEFAULT 'admin' CHECK (role IN ('admin', 'writer', 'reader'));
ALTER TABLE oauth_client ADD COLUMN expires_at INTEGER;
DROP TRIGGER node_no_update;
DROP TRIGGER head_only_grows;
ALTER TABLE node ADD COLUMN log_hash BLOB CHECK (length(log_hash) = 32);
ALTER TABLE head ADD COLUMN log_root BLOB CHECK (length(log_root) = 32);
ALTER TABLE head ADD COLUMN log_frontier BLOB CHECK (length(log_frontier) % 32 = 0);
CREATE TABLE log (
  company INTEGER NOT NULL REFERENCES company (id),
  name    TEXT NOT NULL CHECK (name = 'actions'),
  log_id  TEXT NOT NULL UNIQUE,
  origin  TEXT NOT NULL UNIQUE,
  PRIMARY KEY (company, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoint (
  log_id TEXT PRIMARY KEY REFERENCES log (log_id),
  size   INTEGER NOT NULL,
  note   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 3;`, fill: fillLogs, guard: `
CREATE TRIGGER node_no_update BEFORE UPDATE ON node BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END;
CREATE TRIGGER head_only_grows BEFORE UPDATE ON head WHEN NEW.length <= OLD.length OR NEW.company <> OLD.company
  BEGIN SELECT RAISE(ABORT, 'a head only grows'); END;
CREATE TRIGGER log_no_update BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'the names of a log are fixed'); END;
CREATE TRIGGER log_no_delete BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'the names of a log are fixed'); END;
CREATE TRIGGER checkpoint_only_grows BEFORE UPDATE ON checkpoint WHEN NEW.size <= OLD.size OR NEW.log_id <> OLD.log_id
  BEGIN SELECT RAISE(ABORT, 'a checkpoint only grows'); END;
CREATE TRIGGER checkpoint_no_delete BEFORE DELETE ON checkpoint BEGIN SELECT RAISE(ABORT, 'a checkpoint only grows'); END;`},

	3: {sql: `
CREATE TABLE company_key (
  company        INTEGER NOT NULL REFERENCES company (id),
  generation     INTEGER NOT NULL,
  public_key     BLOB NOT NULL CHECK (length(public_key) = 32),
  seed           BLOB,
  first_record   INTEGER NOT NULL,
  created_at     TEXT NOT NULL,
  ended_at       TEXT,
  compromised_at TEXT,
  statement      TEXT,
  old_signature  BLOB,
  new_signature  BLOB,
  PRIMARY KEY (company, generation)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX company_key_current ON company_key (company) WHERE ended_at IS NULL;
INSERT INTO company_key (company, generation, public_key, seed, first_record, created_at)
  SELECT id, 0, ed25519_public(seed), seed, 0, registered_at FROM company;
ALTER TABLE company DROP COLUMN seed;
CREATE TRIGGER company_key_only_ends BEFORE UPDATE ON company_key WHEN
    (NEW.company, NEW.generation, NEW.public_key, NEW.first_record, NEW.created_at, NEW.statement, NEW.old_signature, NEW.new_signature)
    IS NOT (OLD.company, OLD.generation, OLD.public_key, OLD.first_record, OLD.created_at, OLD.statement, OLD.old_signature, OLD.new_signature)
    OR OLD.ended_at IS NOT NULL AND NEW.ended_at IS NOT OLD.ended_at OR OLD.compromised_at IS NOT NULL AND NEW.compromised_at IS NOT OLD.compromised_at
  BEGIN SELECT RAISE(ABORT, 'a key only ends'); END;
CREATE TRIGGER company_key_no_delete BEFORE DELETE ON company_key BEGIN SELECT RAISE(ABORT, 'a key only ends'); END;
DROP TRIGGER checkpoint_only_grows;
CREATE TRIGGER checkpoint_only_grows BEFORE UPDATE ON checkpoint WHEN NEW.size < OLD.size OR NEW.log_id <> OLD.log_id
  BEGIN SELECT RAISE(ABORT, 'a checkpoint only grows'); END;
PRAGMA user_version = 4;`},

	4: {sql: `
ALTER TABLE api_key ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';
ALTER TABLE oauth_client ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';
UPDATE api_key SET fingerprint = lower(hex(substr(hash, 1, 8)));
UPDATE oauth_client SET fingerprint = lower(hex(substr(secret_hash, 1, 8)));
PRAGMA user_version = 5;`},

	// Temporary tables are used because ALTER TABLE would change an operator's own tables and
	// views, or fail because of them.
	5: {sql: `
CREATE TEMP TABLE old_checkpoint AS SELECT * FROM checkpoint;
CREATE TEMP TABLE old_log AS SELECT * FROM log;
CREATE TEMP TABLE old_node AS SELECT * FROM node;
CREATE TEMP TABLE old_head AS SELECT * FROM head;
CREATE TEMP TABLE old_company_key AS SELECT * FROM company_key;
DROP TABLE checkpoint;
DROP TABLE log;
DROP TABLE node;
DROP TABLE head;
DROP TABLE company_key;
CREATE TABLE company_key (
  company        INTEGER NOT NULL REFERENCES company (id),
  generation     INTEGER NOT NULL,
  public_key     BLOB NOT NULL CHECK (length(public_key) = 32),
  seed           BLOB,
  created_at     TEXT NOT NULL,
  ended_at       TEXT,
  compromised_at TEXT,
  PRIMARY KEY (company, generation)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX company_key_current ON company_key (company) WHERE ended_at IS NULL;
CREATE TABLE log (
  chain   INTEGER PRIMARY KEY CHECK (chain = CASE name WHEN 'actions' THEN company ELSE -company END),
  company INTEGER NOT NULL REFERENCES company (id),
  name    TEXT NOT NULL CHECK (name IN ('actions', 'control')),
  log_id  TEXT NOT NULL UNIQUE,
  origin  TEXT NOT NULL UNIQUE,
  UNIQUE (company, name)
) STRICT;
CREATE TABLE log_key (
  chain         INTEGER NOT NULL REFERENCES log (chain),
  generation    INTEGER NOT NULL,
  first_record  INTEGER NOT NULL,
  statement     TEXT,
  old_signature BLOB,
  new_signature BLOB,
  PRIMARY KEY (chain, generation)
) STRICT, WITHOUT ROWID;
CREATE TABLE node (
  chain    INTEGER NOT NULL REFERENCES log (chain),
  level    INTEGER NOT NULL CHECK (level IN (8, 16, 24, 32)),
  idx      INTEGER NOT NULL,
  hash     BLOB NOT NULL CHECK (length(hash) = 32),
  log_hash BLOB CHECK (length(log_hash) = 32),
  PRIMARY KEY (chain, level, idx)
) STRICT, WITHOUT ROWID;
CREATE TABLE head (
  chain        INTEGER PRIMARY KEY REFERENCES log (chain),
  length       INTEGER NOT NULL,
  root         BLOB NOT NULL CHECK (length(root) = 32),
  frontier     BLOB NOT NULL CHECK (length(frontier) % 32 = 0),
  timestamp    TEXT NOT NULL,
  log_root     BLOB CHECK (length(log_root) = 32),
  log_frontier BLOB CHECK (length(log_frontier) % 32 = 0)
) STRICT;
CREATE TABLE checkpoint (
  log_id TEXT PRIMARY KEY REFERENCES log (log_id),
  size   INTEGER NOT NULL,
  note   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO log (chain, company, name, log_id, origin) SELECT company, company, name, log_id, origin FROM old_log;
INSERT INTO log_key (chain, generation, first_record, statement, old_signature, new_signature)
  SELECT company, generation, first_record, statement, old_signature, new_signature FROM old_company_key;
INSERT INTO company_key (company, generation, public_key, seed, created_at, ended_at, compromised_at)
  SELECT company, generation, public_key, seed, created_at, ended_at, compromised_at FROM old_company_key;
INSERT INTO node SELECT * FROM old_node;
INSERT INTO head SELECT * FROM old_head;
INSERT INTO checkpoint SELECT * FROM old_checkpoint;
DROP TABLE old_checkpoint;
DROP TABLE old_log;
DROP TABLE old_node;
DROP TABLE old_head;
DROP TABLE old_company_key;
CREATE INDEX control_subject ON record (CASE WHEN json_valid(payload) THEN json_extract(payload, '$.payload.subject') END, id) WHERE id < 0;
PRAGMA user_version = 6;`, fill: fillControl, guard: `
CREATE TRIGGER node_no_update BEFORE UPDATE ON node BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END;
CREATE TRIGGER node_no_delete BEFORE DELETE ON node BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END;
CREATE TRIGGER head_only_grows BEFORE UPDATE ON head WHEN NEW.length <= OLD.length OR NEW.chain <> OLD.chain
  BEGIN SELECT RAISE(ABORT, 'a head only grows'); END;
CREATE TRIGGER head_no_delete BEFORE DELETE ON head BEGIN SELECT RAISE(ABORT, 'a head only grows'); END;
CREATE TRIGGER log_no_update BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'the names of a log are fixed'); END;
CREATE TRIGGER log_no_delete BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'the names of a log are fixed'); END;
CREATE TRIGGER checkpoint_only_grows BEFORE UPDATE ON checkpoint WHEN NEW.size < OLD.size OR NEW.log_id <> OLD.log_id
  BEGIN SELECT RAISE(ABORT, 'a checkpoint only grows'); END;
CREATE TRIGGER checkpoint_no_delete BEFORE DELETE ON checkpoint BEGIN SELECT RAISE(ABORT, 'a checkpoint only grows'); END;
CREATE TRIGGER company_key_only_ends BEFORE UPDATE ON company_key WHEN
    (NEW.company, NEW.generation, NEW.public_key, NEW.created_at) IS NOT (OLD.company, OLD.generation, OLD.public_key, OLD.created_at)
    OR OLD.ended_at IS NOT NULL AND NEW.ended_at IS NOT OLD.ended_at OR OLD.compromised_at IS NOT NULL AND NEW.compromised_at IS NOT OLD.compromised_at
  BEGIN SELECT RAISE(ABORT, 'a key only ends'); END;
CREATE TRIGGER company_key_no_delete BEFORE DELETE ON company_key BEGIN SELECT RAISE(ABORT, 'a key only ends'); END;
CREATE TRIGGER log_key_no_update BEFORE UPDATE ON log_key BEGIN SELECT RAISE(ABORT, 'the ranges of keys are append-only'); END;
CREATE TRIGGER log_key_no_delete BEFORE DELETE ON log_key BEGIN SELECT RAISE(ABORT, 'the ranges of keys are append-only'); END;`},

	6: {sql: `
CREATE TABLE witness_key (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  name       TEXT NOT NULL,
  public_key BLOB NOT NULL CHECK (length(public_key) = 32),
  seed       BLOB NOT NULL,
  created_at TEXT NOT NULL
) STRICT;
CREATE TABLE witness_log (
  origin      TEXT PRIMARY KEY,
  origin_hash BLOB NOT NULL UNIQUE CHECK (length(origin_hash) = 32),
  size        INTEGER NOT NULL,
  root        BLOB NOT NULL CHECK (length(root) = 32),
  note        TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE cosignature (
  log_id  TEXT NOT NULL REFERENCES log (log_id),
  witness TEXT NOT NULL,
  size    INTEGER NOT NULL,
  note    TEXT NOT NULL,
  line    TEXT NOT NULL,
  PRIMARY KEY (log_id, witness)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER witness_log_only_grows BEFORE UPDATE ON witness_log
  WHEN NEW.origin <> OLD.origin OR NEW.origin_hash <> OLD.origin_hash OR NEW.size < OLD.size OR NEW.size = OLD.size AND NEW.root <> OLD.root
  BEGIN SELECT RAISE(ABORT, 'a cosigned log only grows'); END;
CREATE TRIGGER witness_log_no_delete BEFORE DELETE ON witness_log BEGIN SELECT RAISE(ABORT, 'a cosigned log only grows'); END;
CREATE TRIGGER witness_key_is_fixed BEFORE UPDATE ON witness_key WHEN NEW.id <> OLD.id OR NEW.name <> OLD.name OR NEW.public_key <> OLD.public_key
  BEGIN SELECT RAISE(ABORT, 'a witness keeps its name and its key'); END;
CREATE TRIGGER witness_key_no_delete BEFORE DELETE ON witness_key BEGIN SELECT RAISE(ABORT, 'a witness keeps its name and its key'); END;
PRAGMA user_version = 7;`},

	// A file that was copied before this step has the same identity after it.
	7: {sql: `
INSERT INTO setting (name, value) SELECT 'database_id', coalesce((SELECT log_id FROM log WHERE chain > 0 ORDER BY chain LIMIT 1), lower(hex(randomblob(16))));
ALTER TABLE company_usage ADD COLUMN revocations INTEGER NOT NULL DEFAULT 0;
INSERT INTO company_usage (company, agents, revocations) SELECT company, 0, count(*) FROM passport WHERE revoked_at IS NOT NULL GROUP BY company
  ON CONFLICT (company) DO UPDATE SET revocations = excluded.revocations;
CREATE TRIGGER company_usage_passport_revoked AFTER UPDATE OF revoked_at ON passport WHEN OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL BEGIN
  INSERT INTO company_usage (company, agents, revocations) VALUES (NEW.company, 0, 1) ON CONFLICT (company) DO UPDATE SET revocations = revocations + 1;
END;
PRAGMA user_version = 8;`},

	8: {sql: `
CREATE TABLE idempotency_key (
  chain      INTEGER NOT NULL,
  name       BLOB NOT NULL CHECK (length(name) = 32),
  request    BLOB NOT NULL CHECK (length(request) = 32),
  idx        INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (chain, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook (
  id              INTEGER PRIMARY KEY,
  company         INTEGER NOT NULL REFERENCES company (id),
  webhook_id      TEXT NOT NULL UNIQUE,
  url             TEXT NOT NULL,
  agents          TEXT,
  actions         TEXT,
  description     TEXT,
  created_at      TEXT NOT NULL,
  made_by         TEXT,
  public_key      BLOB NOT NULL CHECK (length(public_key) = 32),
  fingerprint     TEXT NOT NULL,
  secret          BLOB NOT NULL,
  former_secret   BLOB,
  former_until    INTEGER,
  disabled_at     TEXT,
  disabled_reason TEXT,
  next_record     INTEGER NOT NULL,
  attempts        INTEGER NOT NULL DEFAULT 0,
  retry_at        INTEGER
) STRICT;
CREATE INDEX webhook_company ON webhook (company);
PRAGMA user_version = 9;`},

	// The server makes the summaries of existing records in the background.
	9: {sql: `
CREATE TABLE summary (
  id    INTEGER PRIMARY KEY,
  terms BLOB NOT NULL
) STRICT;
PRAGMA user_version = 10;`},
}

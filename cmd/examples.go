package cmd

import (
	"maps"

	"attestd/cmd/agent"
)

// examples show how each command is used, by its path without the name of the program.
var examples = func() map[string]string {
	all := maps.Clone(agent.Examples)
	maps.Copy(all, map[string]string{
		"": `
		serve
		init claude-code --write`,
		"accept-rollback": `accept-rollback --db attestd.db --reason "restored the backup of Monday"`,
		"accept-tables":   `accept-tables --company acme --reason "repaired by hand, ticket 42"`,
		"archive":         `archive --company acme --before 2026-01-01T00:00:00Z --out acme-2025.archive`,
		"backup": `
		backup monday.db
		backup --backup-to s3://backups/attestd --backup-keep 28`,
		"backup list":     `backup list --backup-to /backups`,
		"backup verify":   `backup verify --backup-to /backups`,
		"company":         `company list`,
		"company list":    `company list --json`,
		"company quota":   `company quota acme --max-records 1000000 --reason "contract of 2026"`,
		"company resume":  `company resume acme --reason "paid"`,
		"company show":    `company show acme`,
		"company suspend": `company suspend acme --reason "stolen admin key"`,
		"approve":         `approve`,
		"approve list":    `approve list --state approved --json`,
		"approve show":    `approve show apr_3q8lYpA3n2k0vX7sWd1uEo`,
		"company-log":     `company-log --db attestd.db`,
		"config":          `config --check --config attestd.toml`,
		"demo":            `demo --url http://127.0.0.1:8080`,
		"doctor":          `doctor --db attestd.db`,
		"export":          `export --to file --file actions.ndjson`,
		"health":          `health --ready --url http://127.0.0.1:8080`,
		"master-key":      `master-key new /etc/attestd/master.key`,
		"master-key new":  `master-key new /etc/attestd/master.key`,
		"migrate":         `migrate --db postgres://attestd@db.example.com/attestd`,
		"move":            `move attestd.db postgres://attestd@db.example.com/attestd`,
		"policy": `
		policy test no-force.cedar --since 7d
		policy put no-force.cedar`,
		"policy delete": `policy delete no-force`,
		"policy list":   `policy list`,
		"policy put":    `policy put no-force.cedar --description "no forced pushes"`,
		"policy show":   `policy show no-force`,
		"policy test": `
		policy test no-force.cedar --since 7d --agent claude-code
		policy test no-force.cedar --records actions.ndjson`,
		"person":        `person invite --company acme`,
		"person invite": `person invite --company acme --person alice --console https://attestd.example`,
		"recover-key":   `recover-key --company acme`,
		"rekey":         `rekey --db attestd.db --new-master-key-file /etc/attestd/master.key`,
		"report":        `report --key SHA256:… november.json`,
		"restore":       `restore monday.db --db attestd.db`,
		"rotate-key":    `rotate-key --company acme`,
		"serve": `
		serve
		serve --listen :443 --acme-domain attest.example.com --db /var/lib/attestd/attestd.db`,
		"verifier": `verifier`,
		"verify":   `verify --db attestd.db --heads attestd.db.heads`,
	})
	return all
}()

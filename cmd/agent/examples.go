package agent

// Examples show how the commands of an agent's machine are used, by their names.
var Examples = map[string]string{
	"agent-key": `
		agent-key enrol --token enr_…
		agent-key list --agent travel-bot`,
	"agent-key enrol":  `agent-key enrol --token enr_…`,
	"agent-key list":   `agent-key list --agent travel-bot`,
	"agent-key new":    `agent-key new --agent travel-bot`,
	"agent-key revoke": `agent-key revoke --agent travel-bot --reason "lost laptop" KslpcROgjD2B1sZ2iVgdilWqqMHj23_HRWY52dUZiT4`,
	"attest":           `attest --agent travel-bot --action flight.booked '{"flight":"LH 400"}'`,
	"check": `
		check --key SHA256:… evidence.json
		check --lines --company acme exported.ndjson`,
	"hook": `hook --from claude-code --agent claude-code --url http://127.0.0.1:8080`,
	"init": `
		init claude-code --write
		init mcp --settings .mcp.json --agent claude-code --write`,
	"init claude-code": `
		init claude-code --write
		init claude-code --fail closed --write
		init claude-code --check`,
	"init codex":  `init codex --write`,
	"init gemini": `init gemini --write`,
	"init mcp":    `init mcp --settings .mcp.json --agent claude-code --write`,
	"mcp": `
		mcp --agent claude --server files -- npx -y @modelcontextprotocol/server-filesystem /work
		mcp --agent claude --upstream https://mcp.example.com/mcp --sign-in`,
	"mcp-server": `mcp-server --url https://attest.example.com`,
	"open":       `open`,
	"records": `
		records --order newest --limit 3
		records --agent travel-bot --from 2026-11-23T00:00:00Z`,
	"run":  `run --agent builder --git -- make release`,
	"tail": `tail --agent travel-bot`,
	"spool": `
		spool list
		spool retry --all`,
	"spool list":  `spool list --json`,
	"spool retry": `spool retry --all`,
	"spool show":  `spool show 3fa9c1d2`,
	"token":       `token --agent travel-bot --audience https://api.example.com`,
	"trust": `
		trust add acme SHA256:…
		trust list`,
	"trust add":    `trust add acme SHA256:…`,
	"trust list":   `trust list --json`,
	"trust remove": `trust remove acme`,
	"version":      `version --build`,
}

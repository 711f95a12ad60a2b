package setup_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/agent/setup"
	"attestd/chain/action/hookevent"
)

// What the settings of each agent say of all hooks is found, in whichever file it is, as the agent
// obeys it: a file that takes precedence may have switched them on.
func TestHooksOff(t *testing.T) {
	const ownHook = "attestd hook --from gemini --agent x --url http://127.0.0.1:8080"
	for name, c := range map[string]struct {
		source hookevent.Source
		files  map[string]string // below the home folder; the project is its folder project
		want   string            // of the one sentence; "" for none
	}{
		"nothing":                 {hookevent.ClaudeCode, nil, ""},
		"other settings":          {hookevent.ClaudeCode, map[string]string{"project/.claude/settings.json": `{"model":"x"}`}, ""},
		"project":                 {hookevent.ClaudeCode, map[string]string{"project/.claude/settings.json": `{"disableAllHooks":true}`}, `"disableAllHooks": true`},
		"local":                   {hookevent.ClaudeCode, map[string]string{"project/.claude/settings.local.json": `{"disableAllHooks":true}`}, "settings.local.json has"},
		"user":                    {hookevent.ClaudeCode, map[string]string{".claude/settings.json": `{"disableAllHooks":true}`}, ".claude/settings.json has"},
		"user, on in the project": {hookevent.ClaudeCode, map[string]string{".claude/settings.json": `{"disableAllHooks":true}`, "project/.claude/settings.json": `{"disableAllHooks":false}`}, ""},
		"project, on for the user": {hookevent.ClaudeCode, map[string]string{".claude/settings.json": `{"disableAllHooks":false}`, "project/.claude/settings.json": `{"disableAllHooks":true}`},
			"settings.json has"},
		"both":            {hookevent.ClaudeCode, map[string]string{".claude/settings.json": `{"disableAllHooks":true}`, "project/.claude/settings.json": `{"disableAllHooks":true}`}, "settings.json has"},
		"in another":      {hookevent.ClaudeCode, map[string]string{"other.json": `{"disableAllHooks":true}`}, "other.json has"},
		"broken":          {hookevent.ClaudeCode, map[string]string{".claude/settings.json": `{"disableAllHooks":`}, "cannot be read"},
		"gemini":          {hookevent.Gemini, map[string]string{".gemini/settings.json": "{// \"hooks\"\n\"hooksConfig\": {/* no */ \"enabled\": false}}"}, `"enabled": false under hooksConfig`},
		"gemini, on":      {hookevent.Gemini, map[string]string{".gemini/settings.json": `{"hooksConfig":{"enabled":true}}`}, ""},
		"gemini, project": {hookevent.Gemini, map[string]string{"project/.gemini/settings.json": `{"hooksConfig":{"enabled":false}}`}, "under hooksConfig"},
		"gemini, ours":    {hookevent.Gemini, map[string]string{".gemini/settings.json": `{"hooksConfig":{"disabled":["other","` + ownHook + `"]}}`}, "hooksConfig.disabled"},
		"gemini, other":   {hookevent.Gemini, map[string]string{".gemini/settings.json": `{"hooksConfig":{"disabled":["other"]}}`}, ""},
		"codex":           {hookevent.Codex, map[string]string{".codex/config.toml": "model = \"x\"\n[features]\nhooks = false\n"}, "hooks = false under [features]"},
		"codex, older":    {hookevent.Codex, map[string]string{".codex/config.toml": "[features]\ncodex_hooks = false\n"}, "codex_hooks = false under [features]"},
		"codex, on":       {hookevent.Codex, map[string]string{".codex/config.toml": "features.hooks = true\n"}, ""},
		"codex, project":  {hookevent.Codex, map[string]string{"project/.codex/config.toml": "features.hooks = false\n"}, "hooks = false"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			for _, variable := range []string{"HOME", "USERPROFILE"} {
				t.Setenv(variable, home)
			}
			for _, variable := range []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_SYSTEM_SETTINGS_PATH"} {
				t.Setenv(variable, "")
			}
			if err := os.Mkdir(filepath.Join(home, "project"), 0o700); err != nil {
				t.Fatal(err)
			}
			for path, text := range c.files {
				path = filepath.Join(home, filepath.FromSlash(path))
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(filepath.Join(home, "project"))
			for _, kind := range setup.Kinds {
				if kind.Source != c.source {
					continue
				}
				got := kind.HooksOff(filepath.Join(home, "other.json"))
				if c.want == "" && len(got) != 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
					t.Errorf("%q, want %q", got, c.want)
				}
			}
		})
	}
}

// JSON without comments stays as it is, and what is left of any text has none.
func FuzzWithoutComments(f *testing.F) {
	f.Add([]byte(`{"a": "// \\" /* \" */, "b": /* */ 1} // end`))
	f.Add([]byte("{\n// a\n\"url\": \"http://x\"}"))
	f.Add([]byte(`"\`))
	f.Add([]byte(`/*/`))
	f.Fuzz(func(t *testing.T, text []byte) {
		bare := setup.WithoutComments(text)
		if json.Valid(text) && string(bare) != string(text) {
			t.Fatalf("%s became %s", text, bare)
		}
		if len(bare) > len(text) {
			t.Fatalf("%q became %q", text, bare)
		}
	})
}

package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"attestd/chain/action/hookevent"
	"attestd/internal/regular"
)

// maxSettings is the largest number of bytes read of a settings file of an agent.
const maxSettings = 4 << 20

// HooksOff finds in the agent's own settings what keeps it from running the hooks that are in the
// file settings: a switch for all hooks, or a list that has theirs. It returns a sentence for each.
// It reads the files that the agent reads when it starts in this folder, and not what its command
// line, its environment or a service of an organisation add.
func (k Kind) HooksOff(settings string) (why []string) {
	files, err := k.settingsFiles(settings)
	if err != nil {
		return []string{err.Error()}
	}
	on := false // a file that takes precedence has switched hooks on
	for _, file := range files {
		path := file.path
		text, err := readSettings(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var found switches
		if err == nil {
			found, err = k.switches(text)
		}
		if err != nil {
			why = append(why, fmt.Sprintf("%s cannot be read, so it is not known whether it switches hooks off: %v", path, err))
			continue
		}
		switch {
		case found.off != "" && !on:
			why = append(why, path+" has "+found.off+", so "+k.Title+" runs no hooks of these settings")
			on = true // it is reported once
		case found.on:
			on = true
		}
		if file.managed && found.managedOnly {
			why = append(why, path+" has allowManagedHooksOnly, so "+k.Title+" runs no hooks of these settings")
		}
		for _, name := range found.disabled {
			if attestdCommand().MatchString(name) {
				why = append(why, path+" has this hook among hooksConfig.disabled: "+name)
			}
		}
	}
	return why
}

// switches are what a settings file says about hooks.
type switches struct {
	off         string // the member that switches all off
	on          bool
	managedOnly bool
	disabled    []string
}

// switches reads a settings file.
func (k Kind) switches(text []byte) (found switches, err error) {
	set := func(on *bool, off string) {
		if on != nil && *on {
			found.on = true
		} else if on != nil {
			found.off = off
		}
	}
	not := func(b *bool) *bool {
		if b == nil {
			return nil
		}
		n := !*b
		return &n
	}
	switch k.Source {
	case hookevent.Codex:
		var config struct {
			Features struct {
				Hooks *bool `toml:"hooks"`
				Older *bool `toml:"codex_hooks"`
			} `toml:"features"`
		}
		err = toml.Unmarshal(text, &config)
		if set(config.Features.Hooks, "hooks = false under [features]"); config.Features.Hooks == nil {
			set(config.Features.Older, "codex_hooks = false under [features]")
		}
	case hookevent.Gemini:
		var config struct {
			HooksConfig struct {
				Enabled  *bool    `json:"enabled"`
				Disabled []string `json:"disabled"`
			} `json:"hooksConfig"`
		}
		err = json.Unmarshal(withoutComments(text), &config)
		set(config.HooksConfig.Enabled, `"enabled": false under hooksConfig`)
		found.disabled = config.HooksConfig.Disabled
	default:
		var config struct {
			Disable *bool `json:"disableAllHooks"`
			Managed bool  `json:"allowManagedHooksOnly"`
		}
		err = json.Unmarshal(text, &config)
		set(not(config.Disable), `"disableAllHooks": true`)
		found.managedOnly = config.Managed
	}
	return found, err
}

// readSettings reads a settings file; one that is empty has nothing.
func readSettings(path string) ([]byte, error) {
	f, err := regular.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err == nil && len(text) > maxSettings {
		err = fmt.Errorf("it has more than %d bytes", maxSettings)
	}
	if filepath.Ext(path) == ".json" && len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}")
	}
	return text, err
}

// ownFiles are the names of the agent's settings in a project, in order of precedence.
func (k Kind) ownFiles() []string {
	switch k.Source {
	case hookevent.ClaudeCode:
		return []string{"settings.local.json", "settings.json"}
	case hookevent.Codex:
		return []string{"config.toml"}
	}
	return []string{"settings.json"}
}

// settingsFile is a file of settings that the agent reads.
type settingsFile struct {
	path    string
	managed bool // it is the administrator's
}

// settingsFiles are the files that the agent reads when it starts in this folder, in order of
// precedence, and the one in question.
func (k Kind) settingsFiles(settings string) (files []settingsFile, err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, errors.New("no home folder, so it is not known whether the settings of " + k.Title + " there switch hooks off: set HOME")
	}
	add := func(path string, managed bool) {
		// started in the home folder, the agent has one file for both
		if !slices.ContainsFunc(files, func(f settingsFile) bool { return sameFile(f.path, path) }) {
			files = append(files, settingsFile{path, managed})
		}
	}
	user := filepath.Join(home, k.folder)
	if own := os.Getenv(k.folderVariable); k.folderVariable != "" && own != "" {
		user = own
	}
	if k.Source != hookevent.Codex { // whose system has the least precedence
		for _, path := range k.managedFiles() {
			add(path, true)
		}
	}
	for _, folder := range []string{k.folder, user} {
		for _, name := range k.ownFiles() {
			add(filepath.Join(folder, name), false)
		}
	}
	if k.Source == hookevent.Codex {
		for _, path := range k.managedFiles() {
			add(path, true)
		}
	} else {
		add(settings, false)
	}
	return files, nil
}

func sameFile(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	one, err := os.Stat(a)
	other, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(one, other)
}

// managedFiles are the files of the system's administrator.
func (k Kind) managedFiles() []string {
	var folder string
	switch k.Source {
	case hookevent.ClaudeCode:
		switch runtime.GOOS {
		case "darwin":
			folder = "/Library/Application Support/ClaudeCode"
		case "windows":
			folder = `C:\Program Files\ClaudeCode`
		default:
			folder = "/etc/claude-code"
		}
		more, _ := filepath.Glob(filepath.Join(folder, "managed-settings.d", "*.json"))
		slices.Reverse(more) // later names take precedence
		return append(more, filepath.Join(folder, "managed-settings.json"))
	case hookevent.Gemini:
		if path := os.Getenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH"); path != "" {
			return []string{path}
		}
		switch runtime.GOOS {
		case "darwin":
			folder = "/Library/Application Support/GeminiCli"
		case "windows":
			folder = `C:\ProgramData\gemini-cli`
		default:
			folder = "/etc/gemini-cli"
		}
		return []string{filepath.Join(folder, "settings.json")}
	}
	return []string{"/etc/codex/config.toml"}
}

// withoutComments returns JSON without the comments that Gemini CLI allows in its settings: from //
// to the end of a line, and between /* and */. What is in strings stays.
func withoutComments(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case text[i] == '"':
			end := i + 1
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
			out, i = append(out, text[i:end]...), end-1
		case bytes.HasPrefix(rest, []byte("//")):
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				return out
			}
			i += end - 1 // the line's end stays
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 {
				return out
			}
			out, i = append(out, ' '), i+end+3
		default:
			out = append(out, text[i])
		}
	}
	return out
}

package setup_test

import (
	"os"
	"path/filepath"
	"testing"

	"attestd/agent/setup"
	"attestd/chain/action/hookevent"
)

// Remove restores the settings before Merge, in order and spelling, for every agent and program.
func TestRemove(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{
		"others": "{\n  \"a\": 1.50,\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \"matcher\": \"*\",\n        \"hooks\": [\n          {\n            \"type\": \"command\",\n            \"command\": \"other hook --agent x\"\n          }\n        ]\n      }\n    ],\n    \"Stop\": [],\n    \"odd\": 7\n  },\n  \"b\": \"\\u0041\"\n}\n",
		"none":   "{\n  \"model\": \"x\"\n}\n",
		"empty":  "{}\n",
	} {
		for _, h := range []setup.Hooks{
			{Source: hookevent.ClaudeCode, URL: "http://127.0.0.1:8080", Agent: "a"},
			{Source: hookevent.ClaudeCode, URL: "http://127.0.0.1:8080/$(x)", Agent: "a", Command: "/opt/it's here/other name", FailClosed: true},
			{Source: hookevent.Gemini, URL: "http://127.0.0.1:8080", Agent: "a", Command: "attestd.exe", Redact: "input,output"},
			{Source: hookevent.Codex, URL: "http://127.0.0.1:8080", Agent: "a", Command: "/x/attestd-built", Passport: true},
		} {
			merged, err := h.Merge([]byte(before))
			if err != nil {
				t.Fatal(err)
			}
			after, found, err := setup.Remove(merged)
			if err != nil || !found || string(after) != before {
				t.Errorf("%s, %s: %v, %v\n%s\nwas\n%s", name, h.Source, found, err, after, before)
			}
			if again, found, err := setup.Remove(after); err != nil || found || string(again) != before {
				t.Errorf("%s: the second time %v, %v: %s", name, found, err, again)
			}
		}
	}
}

// A file with only our hooks is deleted. A link or a file that cannot be parsed is not.
func TestRemoveFromFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own := filepath.Join(dir, "folder", "settings.json")
	h := setup.Hooks{Source: hookevent.Codex, URL: "http://127.0.0.1:8080", Agent: "a", Command: "attestd"}
	if _, err := h.Write(own); err != nil {
		t.Fatal(err)
	}
	if found, err := setup.RemoveFrom(own); !found || err != nil {
		t.Fatal(found, err)
	}
	if _, err := os.Stat(filepath.Dir(own)); err == nil {
		t.Error("the folder is left")
	}
	if found, err := setup.RemoveFrom(own); found || err != nil {
		t.Error(found, err)
	}
	target, link := filepath.Join(dir, "target.json"), filepath.Join(dir, "link.json")
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(target, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Write(link); err != nil {
		t.Fatal(err)
	}
	if found, err := setup.RemoveFrom(link); !found || err != nil {
		t.Fatal(found, err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "{}\n" {
		t.Errorf("%s, %v", text, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link is gone")
	}
	for _, bad := range []string{"{", `{"hooks":{"PreToolUse":[7]}}`} {
		if err := os.WriteFile(target, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if found, err := setup.RemoveFrom(target); found || err == nil {
			t.Errorf("%s: %v, %v", bad, found, err)
		}
	}
}

// The environment file lists the settings that use it, with any path, and is parsed back as
// written.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	text := setup.Environment([2]string{"A", "it's $(x)"}, [2]string{"B", `"`})
	odd := "/a\nC=1\n#"
	with := setup.AddUser(setup.AddUser(setup.AddUser(text, odd), "/b"), odd)
	if got := setup.ParseEnvironment(with); len(got) != 2 || got["A"] != "it's $(x)" || got["B"] != `"` {
		t.Errorf("%q is read as %q", with, got)
	}
	rest, others := setup.RemoveUser(with, odd)
	if !others || setup.HasUser(rest, odd) || !setup.HasUser(rest, "/b") {
		t.Errorf("%q", rest)
	}
	if rest, others = setup.RemoveUser(rest, "/b"); others || rest != text {
		t.Errorf("%q", rest)
	}
}

// Versions are compared numerically. An unknown version is never sufficient.
func TestVersions(t *testing.T) {
	t.Parallel()
	for v, want := range map[setup.Version]bool{"2.1.330": true, "2.1.331": true, "2.10.0": true, "10.0.0": true, "2.1.197": false, "2.1.99": false, "1.9.999": false, "": false} {
		if v.AtLeast(setup.HTTPRefuses) != want {
			t.Errorf("%q: %v", v, !want)
		}
	}
}

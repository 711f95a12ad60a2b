package cmd

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	yaml "github.com/oasdiff/yaml3"
	"github.com/spf13/pflag"

	"attestd/cmd/cli"
	"attestd/internal/testenv"
	"attestd/web"
)

const packaging = "../packaging/"

func packaged(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(packaging + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// accepts fails the test unless the command line, without the program, is one of attestd.
func accepts(t *testing.T, where string, args []string) {
	t.Helper()
	if len(args) == 0 {
		t.Errorf("%s: no command", where)
		return
	}
	found, rest, err := Commands().Find(args)
	if err == nil && !found.HasParent() {
		err = errors.New("no such command")
	}
	if err == nil {
		err = found.ParseFlags(rest)
	}
	if err == nil {
		err = found.ValidateArgs(found.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: attestd %s: %v", where, strings.Join(args, " "), err)
	}
}

// isVariable reports whether serve or migrate reads an environment variable.
func isVariable(name string) (found bool) {
	for _, command := range []string{"serve", "migrate"} {
		cmd, _, _ := Commands().Find([]string{command})
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			found = found || slices.Contains(cli.EnvironmentNames(f.Name), name) && f.Annotations[cli.TypedOnly] == nil
		})
	}
	return found
}

// The service's command line and settings are those of this program, and only loopback is listened
// on.
func TestServiceIsOfThisProgram(t *testing.T) {
	t.Parallel()
	unit := packaged(t, "systemd/attestd.service")
	line := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/attestd (.*)$`).FindStringSubmatch(unit)
	if line == nil {
		t.Fatal("the unit does not start attestd")
	}
	accepts(t, "attestd.service", strings.Fields(line[1]))
	if strings.Contains(line[1], "--listen") {
		t.Error("the unit chooses an address")
	}
	if !strings.Contains(unit, "\nExecReload=/bin/kill -HUP $MAINPID\n") || !strings.Contains(line[1], "--config /etc/attestd/attestd.toml") {
		t.Error("a reload does not read the settings again")
	}
	settings := regexp.MustCompile(`(?m)^(#?)(ATTESTD_[A-Z_]+)=`).FindAllStringSubmatch(packaged(t, "systemd/attestd.default"), -1)
	if len(settings) < 3 {
		t.Errorf("settings %v", settings)
	}
	for _, s := range settings {
		if !isVariable(s[2]) {
			t.Errorf("attestd.default has %s, which nothing reads", s[2])
		}
		if s[1] != "#" {
			t.Errorf("attestd.default sets %s", s[2])
		}
	}
}

// The example of a configuration file sets nothing, and each setting in it is one of serve, which
// the unit leaves to it.
func TestExampleOfSettingsIsOfThisProgram(t *testing.T) {
	t.Parallel()
	text := packaged(t, "systemd/attestd.toml")
	if settings, err := parseConfig([]byte(text)); err != nil || len(settings) > 0 {
		t.Errorf("it sets %v, %v", settings, err)
	}
	example := regexp.MustCompile(`(?m)^#([a-z])`).ReplaceAllString(text, "$1")
	settings, err := parseConfig([]byte(example))
	if err != nil || len(settings) < 8 {
		t.Errorf("%d settings, %v", len(settings), err)
	}
	cmd, err := readServe(t, "--config", writeConfig(t, example))
	if err != nil {
		t.Fatal(err)
	}
	unit := packaged(t, "systemd/attestd.service")
	for _, s := range settings {
		if !cmd.Flag(s.name).Changed || strings.Contains(unit, "--"+s.name+" ") {
			t.Errorf("the unit sets %s, too", s.name)
		}
	}
}

// What systemd-analyze calls exposure is at most 1.5 of 10.
func TestServiceIsHardened(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, testenv.Program("systemd-analyze"), testenv.Plain, testenv.NotRaced)
	path, err := filepath.Abs(packaging + "systemd/attestd.service")
	if err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", path)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The image runs without root and without a shell: its commands are this program's alone.
func TestImageIsOfThisProgram(t *testing.T) {
	t.Parallel()
	text := packaged(t, "docker/Dockerfile")
	for _, line := range []string{"FROM scratch", "USER 65532:65532", "VOLUME /data", `ENTRYPOINT ["/attestd"]`} {
		if !slices.Contains(strings.Split(text, "\n"), line) {
			t.Errorf("the Dockerfile lacks %s", line)
		}
	}
	lines := regexp.MustCompile(`(?m)^(?:HEALTHCHECK .*)?CMD (\[.*\])$`).FindAllStringSubmatch(text, -1)
	if len(lines) != 2 {
		t.Fatalf("the commands are %v", lines)
	}
	for _, line := range lines {
		var args []string
		if err := json.Unmarshal([]byte(line[1]), &args); err != nil {
			t.Fatal(err)
		}
		if len(args) > 0 && args[0] == "/attestd" {
			args = args[1:]
		}
		accepts(t, "Dockerfile", args)
	}
}

// manifest has what the test reads of a manifest.
type manifest struct {
	Kind string
	Spec struct {
		Replicas int
		Template struct {
			Spec struct {
				EnableServiceLinks *bool `yaml:"enableServiceLinks"`
				SecurityContext    struct {
					RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
					SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
				} `yaml:"securityContext"`
				Containers []container
			}
		}
	}
}

type container struct {
	Args []string
	Env  []struct{ Name string }

	StartupProbe   *probe `yaml:"startupProbe"`
	LivenessProbe  *probe `yaml:"livenessProbe"`
	ReadinessProbe *probe `yaml:"readinessProbe"`

	SecurityContext struct {
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop []string }
	} `yaml:"securityContext"`
}

type probe struct {
	HTTPGet struct{ Path string } `yaml:"httpGet"`
}

// Each container of the manifests for Kubernetes runs a command line of this program, without root
// and without a right to write outside of its volume, and is asked at paths that exist.
func TestManifestsAreOfThisProgram(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(packaging + "kubernetes/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	kinds := map[string]int{}
	for _, path := range files {
		text := packaged(t, "kubernetes/"+filepath.Base(path))
		for documents := yaml.NewDecoder(strings.NewReader(text)); ; {
			var m manifest
			if err := documents.Decode(&m); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(path, err)
			}
			kinds[m.Kind]++
			where := filepath.Base(path) + ", " + m.Kind
			pod := m.Spec.Template.Spec
			if m.Kind == "StatefulSet" && m.Spec.Replicas != 1 {
				t.Errorf("%s: %d servers of one file", where, m.Spec.Replicas)
			}
			if len(pod.Containers) > 0 && (!pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" ||
				pod.EnableServiceLinks == nil || *pod.EnableServiceLinks) {
				t.Errorf("%s: the pod may do too much: %+v", where, pod.SecurityContext)
			}
			for _, c := range pod.Containers {
				checkContainer(t, where, m.Kind, c)
			}
		}
	}
	for kind, n := range map[string]int{"StatefulSet": 1, "Deployment": 1, "Job": 1, "PodDisruptionBudget": 1, "Service": 2} {
		if kinds[kind] != n {
			t.Errorf("there are %d of %s", kinds[kind], kind)
		}
	}
}

func checkContainer(t *testing.T, where, kind string, c container) {
	t.Helper()
	accepts(t, where, c.Args)
	for _, variable := range c.Env {
		if variable.Name != "CREDENTIALS_DIRECTORY" && !isVariable(variable.Name) {
			t.Errorf("%s: nothing reads %s", where, variable.Name)
		}
	}
	s := c.SecurityContext
	if !s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("%s: the container may do too much: %+v", where, s)
	}
	if kind == "Job" {
		return
	}
	for name, p := range map[string]*probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		if p == nil || !strings.Contains(string(web.OpenAPI()), `"`+p.HTTPGet.Path+`":`) || (name == "readiness") != (p.HTTPGet.Path == "/readyz") {
			t.Errorf("%s: the %s probe is %+v", where, name, p)
		}
	}
}

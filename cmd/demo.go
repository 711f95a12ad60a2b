package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"attestd/chain"
	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
	"attestd/web"
)

const demoTimeout = 30 * time.Second

func demoCommand() *cobra.Command {
	var company string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Register a company with a day's work of four agents, to look around in",
		Long: `Register a company on a server and fill it: four agents that open a ticket, write code, review it and
deploy it, with a delegation, passports, and calls that failed or were denied. The command prints
the company's API key and the fingerprint of its signing key, with which the console can be opened.
The server is that of --url, ATTESTD_URL, or ` + cli.DefaultURL + `. It must allow to register a company.
No record is ever deleted, so choose a server that you can throw away.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := demo{base: strings.TrimSuffix(cmd.Flag("url").Value.String(), "/"), kept: map[string]string{"company": company}}
			if d.base == "" {
				d.base = cli.DefaultURL
			}
			if _, err := attestd.New(attestd.Config{URL: d.base}); err != nil {
				return cli.UsageError{Err: err}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), demoTimeout)
			defer cancel()
			if err := d.run(ctx, cmd.ErrOrStderr()); err != nil {
				return err
			}
			if asJSON {
				return printable.JSON(cmd.OutOrStdout(), map[string]string{"companyId": company, "apiKey": d.kept["key"], "fingerprint": d.kept["fingerprint"], "console": d.base + "/"})
			}
			printable.Fprintf(cmd.OutOrStdout(), "console      %s/\nAPI key      %s\nfingerprint  %s\n", d.base, d.kept["key"], d.kept["fingerprint"])
			return nil
		},
	}
	cli.URLFlag(cmd)
	cmd.Flags().StringVar(&company, "company", "demo", "`ID` of the company to register")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object with companyId, apiKey, fingerprint and console")
	return cmd
}

// demo plays the script of the demonstration (web.Demo) on a server.
type demo struct {
	base string
	kept map[string]string // values of earlier answers, by the names that the script has for them
}

// demoStep is a step of the script. In its call and in its body, {name} is a value that was kept.
type demoStep struct {
	Does string          `json:"does"`
	Call string          `json:"call"` // method and path
	Body json.RawMessage `json:"body"`
	Keep [][2]string     `json:"keep"` // names, and the members of the answer that they keep
}

// run registers the company and plays the script. It names each step on a terminal.
func (d *demo) run(ctx context.Context, progress io.Writer) error {
	var script []demoStep
	if err := json.Unmarshal(web.Demo(), &script); err != nil {
		return err
	}
	id, err := json.Marshal(map[string]string{"companyId": d.kept["company"]})
	if err != nil {
		return err
	}
	d.kept["inAWeek"] = chain.FormatTime(time.Now().Add(7 * 24 * time.Hour))
	begin := []demoStep{
		{Does: "registers the company", Call: "POST /v1/companies", Body: id, Keep: [][2]string{{"key", "apiKey"}}},
		{Does: "reads the fingerprint of its key", Call: "GET /v1/ca/public-key?companyId=" + url.QueryEscape(d.kept["company"]), Keep: [][2]string{{"fingerprint", "fingerprint"}}},
	}
	shows := term.IsTerminal(int(os.Stderr.Fd()))
	for _, step := range append(begin, script...) {
		if shows {
			printable.Fprintf(progress, "· %s\n", step.Does)
		}
		if err := d.play(ctx, step); err != nil {
			return fmt.Errorf("the step that %s: %w", step.Does, err)
		}
	}
	return nil
}

func (d *demo) play(ctx context.Context, step demoStep) error {
	method, path, _ := strings.Cut(d.filled(step.Call), " ")
	request, err := http.NewRequestWithContext(ctx, method, d.base+path, strings.NewReader(d.filled(string(step.Body))))
	if err != nil {
		return err
	}
	if d.kept["key"] != "" {
		request.Header.Set("Authorization", "Bearer "+d.kept["key"])
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return fmt.Errorf("status %d, and an answer that is no object of JSON: is this an attestd server?", answer.StatusCode)
	}
	if answer.StatusCode >= 300 {
		var why string
		_ = json.Unmarshal(members["error"], &why)
		if answer.StatusCode == http.StatusConflict {
			return errors.New(why + "; choose another name with --company")
		}
		return fmt.Errorf("status %d: %s", answer.StatusCode, why)
	}
	for _, keep := range step.Keep {
		name, member := keep[0], keep[1]
		var value string
		if err := json.Unmarshal(members[member], &value); err != nil || bytes.ContainsAny([]byte(value), "\"\\\n{}") {
			return fmt.Errorf("the answer has no %s", member)
		}
		d.kept[name] = value
	}
	return nil
}

// filled returns a text with the kept values in place of their names.
func (d *demo) filled(text string) string {
	for name, value := range d.kept {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// Package check has the command that verifies files offline: evidence, sessions, archives and
// exported lines.
package check

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/chain/evidence"
	"attestd/chain/filekind"
	"attestd/chain/lines"
	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/cmd/cli"
	"attestd/crypto/jose"
	"attestd/internal/printable"
)

// MaxPolicyFile is the largest number of bytes read from a policy. The parser refuses longer ones.
const MaxPolicyFile = 2 << 20

// Command returns the command. d makes decisions again; nil where policies cannot be evaluated.
func Command(d evidence.Decider) *cobra.Command {
	var key, policy, newer, agentKey string
	var approverKeys []string
	var asJSON bool
	var exported linesFlags
	cmd := &cobra.Command{
		Use:   "check FILE…",
		Short: "Check evidence, the file of a session, an archive, or exported lines, offline",
		Long: `Check a file from GET /v1/evidence or from GET /v1/sessions/{agentId}/{sid}, without a server and
without a database. Prints the verdict; then who did what, on whose behalf and under which right;
then one line for each check that passed, and what no such file can prove. The file of a session
without statements is a report; attestd report prints its contents.

Nothing in the file is trusted by itself. Name the signer with the fingerprint of any key of
the company (--key) or with a policy (--policy, c2sp.org/tlog-policy) that you got elsewhere.
Without both, the key counts that "attestd trust add" has stored for the file's company.
The verdict is "holds" with exit status 0, or "fails" with 4. Without a trusted key it is
"holds, key not confirmed" with 5: anyone can make such a file.

A record that the agent has signed names the agent's key. The holder of the company's key can enrol
such a key, so name one that you know from the agent itself (--agent-key): then the file fails
unless that key signed, or one that follows from it. The file of a session also says whether the
session is complete, open, or which of its records are missing, how many the service refused, which
of those it recorded all the same, and from which session it goes on. A revocation may say since
when the key was in other hands, and a delegation may have been given to another agent. None of this
changes the exit status.

A record that was allowed with an approval has what people signed with their passkeys. The holder of
the company's key can enrol a passkey for anybody, so name those that you know from the people
themselves (--approver-key, once for each): then the file fails unless all who approved signed with
one of them.

A record that policies decided is decided again, with the policies in the file. Another result fails.
What is not decided again, because the file has no policies or a passport decided, is named.

With --newer, also proves that the log's newer checkpoint extends one in the file, so that no
earlier record was changed or removed since: in evidence, in the file of a session, in a report
(the checkpoint at its end), and in an archive (the one of its moment, or of when it was made).

An archive that attestd archive has written is checked to its end in constant memory: its records
are the first of both logs, each is there and unchanged, and the company has signed a tree that
continues them. Compare the SHA-256 that is printed with the one that was printed then.

With --lines, checks files of lines that attestd export or attestd serve --export-to has written, in
the order in which they were written: NDJSON, OCSF, or what a syslog receiver stored. A record that
was deleted, changed, moved or added fails. What no checkpoint covers yet, or what stood before the
first file, is named as not proven. The exit status is the same.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if exported.isSet {
				return cobra.MinimumNArgs(1)(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := HasValues(cmd); err != nil {
				return err
			}
			trust, err := ReadTrust(key, policy)
			if err == nil && agentKey != "" && !jose.IsThumbprint(agentKey) {
				err = cli.Usagef("--agent-key must be the thumbprint of a key: 43 characters of base64url (RFC 7638)")
			}
			for _, key := range approverKeys {
				if err == nil {
					err = cli.CheckFingerprint("--approver-key", key)
				}
			}
			if err != nil {
				return err
			}
			if exported.isSet {
				if newer != "" || agentKey != "" || approverKeys != nil {
					return cli.Usagef("--newer, --agent-key and --approver-key are not for --lines")
				}
				return exported.check(cmd.OutOrStdout(), args, trust, asJSON)
			}
			if exported.company != "" {
				return cli.Usagef("--company is for --lines")
			}
			trust.Decider = d
			if approverKeys != nil {
				trust.Approvers = evidence.NewApprovers(approverKeys...)
			}
			if trust.AgentKey = agentKey; newer != "" {
				if trust.Newer, err = readNewer(newer); err != nil {
					return err
				}
			}
			debug.SetMemoryLimit(2 * evidence.MaxSize) // limits garbage when the file is large
			f, err := cli.OpenNamed(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			watched := &watchedReader{File: f}
			src := evidence.Reader(watched)
			if lines.IsArchive(src) {
				if agentKey != "" || approverKeys != nil {
					return cli.Usagef("--agent-key and --approver-key are not for archives, and %s is one", args[0])
				}
				return checkArchive(cmd.OutOrStdout(), watched, src, trust, asJSON)
			}
			if err := MustBe(args[0], src, filekind.Evidence, filekind.Session, filekind.Report); err != nil {
				return err
			}
			v, err := checkFile(f, src, trust)
			if err != nil {
				return err
			}
			if asJSON {
				// a closed pipe shows in the exit status of the process that closed it
				_ = printable.JSON(cmd.OutOrStdout(), v)
			} else {
				PrintEvidence(cmd.OutOrStdout(), v)
			}
			return Outcome(args[0], v)
		},
	}
	TrustFlags(cmd, &key, &policy)
	cmd.Flags().StringVar(&agentKey, "agent-key", "", "`thumbprint` of a key of the agent, which you know from the agent itself")
	_ = cmd.Flags().SetAnnotation("agent-key", cli.TypedOnly, []string{"true"})
	cmd.Flags().StringArrayVar(&approverKeys, "approver-key", nil, "`fingerprint` (SHA256:…) of a passkey, which you know from the person who approves; may be repeated")
	_ = cmd.Flags().SetAnnotation("approver-key", cli.TypedOnly, []string{"true"})
	cmd.Flags().StringVar(&newer, "newer", "",
		"`file` with the response of GET /v1/log/{logId}/consistency, from the size of a checkpoint in FILE")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the verdict as one JSON object")
	exported.add(cmd)
	return cmd
}

// TrustFlags adds the flags that say what is trusted.
func TrustFlags(cmd *cobra.Command, key, policy *string) {
	cmd.Flags().StringVar(key, "key", "", "`fingerprint` (SHA256:…) of a key of the company, preferably the newest that you know")
	cmd.Flags().StringVar(policy, "policy", "", "`file` with the logs and witnesses that you trust")
	for _, name := range []string{"key", "policy"} {
		_ = cmd.Flags().SetAnnotation(name, cli.TypedOnly, []string{"true"}) // the flag is there
	}
}

// checkFile checks a file of one record, or one of a session, which is as long as it may be.
// src reads f.
func checkFile(f *os.File, src *bufio.Reader, trust evidence.Trust) (v evidence.Verdict, err error) {
	if evidence.IsSession(src) {
		return evidence.CheckSession(src, trust), nil
	}
	if evidence.IsReport(src) { // of a session without statements
		if trust.AgentKey != "" {
			return v, cli.Usagef("--agent-key is for evidence of single records and of signed sessions, and %s is a report", f.Name())
		}
		if trust.Approvers != nil {
			return v, cli.Usagef("--approver-key is for evidence of single records and of signed sessions, and %s is a report", f.Name())
		}
		return evidence.CheckReport(src, trust, func(*evidence.Report) {}, func(*evidence.Event) {}), nil
	}
	text, err := cli.BoundedText(f, src, evidence.MaxSize)
	if err != nil {
		return v, err
	}
	return evidence.Check(text, trust), nil
}

// MustBe returns an error that says who checks a file of another kind than these. It reads nothing
// from src.
func MustBe(path string, src *bufio.Reader, kinds ...filekind.Kind) error {
	kind := filekind.Of(src)
	if kind == filekind.Unknown || slices.Contains(kinds, kind) {
		return nil
	}
	return cli.Usagef("%s is %s", path, kind.Is())
}

// readNewer reads a newer checkpoint with its proof.
func readNewer(path string) (*evidence.Newer, error) {
	answer, err := cli.ReadBounded(path, witness.MaxRequest)
	if err != nil {
		return nil, err
	}
	update, err := witness.ParseRequest(answer)
	if err != nil {
		return nil, cli.Usagef("--newer: %s is not a response of GET /v1/log/{logId}/consistency", path)
	}
	return &evidence.Newer{From: update.Old, Proof: update.Proof, Checkpoint: update.Checkpoint}, nil
}

// Outcome returns the error for a verdict other than that the file holds, and nil otherwise.
func Outcome(file string, v evidence.Verdict) error {
	switch v.Outcome {
	case evidence.Fails:
		return cli.ExitError{Status: cli.ExitInvalid, Err: fmt.Errorf("%s fails: %s: %s", file, v.Code, v.Reason)}
	case evidence.SelfConsistent:
		return cli.ExitError{Status: cli.ExitRefused, Err: fmt.Errorf("%s holds, key not confirmed: set --key or --policy", file)}
	}
	return nil
}

// ReadTrust reads the trusted key or policy. Both may be absent: then the key counts that "attestd
// trust" has stored for the file's company, if there is one.
func ReadTrust(key, policy string) (t evidence.Trust, err error) {
	switch {
	case key != "" && policy != "":
		return t, cli.Usagef("--key and --policy exclude each other")
	case key != "":
		if err := cli.CheckFingerprint("--key", key); err != nil {
			return t, err
		}
	case policy != "":
		text, err := cli.ReadBounded(policy, MaxPolicyFile)
		if err == nil && !utf8.Valid(text) { // the other checkers decode policies as text
			err = errors.New("not UTF-8")
		}
		if err == nil {
			t.Policy, err = tlog.ParsePolicy(text)
		}
		if err != nil {
			return t, cli.Usagef("--policy: %s: %v", policy, err)
		}
	}
	t.Fingerprint = key
	if key != "" || policy != "" {
		return t, nil
	}
	known, err := cli.ReadTrustedKeys()
	t.Known = known
	return t, err
}

// PrintEvidence prints what a verdict says of evidence.
func PrintEvidence(out io.Writer, v evidence.Verdict) {
	printFindings(out, v.Words(), v.Summary, v.Checked, v.NotProven)
}

// printFindings prints the verdict first, because that is what most people read.
func printFindings(out io.Writer, verdict string, summary []evidence.Line, checked, notProven []string) {
	printable.Fprintf(out, "%s\n", verdict)
	for _, line := range summary {
		printable.Fprintf(out, "%s: %s\n", line.Name, line.Text)
	}
	for _, line := range checked {
		printable.Fprintf(out, "checked: %s\n", line)
	}
	for _, line := range notProven {
		printable.Fprintf(out, "not proven: %s\n", line)
	}
}

// HasValues returns an error for a flag of text that was given without one, as --key= is. Such a
// flag would count as not given, and the file would be checked against nothing.
func HasValues(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && err == nil {
			err = cli.Usagef("--%s needs a value", f.Name)
		}
	})
	return err
}

// checkArchive checks an archive, which src reads from f.
func checkArchive(out io.Writer, f *watchedReader, src io.Reader, trust evidence.Trust, asJSON bool) error {
	about, err := f.Stat()
	if err != nil {
		return err
	}
	report, finish := cli.Progress()
	if report != nil && about.Mode().IsRegular() { // a pipe has no length
		f.report = func(done int64) { report("check", done, about.Size()) }
	}
	v, err := lines.CheckArchive(src, lines.Options{Trust: trust})
	finish()
	if err != nil {
		return err
	}
	return printLines(out, f.Name(), v, asJSON)
}

// printLines prints the verdict on lines, and returns the error for it.
func printLines(out io.Writer, path string, v lines.Verdict, asJSON bool) error {
	if asJSON {
		_ = printable.JSON(out, v) // a closed pipe is reported by the process that closed it
	} else {
		printFindings(out, evidence.Words(v.Outcome, v.Code, v.Reason), v.Summary, v.Checked, v.NotProven)
	}
	return Outcome(path, evidence.Verdict{Outcome: v.Outcome, Code: v.Code, Reason: v.Reason})
}

// watchedReader reports how far a file was read.
type watchedReader struct {
	*os.File
	done   int64
	report func(done int64) // may be nil
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.File.Read(p)
	if r.done += int64(n); r.report != nil {
		r.report(r.done)
	}
	return n, err
}

// linesFlags are the flags of `attestd check --lines`.
type linesFlags struct {
	isSet   bool
	company string
}

func (f *linesFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.isSet, "lines", false, "the files have exported lines")
	cmd.Flags().StringVar(&f.company, "company", "", "`ID` of the company whose lines are checked, when there are several (with --lines)")
}

// check checks files of exported lines, in their order.
func (f linesFlags) check(out io.Writer, paths []string, trust evidence.Trust, asJSON bool) error {
	var files []lines.File
	for _, path := range paths {
		// before it is opened, which would wait for who writes into a pipe
		if about, err := os.Stat(path); err == nil && !about.Mode().IsRegular() {
			return cli.Usagef("%s is no regular file: --lines reads a file twice", path)
		}
		opened, err := cli.OpenNamed(path)
		if err != nil {
			return err
		}
		defer opened.Close()
		if err := MustBe(path, evidence.Reader(opened), filekind.Lines); err != nil {
			return err
		}
		if _, err := opened.Seek(0, io.SeekStart); err != nil {
			return err
		}
		files = append(files, lines.File{Name: path, ReadSeeker: opened})
	}
	v, err := lines.Check(files, lines.Options{Trust: trust, CompanyID: f.company})
	if errors.Is(err, lines.ErrCompanies) {
		return cli.Usagef("%v: name one with --company", err)
	}
	if err != nil {
		return err
	}
	return printLines(out, strings.Join(paths, " "), v, asJSON)
}

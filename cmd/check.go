package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"runtime/debug"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/chain/witness"
	"attestd/crypto/strictjson"
	"attestd/internal/printable"
	"attestd/store"
)

// exitError is an error with an exit status of its own.
type exitError struct {
	status int
	error
}

func (e exitError) Unwrap() error { return e.error }

var fingerprintForm = regexp.MustCompile(`^SHA256:[A-Za-z0-9_-]{43}$`)

func checkCommand() *cobra.Command {
	var key, policy, newer string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check an evidence file, offline",
		Long: `Check a file of GET /v1/evidence, without a server and without a database. Prints a line for each thing that was checked, the verdict, and
what no such file proves. Nothing in the file is trusted: say whose it should be, by the fingerprint of any key of the company, or by a policy
(c2sp.org/tlog-policy), got from elsewhere. Exit status 0 when it holds, 4 when it does not, and 5 when nothing was given to trust and
it is self-consistent only: anyone can make such a file.

With --newer it also holds the checkpoint in the file against one of today: nothing of the history before it was changed since.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			trust, err := readTrust(key, policy)
			if err != nil {
				return err
			}
			debug.SetMemoryLimit(2 * evidence.MaxSize) // beside a large file little garbage is kept
			text, err := readBounded(args[0], evidence.MaxSize)
			if err != nil {
				return err
			}
			v, err := checkEvidence(text, newer, trust)
			if err != nil {
				return err
			}
			if reader := readerOf(text); v.Code == evidence.Malformed && reader != "" {
				return fmt.Errorf("%s is older evidence, that %s", args[0], reader)
			}
			if asJSON {
				// a closed pipe shows in the exit status of whoever closed it
				_ = printable.JSON(cmd.OutOrStdout(), v)
			} else {
				printEvidence(cmd.OutOrStdout(), v)
			}
			return outcome(args[0], v)
		},
	}
	trustFlags(cmd, &key, &policy)
	cmd.Flags().StringVar(&newer, "newer", "", "`file` with the answer of GET /v1/log/{logId}/consistency, from the size of the checkpoint in FILE")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the verdict as one JSON object")
	return cmd
}

func trustFlags(cmd *cobra.Command, key, policy *string) {
	cmd.Flags().StringVar(key, "key", "", "`fingerprint` (SHA256:…) of a key of the company, best the newest that you know")
	cmd.Flags().StringVar(policy, "policy", "", "`file` with the logs and witnesses that you trust")
	for _, name := range []string{"key", "policy"} {
		_ = cmd.Flags().SetAnnotation(name, typedOnly, []string{"true"}) // the flag is there
	}
}

// checkEvidence checks a file, alone or against a newer checkpoint.
func checkEvidence(text []byte, newer string, trust evidence.Trust) (v evidence.Verdict, err error) {
	if newer == "" {
		return evidence.Check(text, trust), nil
	}
	answer, err := readBounded(newer, witness.MaxRequest)
	if err != nil {
		return v, err
	}
	update, err := witness.ParseRequest(answer)
	if err != nil {
		return v, usagef("--newer: %s is not an answer of GET /v1/log/{logId}/consistency", newer)
	}
	return evidence.CheckNewer(text, evidence.Newer{From: update.Old, Proof: update.Proof, Checkpoint: update.Checkpoint}, trust), nil
}

// outcome is the error of a verdict about a file that does not hold.
func outcome(file string, v evidence.Verdict) error {
	switch v.Outcome {
	case evidence.Fails:
		return exitError{exitInvalid, fmt.Errorf("%s: %s: %s", file, v.Code, v.Reason)}
	case evidence.SelfConsistent:
		return exitError{exitRefused, fmt.Errorf("%s is self-consistent only: give --key or --policy", file)}
	}
	return nil
}

// readTrust reads what is trusted, which may be nothing.
func readTrust(key, policy string) (t evidence.Trust, err error) {
	switch {
	case key != "" && policy != "":
		return t, usagef("--key and --policy exclude each other")
	case key != "" && !fingerprintForm.MatchString(key):
		return t, usagef("--key must be a fingerprint, SHA256: and 43 characters")
	case policy != "":
		text, err := readBounded(policy, maxPolicyFile)
		if err == nil && !utf8.Valid(text) { // the other checkers have it as text
			err = errors.New("it is not UTF-8")
		}
		if err == nil {
			t.Policy, err = tlog.ParsePolicy(text)
		}
		if err != nil {
			return t, usagef("--policy: %s: %v", policy, err)
		}
	}
	t.Fingerprint = key
	return t, nil
}

// openNamed opens a file that the command line names: store.ErrNotFound where there is none.
func openNamed(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", path, store.ErrNotFound)
	}
	return f, err
}

// readBounded reads a file, and of a longer one so much that its reader sees that it is.
func readBounded(path string, most int64) ([]byte, error) {
	f, err := openNamed(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	about, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// of a pipe, whose size is 0, it grows
	text := bytes.NewBuffer(make([]byte, 0, min(about.Size(), most+1)+bytes.MinRead))
	_, err = text.ReadFrom(io.LimitReader(f, most+1))
	return text.Bytes(), err
}

// maxOlderDepth is how deep evidence of before may nest: a payload, and what is around it.
const maxOlderDepth = 160

// readerOf says what reads evidence of the forms of before, or "": they hold no key whose
// fingerprint could be compared, or no checkpoint.
func readerOf(text []byte) string {
	if evidence.Bounded(text) != nil {
		return ""
	}
	members := make(map[string]string)
	err := strictjson.EachMember(text, maxOlderDepth, func(name, value []byte) {
		switch string(name) {
		case "type", "format", "record", "root":
			members[string(name)] = string(value[:min(len(value), 64)])
		}
	})
	_, current := members["format"]
	_, record := members["record"]
	_, root := members["root"]
	switch {
	case err != nil || current:
		return ""
	case members["type"] == `"attestd-evidence"`:
		return "the console reads, on its page Proof"
	case record && root:
		return "check.py and check.mjs of the README read, with the company's keys beside it"
	}
	return ""
}

func printEvidence(out io.Writer, v evidence.Verdict) {
	for _, line := range v.Checked {
		printable.Fprintf(out, "checked: %s\n", line)
	}
	switch v.Outcome {
	case evidence.Fails:
		printable.Fprintf(out, "FAILS: %s: %s\n", v.Code, v.Reason)
	case evidence.SelfConsistent:
		printable.Fprintf(out, "self-consistent only: %s\n", v.Reason)
	default:
		printable.Fprintf(out, "holds\n")
	}
	for _, line := range v.NotProven {
		printable.Fprintf(out, "not proven: %s\n", line)
	}
}

package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
	"attestd/sdk/attestd/private"
	"attestd/sdk/attestd/spool"
)

// stateFolderOf returns the folder given by --state, or else the folder of the server and the
// credential.
func stateFolderOf(config attestd.Config, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	return stateFolder(config)
}

// stateFolder returns the folder for the state of one server and one credential. Unsent records in
// it MUST NOT be sent to another server or with another credential.
func stateFolder(config attestd.Config) (string, error) {
	state, err := userStateFolder()
	if err != nil {
		return "", err
	}
	key, _ := config.Credential.(attestd.Key)
	sum := sha256.Sum256([]byte(config.URL + "\n" + string(key)))
	return filepath.Join(state, "attestd", hex.EncodeToString(sum[:8])), nil
}

// userStateFolder returns the folder in which the user's programs store state that is no setting.
func userStateFolder() (string, error) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return os.UserConfigDir()
	}
	if folder := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(folder) {
		return folder, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", errors.New("no folder for unsent records: set --state, XDG_STATE_HOME or HOME")
	}
	return filepath.Join(home, ".local", "state"), nil
}

// spoolFlags are the flags of `attestd spool`.
type spoolFlags struct {
	state     string
	json, all bool
}

func spoolCommand() *cobra.Command {
	var f spoolFlags
	cmd := &cobra.Command{
		Use:   "spool",
		Short: "Show unsent records on this machine, and retry those that were refused",
		Long: `Show what waits to be sent on this machine, and what the service has refused, which is set apart.
The folders are those of this user's hooks, runs and MCP proxies. --state names another one, such
as that of a program with the Go, TypeScript or Python client.

The commands ask no server. Delegations and idempotency keys are not printed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "List what waits and what was set apart, with the reason",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return f.list(cmd) },
	}
	show := &cobra.Command{
		Use:   "show ID",
		Short: "Show one item with its payload, as JSON",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return f.show(cmd, args[0]) },
	}
	retry := &cobra.Command{
		Use:   "retry [ID…]",
		Short: "Put items that were set apart back, to be sent again",
		Long: `Put items that were set apart back among those that wait. The next hook, run, proxy or flush of the
program sends them, each under the idempotency key that it had, so that none is recorded twice.

An item of a signed session is named and stays: its place is refused for good, and later
statements of the session may say so. Attest that action again. The exit status is then 5.`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.retry(cmd, args) },
	}
	list.Flags().BoolVar(&f.json, "json", false, "print JSON lines, without payloads")
	retry.Flags().BoolVar(&f.all, "all", false, "retry all that was set apart")
	_ = retry.Flags().SetAnnotation("all", cli.TypedOnly, []string{"true"}) // the flag is there
	_ = list.Flags().SetAnnotation("json", cli.TypedOnly, []string{"true"}) // the flag is there
	for _, sub := range []*cobra.Command{list, show, retry} {
		sub.Flags().StringVar(&f.state, "state", "", "`folder` of unsent records (default: all in the user's state folder)")
		cmd.AddCommand(sub)
	}
	return cmd
}

// folders returns the spools that are meant.
func (f *spoolFlags) folders() ([]string, error) {
	if f.state != "" {
		for _, folder := range []string{filepath.Join(f.state, "spool"), f.state} {
			if info, err := os.Stat(folder); err == nil && info.IsDir() {
				return []string{folder}, nil
			}
		}
		return nil, cli.ExitError{Status: cli.ExitNotFound, Err: fmt.Errorf("%s: %w", f.state, fs.ErrNotExist)}
	}
	state, err := userStateFolder()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(state, "attestd"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var folders []string
	for _, e := range entries {
		folder := filepath.Join(state, "attestd", e.Name(), "spool")
		if _, err := os.Stat(folder); err == nil {
			folders = append(folders, folder)
		}
	}
	return folders, nil
}

// each calls do for the spools that are meant. A folder that another user may change is an error.
func (f *spoolFlags) each(do func(folder string) error) error {
	folders, err := f.folders()
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if err := private.Check(folder); err != nil {
			return cli.ExitError{Status: cli.ExitRefused, Err: err}
		}
		switch err := do(folder); {
		case errors.Is(err, spool.ErrNoSpool) && f.state == "": // it has had no record yet
		case errors.Is(err, spool.ErrNoSpool):
			return cli.ExitError{Status: cli.ExitNotFound, Err: err}
		case err != nil:
			return err
		}
	}
	return nil
}

func (f *spoolFlags) list(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if !f.json {
		printable.Fprintf(table, "ID\tSTATE\tSINCE\tBYTES\tAGENT\tACTION\tREASON\tFOLDER\n")
	}
	err := f.each(func(folder string) error {
		items, err := spool.Contents(folder)
		for _, item := range items {
			if f.json {
				item.Payload = nil
				if err := printable.JSON(out, struct {
					Folder string `json:"folder"`
					spool.Item
				}{folder, item}); err != nil {
					return err
				}
				continue
			}
			state := "waits"
			if item.Apart {
				state = "set apart"
			}
			printable.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", item.ID, state, item.At, item.Size, item.AgentID, item.Action, reasonOf(item), folder)
		}
		return err
	})
	return errors.Join(err, table.Flush())
}

// reasonOf says why an item was set apart; "" where it was not.
func reasonOf(item spool.Item) (reason string) {
	if item.Status != 0 {
		reason = fmt.Sprint(item.Status, " ")
	}
	if reason += item.Error; item.Code != "" {
		reason += " (" + item.Code + ")"
	}
	if item.RequestID != "" {
		reason += ", request " + item.RequestID
	}
	return reason
}

func (f *spoolFlags) show(cmd *cobra.Command, id string) error {
	found := false
	err := f.each(func(folder string) error {
		items, err := spool.Contents(folder)
		for _, item := range items {
			if item.ID != id || found {
				continue
			}
			found = true
			if err := printable.JSON(cmd.OutOrStdout(), struct {
				Folder string `json:"folder"`
				spool.Item
			}{folder, item}); err != nil {
				return err
			}
		}
		return err
	})
	if err == nil && !found {
		err = noItem(id)
	}
	return err
}

func noItem(id string) error {
	return cli.ExitError{Status: cli.ExitNotFound, Err: fmt.Errorf("no item %.64q: attestd spool list names them", id)}
}

func (f *spoolFlags) retry(cmd *cobra.Command, ids []string) error {
	if f.all == (len(ids) > 0) {
		return cli.Usagef("name the items to retry by their IDs, or --all")
	}
	out, seen, stay := cmd.OutOrStdout(), map[string]bool{}, 0
	err := f.each(func(folder string) error {
		back, left, err := spool.Retry(folder, func(item spool.Item) bool { return f.all || slices.Contains(ids, item.ID) })
		for _, item := range back {
			seen[item.ID] = true
			printable.Fprintf(out, "%s waits again in %s\n", item.ID, folder)
		}
		for _, item := range left {
			seen[item.ID] = true
			stay++
			if item.Session == "" {
				printable.Fprintf(out, "%s stays: the disk has changed it, so it is not what was written\n", item.ID)
				continue
			}
			printable.Fprintf(out, "%s stays: its place %d of the session %s is refused for good; attest the action again\n", item.ID, item.Seq, item.Session)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if !seen[id] {
			return noItem(id)
		}
	}
	if stay > 0 {
		return cli.ExitError{Status: cli.ExitRefused, Err: fmt.Errorf("%d items stay set apart", stay)}
	}
	return nil
}

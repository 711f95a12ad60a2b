package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/crypto/seal"
	"attestd/internal/atomicfile"
	"attestd/internal/printable"
	"attestd/store"
)

const (
	maxMasterKey     = 4096             // largest number of bytes read from a file or a program
	masterKeyTimeout = 30 * time.Second // time limit of a program that asks a key store
)

// masterKeyUse describes the key in the help of most commands.
const masterKeyUse = "the master key that seals the keys in the database"

// masterKeyFlags are the two flags that name a master key.
type masterKeyFlags struct{ prefix, file, command string }

func (f *masterKeyFlags) add(cmd *cobra.Command, prefix, which string) {
	f.prefix = prefix
	cmd.Flags().StringVar(&f.file, prefix+"master-key-file", "", "`file` with "+which)
	cmd.Flags().StringVar(&f.command, prefix+"master-key-command", "", "shell `command` that prints "+which+
		", 32 bytes or their base64")
}

// read returns the master key, or nil when no flag names one. Errors wrap store.ErrMasterKey,
// unless they are usage errors.
func (f masterKeyFlags) read(ctx context.Context) (*seal.Master, error) {
	var text []byte
	var err error
	var from string
	switch {
	case f.file == "" && f.command == "":
		return nil, nil
	case f.file != "" && f.command != "":
		return nil, cli.Usagef("--%smaster-key-file and --%smaster-key-command exclude each other", f.prefix, f.prefix)
	case f.file != "":
		from = f.file
		text, err = readMasterKey(f.file)
	default:
		from = "--" + f.prefix + "master-key-command"
		text, err = runMasterKeyCommand(ctx, f.command)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrMasterKey, err)
	}
	master, err := seal.ParseMaster(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", store.ErrMasterKey, from, err)
	}
	return &master, nil
}

func readMasterKey(path string) ([]byte, error) {
	text, err := cli.ReadSecret(path, maxMasterKey, func(fs.FileInfo) error {
		return fmt.Errorf("%s: others than the owner can read it; chmod 600", path)
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: not found; attestd master-key new %s makes one for a new database", path, path)
	}
	return text, err
}

// runMasterKeyCommand runs a command and returns its standard output. Its standard error is not
// redirected, so that the operator can read it.
func runMasterKeyCommand(ctx context.Context, command string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, masterKeyTimeout)
	defer cancel()
	shell, flag := "/bin/sh", "-c"
	if runtime.GOOS == "windows" {
		shell, flag = "cmd", "/C"
	}
	var out shortBuffer
	program := exec.CommandContext(ctx, shell, flag, command)
	program.Stdout, program.Stderr, program.WaitDelay = &out, os.Stderr, time.Second
	err := runGroup(program)
	if ctx.Err() != nil {
		err = fmt.Errorf("no end within %v", masterKeyTimeout)
	}
	if err != nil {
		return nil, fmt.Errorf("the command that prints the key failed: %w", err)
	}
	return out, nil
}

// shortBuffer stores the first maxMasterKey bytes written to it and discards the rest.
type shortBuffer []byte

func (b *shortBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), maxMasterKey-len(*b))]...)
	return len(p), nil
}

func masterKeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "master-key",
		Short: "Create the master key, which seals all other keys",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "new FILE",
		Short: "Create a master key",
		Long: `Write a master key, 32 random bytes, into a new file that only its owner can read. Store a copy
apart from the database and its backups: without the master key, the keys cannot be unsealed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			master := seal.NewMaster()
			if err := writeMasterKey(args[0], master); errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%w: %s exists", store.ErrRefused, args[0])
			} else if err != nil {
				return err
			}
			printable.Fprintf(cmd.ErrOrStderr(), "master key %s is in %s; store a copy elsewhere\n", master.ID(), args[0])
			return nil
		},
	})
	return cmd
}

func writeMasterKey(path string, master seal.Master) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(master.Bytes())
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return atomicfile.SyncFolder(filepath.Dir(path))
}

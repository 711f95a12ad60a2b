package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"attestd/crypto/seal"
	"attestd/internal/printable"
	"attestd/store"
)

const (
	// bytes that a file or a program may give, of which 32 count
	maxMasterKey      = 4096
	masterKeyPatience = 30 * time.Second // with a program that asks a key store
)

// masterKeyUse is what the key is for, where it has no other use.
const masterKeyUse = "the master key that the keys in the database are sealed with"

// masterKeyFlags are the two ways to say a master key.
type masterKeyFlags struct{ prefix, file, command string }

func (f *masterKeyFlags) add(cmd *cobra.Command, prefix, which string) {
	f.prefix = prefix
	cmd.Flags().StringVar(&f.file, prefix+"master-key-file", "", "`file` with "+which)
	cmd.Flags().StringVar(&f.command, prefix+"master-key-command", "", "shell `command` that prints "+which+", 32 bytes or their base64")
}

// read returns the master key, nil when none was asked for; store.ErrMasterKey.
func (f masterKeyFlags) read(ctx context.Context) (*seal.Master, error) {
	var text []byte
	var err error
	var from string
	switch {
	case f.file == "" && f.command == "":
		return nil, nil
	case f.file != "" && f.command != "":
		return nil, usagef("--%smaster-key-file and --%smaster-key-command are two ways to say the same", f.prefix, f.prefix)
	case f.file != "":
		from = f.file
		text, err = readMasterKey(f.file)
	default:
		from = "--" + f.prefix + "master-key-command"
		text, err = askForMasterKey(ctx, f.command)
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
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if open := info.Mode().Perm() & 0o077; open != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("%s can be read or written by others than its owner; chmod 600 it", path)
	}
	return io.ReadAll(io.LimitReader(file, maxMasterKey))
}

// askForMasterKey runs a command and returns what it prints. What it says on standard error is the
// operator's to read.
func askForMasterKey(ctx context.Context, command string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, masterKeyPatience)
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
		err = fmt.Errorf("it has not ended within %v", masterKeyPatience)
	}
	if err != nil {
		return nil, fmt.Errorf("the command that prints it: %w", err)
	}
	return out, nil
}

// shortBuffer keeps the first bytes of what it is given, more of them than a master key may have.
type shortBuffer []byte

func (b *shortBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), maxMasterKey-len(*b))]...)
	return len(p), nil
}

func masterKeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "master-key",
		Short: "Make the key that seals all others",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "new FILE",
		Short: "Make a master key",
		Long: `Write a master key, 32 random bytes, into a new file that only its owner can read. Keep a copy where the database and its backups
are not: without it nobody can open the keys that it seals.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			master := seal.NewMaster()
			if err := writeMasterKey(args[0], master); errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%w: %s exists", store.ErrRefused, args[0])
			} else if err != nil {
				return err
			}
			printable.Fprintf(cmd.ErrOrStderr(), "master key %s is in %s; keep a copy of it elsewhere\n", master.ID(), args[0])
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
	if runtime.GOOS == "windows" { // which has no such call and needs none
		return nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

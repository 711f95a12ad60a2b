package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

// maxPayload is the largest number of bytes read from standard input. The server's own limit is
// lower by default.
const maxPayload = 64 << 20

func attestCommand() *cobra.Command {
	var a attestd.Attestation
	var delegation string
	cmd := &cobra.Command{
		Use:   "attest --agent ID --action TYPE [PAYLOAD]",
		Short: "Append a record",
		Long: `Append a record to the company's chain and print it as one line of JSON. The payload is any
JSON value, from the argument, or else from standard input.

A request without a response is sent again with the same idempotency key. Exit status 0 means
that the record is on the server's disk exactly once. To retry safely in a later run, choose
the key with --idempotency-key: for four weeks such a run prints the record that is there. What an
agent's key has signed under it is stored on this machine, so retry on the same one.

` + agentHelp,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case a.AgentID == "":
				return cli.Usagef("--agent, --action and a payload are required")
			case a.ActionType == "":
				return cli.Usagef("--action is required: the action type must have 1 to 256 characters")
			}
			text := []byte(nil)
			if len(args) == 1 {
				text = []byte(args[0])
			} else {
				var err error
				if text, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxPayload+1)); err != nil {
					return err
				}
				if len(text) > maxPayload {
					return fmt.Errorf("the payload is longer than %d bytes", maxPayload)
				}
			}
			if len(bytes.TrimSpace(text)) == 0 {
				return cli.Usagef("no payload: write a JSON value as the argument or to standard input")
			}
			a.Payload = json.RawMessage(text)
			if delegation != "" {
				token, err := cli.ReadPrivate(delegation)
				if err != nil {
					return err
				}
				a.Delegation = strings.TrimSpace(token)
			}
			prepared, err := a.Prepare()
			if err != nil {
				return cli.UsageError{Err: err}
			}
			at, c, err := connectAs(cmd, a.AgentID, "")
			if err != nil {
				return err
			}
			defer c.Close()
			var record attestd.Record
			if at.identity != nil {
				prepared.IdempotencyKey = a.IdempotencyKey // of which a statement needs none
				record, err = at.attestSigned(cmd.Context(), c, prepared)
			} else {
				record, err = c.Attest(cmd.Context(), prepared)
			}
			if err != nil {
				return err
			}
			return printable.JSON(cmd.OutOrStdout(), record)
		},
	}
	cli.URLFlag(cmd)
	cli.AgentFlag(cmd, &a.AgentID, "")
	cmd.Flags().StringVar(&a.ActionType, "action", "", "`type` of the action, such as deploy.started")
	cmd.Flags().StringVar(&delegation, "delegation", "", "`file` with the delegation token of the agent")
	cmd.Flags().StringVar(&a.IdempotencyKey, "idempotency-key", "",
		"`key` that makes a retry of this record safe (default: a random one)")
	return cmd
}

package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

// maxPayload bounds what is read of standard input. The server has its own limit, which is lower
// unless it was raised.
const maxPayload = 64 << 20

func attestCommand() *cobra.Command {
	var a attestd.Attestation
	var delegation string
	cmd := &cobra.Command{
		Use:   "attest --agent ID --action TYPE [PAYLOAD]",
		Short: "Append a record, from a shell",
		Long: `Append a record to the company's chain and print it, as one line of JSON. The payload is any JSON value, from the argument, or from
standard input where there is none. A request that got no answer is sent again, under the same idempotency key; exit status 0 means that the record is on the
server's disk, once. To try again later whether an earlier try got through, give it a key of your own with --idempotency-key.

` + connectionHelp,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case a.AgentID == "":
				return usagef("--agent and --action are required, as is a payload")
			case a.ActionType == "":
				return usagef("--action is required: the action type must have 1 to 256 characters")
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
				return usagef("no payload: give a JSON value as the argument or on standard input")
			}
			a.Payload = json.RawMessage(text)
			if delegation != "" {
				token, err := readPrivate(delegation)
				if err != nil {
					return err
				}
				a.Delegation = strings.TrimSpace(token)
			}
			prepared, err := a.Prepare()
			if err != nil {
				return usageError{err}
			}
			c, err := connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			record, err := c.Attest(cmd.Context(), prepared)
			if err != nil {
				return err
			}
			return printable.JSON(cmd.OutOrStdout(), record)
		},
	}
	urlFlag(cmd)
	agentFlag(cmd, &a.AgentID, "")
	cmd.Flags().StringVar(&a.ActionType, "action", "", "`type` of the action, such as deploy.started")
	cmd.Flags().StringVar(&delegation, "delegation", "", "`file` with the delegation token under which the agent acts")
	cmd.Flags().StringVar(&a.IdempotencyKey, "idempotency-key", "", "`key` under which the service takes this record once (default: one that is made)")
	return cmd
}

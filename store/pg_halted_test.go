package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// A server that was halted in the middle of a message while it held the lock on a chain's head
// delays the chain for some seconds; then another server ends its transaction. PostgreSQL itself
// would wait for the rest of the message for ever.
func TestHaltedServersTransactionIsEnded(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	database := storetest.Shared(t)
	s := openWith(t, database, store.RunOptions{})
	c, _ := company(t, s, "acme")
	attest(t, s, c, 1)

	halted := got(pgx.Connect(ctx, database+"&application_name=attestd&idle_in_transaction_session_timeout=3000"))(t)
	defer halted.Close(ctx)
	for _, statement := range []string{"BEGIN", "SELECT FROM head ORDER BY chain FOR UPDATE"} {
		_, err := halted.Exec(ctx, statement)
		must.OK(t, err)
	}
	message := got((&pgproto3.Parse{Query: "SELECT 1"}).Encode(nil))(t)
	// the beginning of a Bind of 64 KiB, whose rest never follows
	message = append(message, 'B', 0, 1, 0, 0)
	_, err := halted.PgConn().Conn().Write(message)
	must.OK(t, err)

	attest(t, s, c, 1)
}

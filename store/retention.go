package store

import (
	"fmt"
	"math"
	"time"

	"attestd/store/ledger"
)

// Retention is how long rows stay in the database after what they are for has ended. Records of
// logs stay for good.
type Retention struct {
	Passports time.Duration // after their end
	Tokens    time.Duration // access tokens and revocations, after their end
	Sessions  time.Duration // those without statements, after their last record
	RetryKeys time.Duration // lifetime of an idempotency key
}

// Forever is a time in Retention after which nothing goes.
const Forever = time.Duration(math.MaxInt64)

// The shortest times. While a clock that has leapt ahead is not trusted nothing goes at all (see
// db.KeyClock), and a guard of the schema refuses passports that ended within a day.
const (
	LeastPassports = 2 * 24 * time.Hour
	LeastTokens    = 24 * time.Hour
	LeastSessions  = 30 * 24 * time.Hour
)

// DefaultRetention is what a server has without settings.
var DefaultRetention = Retention{Passports: 30 * 24 * time.Hour, Tokens: 7 * 24 * time.Hour, Sessions: Forever, RetryKeys: ledger.KeyLifetime}

// String is in the form of the flags.
func (r Retention) String() string {
	text := func(d time.Duration) string {
		if d == Forever {
			return "forever"
		}
		return d.String()
	}
	return fmt.Sprintf("passports=%s,tokens=%s,sessions=%s,retry-keys=%s", text(r.Passports), text(r.Tokens), text(r.Sessions), text(r.RetryKeys))
}

// The kinds of rows that go.
const (
	KindPassport     = "passport"
	KindAccessToken  = "access_token"
	KindUsedProof    = "used_proof"
	KindRevokedToken = "revoked_token"
	KindSession      = "session"
	KindRetryKey     = "retry_key"
	KindRefusedCall  = "refused_call"
	KindApproval     = "approval"
)

// RetainedKinds are all of them.
var RetainedKinds = []string{KindPassport, KindAccessToken, KindUsedProof, KindRevokedToken, KindSession, KindRetryKey, KindRefusedCall, KindApproval}

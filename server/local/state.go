package local

import "time"

// State is what a server says of itself to its operator. It has no secret, and names no company and
// no agent. An Error may: it is the one in the server's log. Fields are nil for what is off.
type State struct {
	Program string    `json:"program"` // attestd/VERSION
	Process int       `json:"process"`
	Began   time.Time `json:"began"`
	Address string    `json:"address"` // on which it listens
	// of /readyz: ready, degraded, or the code of its 503, and the codes of what else is wrong
	Readiness string   `json:"readiness"`
	Reasons   []string `json:"reasons,omitempty"`
	// what unauthenticated clients of the address can do, one sentence each
	Exposed []string `json:"exposed,omitempty"`

	Backups      *Backups      `json:"backups,omitempty"`
	Export       *Export       `json:"export,omitempty"`
	Verification *Verification `json:"verification,omitempty"`
	Certificate  *Certificate  `json:"certificate,omitempty"`
	Witnesses    []Witness     `json:"witnesses,omitempty"`
	Limits       Limits        `json:"limits"`
}

// Backups are those that the server makes.
type Backups struct {
	To       string    `json:"to"`
	Newest   time.Time `json:"newest,omitzero"` // begin of the newest that is done
	Overdue  bool      `json:"overdue"`
	Failures int       `json:"failures"` // since the last success
	Error    string    `json:"error,omitempty"`
}

// Export is that of the logs. All but To is zero while another server has the duty.
type Export struct {
	To        string    `json:"to"`
	IsBehind  bool      `json:"isBehind"` // for longer than is fine, or a log cannot be exported
	Behind    int64     `json:"behind"`   // records
	Delivered time.Time `json:"delivered,omitzero"`
	Stopped   int       `json:"stopped"` // logs that cannot be exported
	Failures  int       `json:"failures"`
	Error     string    `json:"error,omitempty"`
}

// Verification is what the background verification has found.
type Verification struct {
	Ended   time.Time `json:"ended,omitzero"` // the last pass over all companies; zero for never
	Failing int       `json:"failing"`        // logs that do not verify
	Unread  int64     `json:"unread"`         // companies that could not be read in that pass
	Saved   bool      `json:"saved"`          // what was verified is remembered over a restart
}

// Certificate is that of TLS which ends first.
type Certificate struct {
	NotAfter time.Time `json:"notAfter,omitzero"` // zero while there is none
	Ends     bool      `json:"ends"`              // soon, or cannot be renewed
	Error    string    `json:"error,omitempty"`
}

// Witness cosigns the logs of this server.
type Witness struct {
	Name        string    `json:"name"`
	Unreachable bool      `json:"unreachable"`
	Asked       time.Time `json:"asked,omitzero"` // when it could last be asked
	Refused     int       `json:"refused"`        // logs that it does not cosign
	Contested   int       `json:"contested"`      // those of them that it contests
}

// Limits are what the process may have, and what its settings need of that. Zero is unknown.
type Limits struct {
	OpenFiles       int64 `json:"openFiles"`
	Connections     int64 `json:"connections"`     // as the limit of open files allows
	WantConnections int64 `json:"wantConnections"` // as set
	Memory          int64 `json:"memory"`          // bytes of the machine or control group
	NeedMemory      int64 `json:"needMemory"`      // bytes
}

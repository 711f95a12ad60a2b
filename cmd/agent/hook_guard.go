package agent

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"attestd/cmd/cli"
	"attestd/internal/printable"
)

// A hook answers in hookDeadline after its start, whatever it waits for: agents wait five seconds
// or more, and most call the tool when there is no answer by then. hookWork is when it stops to
// wait for the server, so that there is time to store the event.
const (
	hookDeadline = 4 * time.Second
	hookWork     = 3 * time.Second
)

// hookGuard sees to it that a hook ends as --fail says, also where its command line cannot be
// parsed, and where something that it opens, locks or reads never answers. It writes the hook's
// standard output: what comes first is the answer, that of the hook or that of the guard.
type hookGuard struct {
	refuses bool // the command line asks for the refusal of what cannot be recorded
	out     io.Writer

	mu       sync.Mutex
	answered bool
}

// isHook reports whether a command line is one of `attestd hook`.
func isHook(args []string) bool {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			return arg == "hook"
		}
	}
	return false
}

// refusesUnrecorded reports whether a command line of hook, also one that cannot be parsed, asks
// for the refusal of a call that cannot be recorded. Whatever --fail has but open, and whatever
// --require has, counts as that, and so does the value after a misspelt flag.
func refusesUnrecorded(args []string) bool {
	for i, arg := range args {
		name, value, has := strings.Cut(arg, "=")
		if !has && i+1 < len(args) {
			value = args[i+1]
		}
		switch {
		case arg == "closed", arg == "passport", has && (value == "closed" || value == "passport"):
			return true
		case name == "--fail" && value != "open", name == "--require":
			return true
		}
	}
	return false
}

// GuardHook begins the time of a hook, and returns nil for another command. The context that it
// returns ends when the hook must have asked the server.
func GuardHook(ctx context.Context, args []string) (context.Context, *cli.Guard) {
	if !isHook(args) {
		return ctx, nil
	}
	g := &hookGuard{refuses: refusesUnrecorded(args), out: os.Stdout}
	time.AfterFunc(hookDeadline, g.expire)
	ctx, cancel := context.WithTimeout(ctx, hookWork)
	context.AfterFunc(ctx, cancel)
	return ctx, &cli.Guard{Out: g, Status: g.statusOf}
}

// Write writes the answer of the hook, unless the guard has answered.
func (g *hookGuard) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answered = true
	return g.out.Write(p)
}

// expire answers in place of a hook that has not, and ends the process.
func (g *hookGuard) expire() {
	g.mu.Lock() // for good: nothing is written after this
	if g.answered {
		g.mu.Unlock()
		return
	}
	why := "attestd: this event was not recorded within " + hookDeadline.String()
	if g.refuses {
		why += ", so the call is refused"
	}
	why += ". Something that attestd hook reads or locks does not answer: its standard input, or a file in its folders"
	cli.WriteStderr(printable.Text(why) + "\n")
	os.Exit(g.status())
}

// status is the exit status of a hook that has not answered: that of a refusal, or one with which
// agents go on.
func (g *hookGuard) status() int {
	if g.refuses {
		return exitBlocked
	}
	return cli.ExitFailed
}

// statusOf is the exit status of a hook that has ended with an error: the agent goes on with a call
// that the hook has answered.
func (g *hookGuard) statusOf() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.answered {
		return cli.ExitFailed
	}
	return g.status()
}

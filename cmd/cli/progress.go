package cli

import (
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress returns a function that draws a progress bar on standard error, or nil when that is no
// terminal. finish removes the bar.
func Progress() (report func(stage string, done, total int64), finish func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil, func() {}
	}
	var bar *progressbar.ProgressBar
	var shown string
	finish = func() {
		if bar != nil {
			_ = bar.Clear()
		}
	}
	report = func(stage string, done, total int64) {
		if bar == nil || stage != shown {
			finish()
			shown = stage
			bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(os.Stderr),
				progressbar.OptionSetDescription(stage),
				progressbar.OptionShowCount(), progressbar.OptionShowBytes(stage == "copy" || stage == "check"),
				progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish())
		}
		bar.ChangeMax64(total)
		_ = bar.Set64(done)
	}
	return report, finish
}

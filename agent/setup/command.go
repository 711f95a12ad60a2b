package setup

import (
	"encoding/base64"
	"encoding/binary"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"attestd/internal/lazyregexp"
	"attestd/internal/printable"
)

// shell is the shell in which an agent runs the command of a hook.
type shell int

const (
	// posix is sh everywhere but on Windows, where Claude Code runs the bash of Git.
	posix shell = iota
	// powerShell is what Gemini CLI runs on Windows, by powershell.exe or pwsh.exe -Command. It
	// appends a statement that ends with the status of the last program.
	powerShell
	// anyWindows is cmd.exe or PowerShell: versions of Codex differ.
	anyWindows
)

// shellOf returns the shell of an agent on a system, as runtime.GOOS names it.
func (k Kind) shellOf(system string) shell {
	if system != "windows" {
		return posix
	}
	return k.onWindows
}

// command is the command of a hook.
type command struct {
	words []string // the program and its arguments
	// refuses has it end with 2, by which agents refuse a call, however the program fails: also
	// where that is missing, cannot be run or is killed.
	refuses bool
}

const (
	orBlock = " || exit 2"

	// PowerShell leaves the status of a program that it cannot start as it was.
	refusalPrefix = "$global:LASTEXITCODE = 2; "
	afterRefusal  = "; if ($global:LASTEXITCODE -ne 0) { exit 2 }"

	// encodedScript begins a command with a script of PowerShell that no shell reads anything into.
	encodedScript = "powershell.exe -NoProfile -NonInteractive -EncodedCommand "
	// endOfScript ends such a script with the status of the program.
	endOfScript = "; exit $LASTEXITCODE"
)

// in returns the command as a shell takes it.
func (c command) in(s shell) string {
	switch {
	case s == posix && c.refuses:
		return printable.ShellWords(c.words) + orBlock
	case s == posix:
		return printable.ShellWords(c.words)
	case s == powerShell:
		return c.inPowerShell()
	case !c.refuses && !slices.ContainsFunc(c.words, func(w string) bool { return !plainOnWindows().MatchString(w) }):
		return strings.Join(c.words, " ")
	case c.refuses:
		return encodedScript + encodeScript(c.inPowerShell())
	}
	return encodedScript + encodeScript(c.inPowerShell()+endOfScript)
}

func (c command) inPowerShell() string {
	quoted := make([]string, len(c.words))
	for i, word := range c.words {
		if quoted[i] = word; i == 0 || !plainOnWindows().MatchString(word) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", "''") + "'"
		}
	}
	text := "& " + strings.Join(quoted, " ")
	if c.refuses {
		return refusalPrefix + text + afterRefusal
	}
	return text
}

// plainOnWindows matches words that mean the same without quotes in cmd.exe and PowerShell.
var plainOnWindows = lazyregexp.New(`^[A-Za-z0-9/._+:\\-]+$`)

// posixWord and windowsWord match a word with its quotes.
var (
	posixWord   = lazyregexp.New(`[A-Za-z0-9/._+:,=-]+|'(?:[^']|'\\'')*'`)
	windowsWord = lazyregexp.New(`[A-Za-z0-9/._+:\\-]+|'(?:[^']|'')*'`)
)

// parseCommand reads a command that init may have written for a shell. ok is false for any other:
// what is read is written in the same form.
func parseCommand(text string, s shell) (c command, ok bool) {
	script, quote, word := text, `'\''`, posixWord()
	switch s {
	case posix:
		script, c.refuses = strings.CutSuffix(text, orBlock)
	case anyWindows:
		if encoded, is := strings.CutPrefix(text, encodedScript); is {
			script = decodeScript(encoded)
		}
		script = strings.TrimSuffix(script, endOfScript)
		fallthrough
	case powerShell:
		quote, word = "''", windowsWord()
		if rest, is := strings.CutPrefix(script, refusalPrefix); is {
			script, c.refuses = strings.CutSuffix(rest, afterRefusal)
		}
		script = strings.TrimPrefix(script, "& ")
	}
	c.words = wordsOf(script, quote, word)
	return c, len(c.words) > 0 && c.in(s) == text
}

func wordsOf(script, quote string, word *regexp.Regexp) (words []string) {
	for _, w := range word.FindAllString(script, -1) {
		if strings.HasPrefix(w, "'") {
			w = strings.ReplaceAll(w[1:len(w)-1], quote, "'")
		}
		words = append(words, w)
	}
	return words
}

// encodeScript encodes a script as -EncodedCommand takes it: base64 of UTF-16, the low byte first.
func encodeScript(script string) string {
	var bytes []byte
	for _, unit := range utf16.Encode([]rune(script)) {
		bytes = binary.LittleEndian.AppendUint16(bytes, unit)
	}
	return base64.StdEncoding.EncodeToString(bytes)
}

// decodeScript is the reverse of encodeScript; "" for no such text.
func decodeScript(text string) string {
	bytes, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	var units []uint16
	for pair := range slices.Chunk(bytes, 2) {
		if len(pair) < 2 {
			return ""
		}
		units = append(units, binary.LittleEndian.Uint16(pair))
	}
	return string(utf16.Decode(units))
}

// shownCommand returns a command as people read it.
func shownCommand(text string) string {
	if encoded, is := strings.CutPrefix(text, encodedScript); is {
		return decodeScript(encoded)
	}
	return text
}

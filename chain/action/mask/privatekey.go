package mask

import "strings"

// privateKeys finds the lines of PEM private keys. What is no line of base64 ends the key: a
// command on a line of its own is none.
func (f *finder) privateKeys() {
	for at := 0; ; {
		begin := strings.Index(f.text[at:], "-----BEGIN ")
		if begin < 0 {
			return
		}
		begin += at
		at = begin + len("-----BEGIN ")
		label := strings.Index(f.text[at:min(len(f.text), at+64)], "-----")
		if label < 0 || !strings.Contains(f.text[at:at+label], "PRIVATE KEY") {
			continue
		}
		at = f.keyLines(at + label + len("-----"))
	}
}

// keyLines finds the lines of a private key from a place on, and returns where it ends. Lines are
// separated by line feeds, by \n in a quoted text, or are the strings of an array.
func (f *finder) keyLines(at int) int {
	var body keyBody
	for at += lineBreak(f.text[at:]); at < len(f.text) && !body.ended; {
		n := strings.IndexAny(f.text[at:], "\n\r\\\"'<,")
		if n < 0 {
			n = len(f.text) - at
		}
		after := at + n + lineBreak(f.text[at+n:])
		from, to := body.secret(f.text[at:at+n], strings.HasPrefix(f.text[after:], "-----END"))
		if to > from {
			f.add(at+from, at+to)
		}
		if after == at {
			break
		}
		at = after
	}
	return at
}

// lineBreak returns the length of what separates two lines of a key at the beginning of a text.
func lineBreak(text string) (n int) {
	const most = 32 // bytes, white space among them
	for text = text[:min(len(text), most)]; n < len(text); {
		switch text[n] {
		case '\\':
			m := n
			for m < len(text) && text[m] == '\\' {
				m++
			}
			if m == len(text) || text[m] != 'n' && text[m] != 'r' {
				return n
			}
			n = m + 1
		case '\n', '\r', '"', '\'', ',':
			n++
		case ' ', '\t':
			if n == 0 {
				return 0
			}
			n++
		default:
			return n
		}
	}
	return n
}

// keyBody reads a PEM private key line by line.
type keyBody struct {
	long  bool // a long line was there, so a short one may be the last
	count int
	ended bool
}

// secret returns which part of a line is part of the key. last says that the key's end follows.
func (k *keyBody) secret(line string, last bool) (from, to int) {
	const longLine = 40
	from = len(line) - len(strings.TrimLeft(line, " \t+-|>0123456789:"))
	if from > 8 { // digits of base64
		from = len(line) - len(strings.TrimLeft(line, " \t"))
	}
	to = len(strings.TrimRight(line, " \t"))
	if to <= from { // an empty line after headers, or a prefix of a patch alone
		k.count++
		k.ended = k.ended || k.count > 8
		return 0, 0
	}
	body := line[from:to]
	if strings.HasPrefix(line[:min(len(line), 32)], "-----END") || strings.Contains(body, "-----END") {
		k.ended = true
		return 0, 0
	}
	n := 0
	for n < len(body) && (isAlnum(body[n]) || body[n] == '+' || body[n] == '/' || body[n] == '=') {
		n++
	}
	c := classesOf(body)
	switch {
	case n == len(body) && n >= longLine && c.upper > 0 && c.lower > 0 && c.digit > 0 && !startsAsPath(body):
		k.long = true
		return from, to
	case n == len(body) && k.long && (strings.HasSuffix(body, "=") || last && c.upper > 0 && c.lower > 0 &&
		c.digit+c.sign > 0 && !startsAsPath(body)):
		return from, to
	case n == len(body) && k.long && strings.HasPrefix(body, "="): // the checksum of OpenPGP
		return from, to
	case !k.long && k.count < 8 && isKeyHeader(body):
		k.count++
		return 0, 0
	}
	k.ended = true
	return 0, 0
}

// startsAsPath reports whether a line begins as a path of a file does.
func startsAsPath(s string) bool {
	first, _, found := strings.Cut(strings.TrimPrefix(s, "/"), "/")
	return found && len(first) > 1 && strings.Trim(first, "abcdefghijklmnopqrstuvwxyz") == ""
}

// isKeyHeader reports whether a line is a header of an encrypted or an OpenPGP key.
func isKeyHeader(line string) bool {
	for _, name := range []string{"Proc-Type: ", "DEK-Info: ", "Version: ", "Comment: ", "Hash: ", "Charset: "} {
		if strings.HasPrefix(line, name) {
			return shellEnd(line) == len(line)
		}
	}
	return false
}

package mask

import "strings"

// value is the text after a separator: from start to end, without its quotation marks.
type value struct {
	start, end int
	quoted     bool
	after      int // where the text goes on
}

// valueAt returns the value that begins at a place of a text.
func (f *finder) valueAt(at int) (v value, ok bool) {
	if strings.HasPrefix(f.text[at:], "[]byte(") {
		at += len("[]byte(")
	}
	// a string of Python
	if at+1 < len(f.text) && strings.IndexByte("bfru", f.text[at]) >= 0 && (f.text[at+1] == '"' || f.text[at+1] == '\'') {
		at++
	}
	limit := min(len(f.text), at+f.most())
	quote := at
	defer func() { f.read += v.after - at }()
	for quote < limit && f.text[quote] == '\\' {
		quote++
	}
	if quote < limit && (f.text[quote] == '"' || f.text[quote] == '\'') {
		mark := f.text[at : quote+1] // with its escapes, as the end of the value has them
		start := quote + 1
		for j := start; j < limit; {
			n := strings.Index(f.text[j:limit], mark)
			if n < 0 {
				break
			}
			end := j + n
			j = end + len(mark)
			// an escaped quotation mark within
			if end > start && f.text[end-1] == '\\' && (len(mark) > 1 || oddBackslashes(f.text[start:end])) {
				continue
			}
			if strings.IndexByte(f.text[start:end], '\n') >= 0 {
				break
			}
			return value{start, end, true, j}, end > start
		}
		// Without an end it is a word.
		at = start
	}
	if strings.HasPrefix(f.text[at:], "%22") || strings.HasPrefix(f.text[at:], "%27") {
		at += 3
		if n := strings.Index(f.text[at:limit], f.text[at-3:at]); n > 0 && shellEnd(f.text[at:at+n]) == n {
			return value{at, at + n, true, at + n + 3}, true
		}
	}
	end := at
	for end < limit && !charsets["valueEnd"][f.text[end]] {
		end++
	}
	after := end
	for end > at && strings.IndexByte(".:,", f.text[end-1]) >= 0 { // the end of a sentence
		end--
	}
	return value{at, end, false, after}, end > at
}

func oddBackslashes(s string) bool {
	n := 0
	for n < len(s) && s[len(s)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// nameBefore returns the name that ends before a place, and where it begins. Quotation marks,
// brackets and spaces may come between.
func (f *finder) nameBefore(at int) (name string, start int, spaced bool) {
	least := max(0, at-maxSecretName)
	end := at
	for end > least && (f.text[end-1] == ' ' || f.text[end-1] == '\t') {
		end--
	}
	spaced = end < at
	for end > least && strings.IndexByte("\"'\\])?", f.text[end-1]) >= 0 {
		end--
	}
	start = end
	for start > least && (isWord(f.text[start-1]) || strings.IndexByte(".-/:[", f.text[start-1]) >= 0 ||
		f.text[start-1] >= 0x80) {
		c := f.text[start-1]
		if c == ':' && start > 1 && f.text[start-2] != '_' { // a port, a scheme, or an annotation
			break
		}
		start--
	}
	return f.text[start:end], start, spaced
}

// assignments finds the values of names: name=value, name: value, "name" => 'value', --name=value.
func (f *finder) assignments() {
	for at := 0; at < len(f.text); {
		i := strings.IndexAny(f.text[at:], "=:")
		if i < 0 {
			return
		}
		i += at
		at = i + 1
		if f.text[i] == ':' && (strings.HasPrefix(f.text[i:], "://") || strings.HasPrefix(f.text[i:], "::")) {
			at = i + 2
			continue
		}
		name, start, spaced := f.nameBefore(i)
		if name == "" {
			continue
		}
		s := nameStrength(name)
		// Azure's signed addresses
		if name == "sig" && start > 0 && (f.text[start-1] == '&' || f.text[start-1] == '?') {
			s = mayBe
		}
		sep := i
		next := i + 1
		if next < len(f.text) && f.text[i] == ':' && f.text[next] == '=' || next < len(f.text) && f.text[i] == '=' &&
			f.text[next] == '>' {
			next++
		} else if next < len(f.text) && f.text[next] == '=' { // a comparison
			at = next + 1
			if next < len(f.text)-1 && f.text[next+1] == '=' {
				at++
			}
			continue
		}
		if s == notSecret && f.text[i] == '=' {
			// name: type = value, String name = value
			if j := start; j > 1 {
				k := j
				for k > 0 && strings.IndexByte(" \t&*", f.text[k-1]) >= 0 {
					k--
				}
				if k > 0 && f.text[k-1] == ':' && len(name) < 24 {
					name, _, _ = f.nameBefore(k - 1)
					s = nameStrength(name)
					spaced = true
				}
			}
		}
		if s == notSecret {
			continue
		}
		open := next
		for next < len(f.text) && (f.text[next] == ' ' || f.text[next] == '\t') && next-open < 40 {
			next++
		}
		if next == len(f.text) {
			return
		}
		padded := next > open
		if f.text[next] == '\n' || f.text[next] == '\r' {
			continue
		}
		base := strings.TrimLeft(strings.ToLower(name), "-_.\"'")
		if base == "pass" && f.text[i] == ':' && padded || strings.HasSuffix(base, "authorization") ||
			base == "set-cookie" || base == "cookie" && f.text[i] == ':' {
			continue // results of tests; headers
		}
		if strings.HasSuffix(base, "auth") || strings.HasSuffix(base, "credentials") {
			f.pair(next)
		}
		from := next
		// openssl's pass:VALUE
		if rest := f.text[next:]; strings.HasPrefix(rest, "pass:") && !padded {
			continue
		} else if strings.HasPrefix(rest, "base64:") {
			from += len("base64:")
		} else if strings.HasPrefix(rest, "|\n") || strings.HasPrefix(rest, ">\n") || strings.HasPrefix(rest, "|-\n") ||
			strings.HasPrefix(rest, ">-\n") {
			f.block(next, s)
			continue
		}
		v, ok := f.valueAt(from)
		if !ok {
			continue
		}
		if scheme, rest, found := strings.Cut(f.text[v.start:v.end], " "); found && v.quoted && isScheme(scheme) {
			if f.addIf(s, v.end-len(rest), v.end, true, false) {
				at = v.after
			}
			continue
		}
		line := f.text[v.after:min(len(f.text), v.after+2)]
		atEnd := line == "" || strings.IndexByte("\n\r,;}\"'&|", line[0]) >= 0 || line[0] == '\\'
		// bare: NAME=value of a file or a command, or the value alone in its line
		bare := f.text[sep] == '=' && !spaced && !padded && (strings.ToUpper(name) == name || name[0] == '-' ||
			s == isPassword && atEnd && line != "," && !strings.HasPrefix(line, ")"))
		if s == isPassword && !v.quoted && f.text[sep] == ':' && padded && !atEnd && line[0] != ' ' && line[0] != ')' &&
			line[0] != ']' && line[0] != '<' {
			continue
		}
		if f.addIf(s, v.start, v.end, v.quoted, bare) {
			at = v.after
		}
	}
}

// addIf adds a value if it is a secret under a name of some strength.
func (f *finder) addIf(s strength, start, end int, quoted, bare bool) bool {
	v := f.text[start:end]
	v = v[:shellEnd(v)]
	if v == "" || !isSecret(s, v, quoted, bare) {
		return false
	}
	f.add(start, end)
	return true
}

// block finds a value in the line after its name, as YAML's block scalars do.
func (f *finder) block(at int, s strength) {
	n := strings.IndexByte(f.text[at:], '\n')
	start := at + n + 1
	indent := run(f.text[start:], spaces, 40)
	if indent == 0 {
		return
	}
	v, ok := f.valueAt(start + indent)
	if ok && random(f.text[v.start:v.end], 8) && s > mayBe && (v.after == len(f.text) || f.text[v.after] == '\n') {
		f.add(v.start, v.end)
	}
}

var spaces = newCharset(" \t")

// pair finds the password in the arguments of a call or a tuple: ("user", "password").
func (f *finder) pair(at int) {
	open := strings.IndexAny(f.text[at:min(len(f.text), at+32)], "([\"'\n")
	if open < 0 || f.text[at+open] != '(' && f.text[at+open] != '[' {
		return
	}
	if at += open + 1; at == len(f.text) || strings.IndexByte("\"'\\bfru", f.text[at]) < 0 {
		return
	}
	user, ok := f.valueAt(at)
	if !ok || !user.quoted || !strings.HasPrefix(f.text[user.after:], ",") {
		return
	}
	next := user.after + 1
	next += run(f.text[next:], spaces, 8)
	if v, ok := f.valueAt(next); ok && v.quoted {
		f.addIf(isPassword, v.start, v.end, true, false)
	}
}

// isScheme reports whether a word names a way to authenticate.
func isScheme(word string) bool {
	switch strings.ToLower(word) {
	case "bearer", "basic", "token", "apikey", "api-key", "bot", "key", "dpop", "negotiate", "digest", "oauth",
		"genie", "genieKey", "splunk", "ssws", "pve", "jwt", "hmac", "aws", "aws4-hmac-sha256":
		return true
	}
	return false
}

// headers finds credentials in headers: Authorization, and what Cookie and Set-Cookie hold.
func (f *finder) headers() {
	lower := strings.ToLower(f.text)
	if len(lower) != len(f.text) { // a letter whose lower case is longer
		lower = f.text
	}
	each := func(word string, do func(at int)) {
		for at := 0; ; {
			i := strings.Index(lower[at:], word)
			if i < 0 {
				return
			}
			at += i + len(word)
			do(at)
		}
	}
	each("authorization", func(at int) {
		if at = f.separator(at); at < 0 {
			return
		}
		f.credential(at)
	})
	for _, scheme := range []string{"bearer", "basic"} {
		each(scheme, func(at int) {
			if before := at - len(scheme) - 1; before >= 0 && isWord(f.text[before]) {
				return
			}
			start := at + run(f.text[at:], spaces, 8)
			n := run(f.text[start:], charsets["token68"], maxValue)
			if v := strings.TrimRight(f.text[start:start+n], "."); start > at && random(v, 8) {
				f.add(start, start+len(v))
			}
		})
	}
	each("cookie", func(at int) {
		if at = f.separator(at); at < 0 {
			return
		}
		f.cookies(at)
	})
}

// most returns the maximum size of a value. It is small once a text has had many long ones, most of
// which overlap: so the work stays linear.
func (f *finder) most() int {
	if f.read > 4*len(f.text)+maxValue {
		return 64
	}
	return maxValue
}

// separator returns the place after a colon or an equals sign with the quotation marks and the
// white space around it, or -1.
func (f *finder) separator(at int) int {
	i := at
	for i < len(f.text) && i-at < 8 && strings.IndexByte("\"'\\] \t", f.text[i]) >= 0 {
		i++
	}
	if i == len(f.text) || f.text[i] != ':' && f.text[i] != '=' {
		return -1
	}
	i++
	if i < len(f.text) && f.text[i] == '>' {
		i++
	}
	for at = i; i < len(f.text) && i-at < 8 && strings.IndexByte("\"'\\[ \t", f.text[i]) >= 0; {
		i++
	}
	return i
}

// credential finds the credential of an Authorization header: its second word after a scheme, or
// its first one.
func (f *finder) credential(at int) {
	n := run(f.text[at:], charsets["token68"], maxValue)
	word := f.text[at : at+n]
	if n == 0 {
		return
	}
	next := at + n
	next += run(f.text[next:], spaces, 4)
	m := run(f.text[next:], charsets["token68"], maxValue)
	switch {
	case next > at+n && m > 0 && isScheme(word):
		if v := f.text[next : next+m]; len(v) >= 6 && !placeholder(v) && !isParameter(v) {
			f.add(next, next+m)
			return
		}
		// AWS4-HMAC-SHA256 Credential=…, Signature=…: the assignments have the signature
	case next > at+n && m >= 12 && random(f.text[next:next+m], 12):
		f.add(next, next+m)
	case tokenLike(word, true) && !isParameter(word):
		f.add(at, at+n)
	}
}

// isParameter reports whether a word is name=value rather than a credential.
func isParameter(v string) bool {
	name, rest, found := strings.Cut(v, "=")
	return found && strings.Trim(rest, "=") != "" && len(name) < 24 || found && rest == "" && len(v) < 12
}

// cookies finds the values of name=value; name=value. After the first one, a value must look
// random: what follows a semicolon may be a command.
func (f *finder) cookies(at int) {
	for first := true; ; first = false {
		name := run(f.text[at:], charsets["cookieName"], 80)
		start := at + name + 1
		if name == 0 || start > len(f.text) || f.text[start-1] != '=' {
			return
		}
		n := run(f.text[start:], charsets["cookie"], maxValue)
		v := f.text[start : start+n]
		switch s := nameStrength(f.text[at : at+name]); {
		case v == "" || placeholder(v):
		case first && !isCookieAttribute(f.text[at:at+name]), random(v, 8), s > notSecret && tokenLike(v, true):
			f.add(start, start+n)
		}
		at = start + n
		if !strings.HasPrefix(f.text[at:], "; ") {
			return
		}
		at += len("; ")
	}
}

func isCookieAttribute(name string) bool {
	switch strings.ToLower(name) {
	case "path", "domain", "expires", "max-age", "samesite", "theme", "lang", "locale":
		return true
	}
	return false
}

// mentions finds secrets after the words that name them: password X, the token is X, IDENTIFIED BY
// 'X', New API key: X.
func (f *finder) mentions() {
	f.lines(func(start, end int) {
		const most = 64 // words of a line, which hold a sentence
		named, left, wide := notSecret, 0, false
		before := ""
		for at, n := start, 0; at < end; n++ {
			gap := run(f.text[at:end], spaces, 200)
			at += gap
			if at >= end {
				return
			}
			wordEnd := at
			for wordEnd < end && f.text[wordEnd] != ' ' && f.text[wordEnd] != '\t' && wordEnd-at < maxValue {
				wordEnd++
			}
			word := f.text[at:wordEnd]
			wide = gap > 1 || gap == 1 && at > 0 && f.text[at-1] == '\t'
			if named > notSecret && left > 0 {
				left--
				if f.mentioned(named, at, end, wide, before) {
					named = notSecret
				}
			} else {
				named = notSecret
			}
			// the name of the next ones
			clean := strings.Trim(word, "\"'`*_.:,;!()[]{}")
			lower := strings.ToLower(clean)
			if strings.IndexByte(clean, '=') < 0 && len(clean) > 1 && len(clean) < maxSecretName &&
				!strings.ContainsAny(clean, "/@\\") && !strings.HasPrefix(clean, "-") {
				s := nameStrength(clean)
				switch {
				case lower == "by" && strings.EqualFold(before, "identified"):
					s = isPassword
				case lower == "key" && keyKinds[strings.ToLower(before)] == isToken, lower == "key" &&
					strings.EqualFold(before, "unseal"):
					s = isToken
				case lower == "seed", lower == "mnemonic":
					f.seed(wordEnd, end)
				}
				if s >= isToken && !isCamel(clean) || s == mayBe && (lower == "login" || lower == "auth") {
					named, left = s, 5
				}
			}
			before = clean
			if strings.HasSuffix(word, ";") || word == "|" || word == "&&" {
				named = notSecret
			}
			if at = wordEnd; n > most {
				// A long line: the words after the bound are read only for what names a secret.
				n = 0
			}
		}
	})
}

// mentioned adds the word at a place if it is the secret that words before it have announced.
func (f *finder) mentioned(s strength, at, end int, wide bool, before string) bool {
	v, ok := f.valueAt(at)
	if !ok || v.end > end {
		return false
	}
	text := f.text[v.start:v.end]
	for strings.HasPrefix(text, "(") {
		v.start++
		text = text[1:]
	}
	if !v.quoted && isCode(text) {
		return false
	}
	switch {
	case v.quoted && s == isPassword && nameStrength(before) == isPassword && len(text) >= 4 &&
		passwordLike(text, true, false) && strings.IndexByte(text, ' ') < 0 && tokenLike(text, true),
		v.quoted && strings.EqualFold(before, "by") && text != "" && !placeholder(text):
	case random(text, 8):
	case s == isPassword && (len(text) >= 8 || wide && len(text) >= 6) && mixed(text) && !placeholder(text):
	default:
		return false
	}
	if isParameter(text) && !v.quoted || strings.IndexByte(text, '=') > 0 && !strings.HasSuffix(text, "=") {
		return false
	}
	f.add(v.start, v.end)
	return true
}

// mixed reports whether a value has letters, and digits or signs that are not those of names.
func mixed(v string) bool {
	c := classesOf(v)
	return c.digit > 0 && c.lower+c.upper >= 4 && c.sign <= 3 && !strings.ContainsAny(v, "/()[]{}<>:=")
}

// seed finds the words of a seed of a wallet: twelve and more, all of small letters.
func (f *finder) seed(at, end int) {
	at += run(f.text[at:end], spaces, 8)
	words, last := 0, at
	for i := at; i < end && words < 25; {
		n := 0
		for i+n < end && n < 9 && isLower(f.text[i+n]) {
			n++
		}
		if n < 3 || n > 8 {
			break
		}
		words++
		last = i + n
		if i += n; i < end && f.text[i] == ' ' {
			i++
		} else {
			break
		}
	}
	if words >= 12 && words%3 == 0 {
		f.add(at, last)
	}
}

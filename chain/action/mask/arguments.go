package mask

import "strings"

// Arguments returns the arguments of a command with their secrets masked. It also masks a
// secret that is the argument after its option, as in --password hunter2.
func (k Key) Arguments(arguments []string) []string { return k.list("", arguments) }

// list masks the secrets in the strings of an array, which may be the arguments of a program, or
// the lines of a file. program is the name of a program that stands before them, or "".
func (k Key) list(program string, list []string) []string {
	texts := list
	if program != "" {
		texts = append([]string{program}, list...)
	}
	text := strings.Join(texts, "\n")
	words := make([]word, len(texts))
	at := 0
	for i, t := range texts {
		words[i] = word{start: at, end: at + len(t), text: t, from: at}
		at += len(t) + 1
	}
	f := finder{text: text, spans: find(text)}
	f.command(words, nil, "", 0)
	// No secret holds a line feed, so each is within one of the strings.
	spans := make([][]span, len(texts))
	i := 0
	sortSpans(f.spans)
	for _, s := range f.spans {
		for i+1 < len(words) && s.start >= words[i+1].start {
			i++
		}
		spans[i] = append(spans[i], span{s.start - words[i].start, s.end - words[i].start, false})
	}
	shown := make([]string, len(texts))
	for i, t := range texts {
		shown[i] = replace(t, spans[i], k.Whole)
	}
	return shown[len(texts)-len(list):]
}

package notice

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/internal/words"
)

// A Command is what a user wants done with what is held.
type Command struct {
	Release    []int // by number, from 1; in order, each once
	Delete     []int
	ReleaseAll bool
	DeleteAll  bool
	Resume     bool
}

// A CommandError is a command that cannot be carried out. Nothing else in the message is carried out then.
type CommandError struct {
	Line   string // as it was written; empty if the error is about several
	msg    words.Text
	values []any // of the message
}

func (e *CommandError) Error() string { return "notice: " + e.In(nil) }

// In says in a language what is wrong.
func (e *CommandError) In(l *words.Language) string {
	if e.Line == "" {
		return l.Say(e.msg, e.values...)
	}
	return fmt.Sprintf("%q: %s", e.Line, l.Say(e.msg, e.values...))
}

// wrong returns an error in a command.
func wrong(msg words.Text, values ...any) *CommandError {
	return &CommandError{msg: msg, values: values}
}

// Words of commands. Those of every language are understood in replies to every notice.
const (
	wordRelease words.Text = "release"
	wordDelete  words.Text = "delete"
	wordResume  words.Text = "resume"
	wordAll     words.Text = "all"
	wordAnd     words.Text = "and"
)

// Usage are commands as examples, one in a line.
func Usage(l *words.Language) string {
	release, remove, all := l.Say(wordRelease), l.Say(wordDelete), l.Say(wordAll)
	return "  " + strings.Join([]string{release + " " + all, release + " 1, 3-5", remove + " " + all, remove + " 2",
		l.Say(wordResume)}, "\n  ")
}

// understood are the words of commands in all languages, and what they stand for.
var understood = func() map[string]words.Text {
	all := map[string]words.Text{}
	for _, l := range words.All() {
		for _, t := range []words.Text{wordRelease, wordDelete, wordResume, wordAll, wordAnd} {
			all[l.Say(t)] = t
			all[plainLetters.Replace(l.Say(t))] = t
		}
	}
	return all
}()

// plainLetters are for keyboards without the others.
var plainLetters = strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "ß", "ss")

// marks are Mark in all languages, in lower case.
var marks = func() (all []string) {
	for _, l := range words.All() {
		all = append(all, strings.ToLower(l.Say(Mark)))
	}
	return all
}()

// readCommands reads the lines above the quoted part, and skips those that are no commands.
func readCommands(text string) (Command, error) {
	var c Command
	lines, found := splitLines(text), false
	var open *[]int // where a line of numbers alone is added: mail programs break long lines
	for i, line := range lines {
		if quoteBegins(lines[i:]) {
			break
		}
		verb, rest := split(line)
		if open != nil {
			if numbers, err := readNumbers(verb + " " + rest); err == nil {
				*open = append(*open, numbers...)
				continue
			}
		}
		var list *[]int
		var all *bool
		switch understood[verb] {
		case wordRelease:
			list, all = &c.Release, &c.ReleaseAll
		case wordDelete:
			list, all = &c.Delete, &c.DeleteAll
		}
		open = nil
		switch {
		case understood[verb] == wordResume && rest == "":
			c.Resume, found = true, true
		case list == nil: // something else
		case understood[rest] == wordAll:
			*all, found = true, true
		case rest == "" || isAbout(rest):
			numbers, err := readNumbers(rest)
			if err != nil {
				err.Line = clean(line, maxSubject)
				return Command{}, err
			}
			*list, open, found = append(*list, numbers...), list, true
		}
	}
	if !found {
		return Command{}, ErrNothing
	}
	for _, list := range []*[]int{&c.Release, &c.Delete} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if err := c.contradiction(); err != nil {
		return Command{}, err
	}
	return c, nil
}

// isAbout reports whether the text after a verb says which messages, as in "release all but 2".
func isAbout(rest string) bool {
	if end := strings.IndexAny(rest, " ,"); end > 0 && understood[rest[:end]] == wordAll {
		return true
	}
	return strings.IndexByte("0123456789-#", rest[0]) >= 0
}

func (c *Command) contradiction() error {
	both := slices.IndexFunc(c.Release, func(n int) bool { return slices.Contains(c.Delete, n) })
	which := 0
	switch {
	case c.ReleaseAll && c.DeleteAll:
		return wrong("everything cannot be both released and deleted")
	case c.ReleaseAll && len(c.Delete) > 0:
		which = c.Delete[0]
	case c.DeleteAll && len(c.Release) > 0:
		which = c.Release[0]
	case both >= 0:
		which = c.Release[both]
	default:
		return nil
	}
	return wrong("mail {n} cannot be both released and deleted", "n", which)
}

// split returns the first word of a line and the rest, in lower case and without the signs people put around commands.
func split(line string) (verb, rest string) {
	line = strings.ToLower(strings.Trim(line, " .!,;:*\"'`•“”"))
	line = strings.TrimLeft(strings.TrimPrefix(line, "- "), " ")
	verb, rest, _ = strings.Cut(line, " ")
	return strings.TrimRight(verb, ",:"), strings.TrimSpace(rest)
}

// readNumbers reads "1 3", "1,3", "1-3" and "1 and 3". The list is in order, each number once.
func readNumbers(text string) ([]int, *CommandError) {
	var in [MaxLines + 1]bool
	text = strings.NewReplacer("–", "-", "—", "-", ",", " ", ";", " ", "#", " ", "&", " ").Replace(text)
	text = strings.ReplaceAll(strings.Join(strings.Fields(text), " "), " - ", "-")
	for word := range strings.FieldsSeq(text) {
		if understood[word] == wordAnd {
			continue
		}
		from, to, isRange := strings.Cut(word, "-")
		if !isRange {
			to = from
		}
		a, err := readNumber(from)
		if err != nil {
			return nil, err
		}
		b, err := readNumber(to)
		if err != nil {
			return nil, err
		}
		if a > b {
			return nil, wrong("{range} goes backwards", "range", word)
		}
		for n := a; n <= b; n++ {
			in[n] = true
		}
	}
	var all []int
	for n, is := range in {
		if is {
			all = append(all, n)
		}
	}
	if all == nil {
		return nil, wrong("say which: all, or numbers")
	}
	return all, nil
}

func readNumber(text string) (int, *CommandError) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, wrong("\"{text}\" is not a number", "text", clean(text, 20))
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxLines {
		return 0, wrong("there is no message {n}", "n", clean(text, 20))
	}
	return n, nil
}

func splitLines(text string) []string {
	ends := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n", "\v", "\n", "\f", "\n")
	lines := strings.Split(ends.Replace(text), "\n")
	for i, line := range lines {
		lines[i] = clean(line, maxLine)
	}
	return lines
}

// maxLine is how many characters of a line are read. All numbers that there are fit.
const maxLine = 1000

// froms begin the block of header fields that some mail programs write in place of a quote.
var froms = []string{"from:", "von:", "de:", "da:", "van:", "från:", "fra:"}

// quoteBegins reports whether the quoted message, or a signature, begins with the first of the lines.
func quoteBegins(lines []string) bool {
	line := strings.ToLower(lines[0])
	is := func(from string) bool { return strings.HasPrefix(strings.TrimLeft(line, "* "), from) }
	inLine := func(mark string) bool { return strings.Contains(line, mark) }
	switch {
	case strings.HasPrefix(line, ">"), line == "--", slices.ContainsFunc(marks, inLine),
		strings.HasPrefix(line, "-----"), strings.HasPrefix(line, "_____"), slices.ContainsFunc(froms, is),
		strings.HasSuffix(line, " wrote:"), strings.HasSuffix(line, " schrieb:"):
		return true
	}
	// The line "On Monday Ann wrote:" may be broken.
	return strings.HasPrefix(line, "on ") && slices.ContainsFunc(lines[1:min(len(lines), 4)], func(next string) bool {
		return strings.HasSuffix(" "+strings.ToLower(next), " wrote:")
	})
}

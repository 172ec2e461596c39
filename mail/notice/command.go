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
		l.Say(wordResume), release + " 1, " + l.Say(wordResume)}, "\n  ")
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

// readCommands reads the lines above the quoted part, and skips those that are no commands. A line may have several,
// with or without commas between them.
func readCommands(text string) (Command, error) {
	var c Command
	lines, found := splitLines(text), false
	var open *[]int // where a line of numbers alone is added: mail programs break long lines
	for i, line := range lines {
		if quoteBegins(lines[i:]) {
			break
		}
		all := clauses(tokens(line), open == nil)
		if open != nil && len(all) == 0 {
			if numbers, err := readNumbers(tokens(line)); err == nil {
				*open = append(*open, numbers...)
				continue
			}
		}
		open = nil
		if !slices.ContainsFunc(all, clause.isCommand) {
			continue
		}
		found = true
		for _, one := range all {
			list, err := c.add(one)
			if err != nil {
				err.Line = clean(line, maxSubject)
				return Command{}, err
			}
			open = list
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

// A clause is a verb and what follows it up to the next one.
type clause struct {
	verb words.Text
	args []string
}

// clauses returns those of a line that begins with a verb. Where verbs may come last, as in "alle freigeben", so does
// each of them in a line that begins with what the first one is about, ends with a verb, and has no other words.
func clauses(line []string, verbsLast bool) (all []clause) {
	var before []string
	verbsLast = verbsLast && len(line) > 0 && isObject(line[0]) && !isObject(line[len(line)-1])
	for _, word := range line {
		switch verb := understood[word]; {
		case verb == wordRelease, verb == wordDelete, verb == wordResume:
			all = append(all, clause{verb, before})
			before = nil
		case verb == wordAnd && len(all)+len(before) > 0:
		case verbsLast && isObject(word):
			before = append(before, word)
		case verbsLast, len(all) == 0:
			return nil
		default:
			last := &all[len(all)-1]
			last.args = append(last.args, word)
		}
	}
	return all
}

// isObject reports whether a word says which messages are meant.
func isObject(word string) bool {
	return understood[word] == wordAll || strings.IndexByte("0123456789-", word[0]) >= 0
}

// isCommand reports whether a clause is meant as a command, valid or not, as in "release all but 2".
func (c clause) isCommand() bool {
	if len(c.args) == 0 {
		return true
	}
	return c.verb != wordResume && isObject(c.args[0])
}

// add adds a clause. It returns the list that its numbers were added to, if it had any.
func (c *Command) add(one clause) (*[]int, *CommandError) {
	list, all := &c.Release, &c.ReleaseAll
	if one.verb == wordDelete {
		list, all = &c.Delete, &c.DeleteAll
	}
	switch {
	case one.verb == wordResume && len(one.args) > 0:
		return nil, unreadable(one.args[0])
	case one.verb == wordResume:
		c.Resume = true
		return nil, nil
	case len(one.args) == 1 && understood[one.args[0]] == wordAll:
		*all = true
		return nil, nil
	}
	numbers, err := readNumbers(one.args)
	*list = append(*list, numbers...)
	return list, err
}

func unreadable(word string) *CommandError {
	return wrong("cannot read \"{text}\"", "text", clean(word, 20))
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

// signs are what people put around commands, and between them.
const signs = ".!:*\"'`•“”"

var between = strings.NewReplacer("–", "-", "—", "-", ",", " ", ";", " ", "#", " ", "&", " ")

// tokens are the words of a line, in lower case. A range is one of them, however it is written.
func tokens(line string) []string {
	line = strings.TrimLeft(between.Replace(strings.ToLower(line)), "- ")
	all := strings.Fields(strings.ReplaceAll(strings.Join(strings.Fields(line), " "), " - ", "-"))
	for i := range all {
		all[i] = strings.Trim(all[i], signs)
	}
	return slices.DeleteFunc(all, func(word string) bool { return word == "" })
}

// readNumbers reads numbers and ranges. The list is in order, each number once.
func readNumbers(text []string) ([]int, *CommandError) {
	var in [MaxLines + 1]bool
	for _, word := range text {
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
		return 0, unreadable(text)
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

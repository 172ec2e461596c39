package notice

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	Line string // as it was written; empty if the error is about several
	Msg  string
}

func (e *CommandError) Error() string {
	if e.Line == "" {
		return "notice: " + e.Msg
	}
	return fmt.Sprintf("notice: %q: %s", e.Line, e.Msg)
}

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
		switch verb {
		case "release":
			list, all = &c.Release, &c.ReleaseAll
		case "delete":
			list, all = &c.Delete, &c.DeleteAll
		}
		open = nil
		switch {
		case verb == "resume" && rest == "":
			c.Resume, found = true, true
		case list == nil: // something else
		case rest == "all":
			*all, found = true, true
		case rest == "" || isAbout(rest):
			numbers, err := readNumbers(rest)
			if err != nil {
				return Command{}, &CommandError{clean(line, maxSubject), err.Error()}
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
	return strings.HasPrefix(rest, "all ") || strings.HasPrefix(rest, "all,") ||
		strings.IndexByte("0123456789-#", rest[0]) >= 0
}

func (c *Command) contradiction() error {
	which := ""
	switch {
	case c.ReleaseAll && c.DeleteAll:
		which = "everything"
	case c.ReleaseAll && len(c.Delete) > 0:
		which = "mail " + strconv.Itoa(c.Delete[0])
	case c.DeleteAll && len(c.Release) > 0:
		which = "mail " + strconv.Itoa(c.Release[0])
	}
	both := slices.IndexFunc(c.Release, func(n int) bool { return slices.Contains(c.Delete, n) })
	switch {
	case which == "" && both < 0:
		return nil
	case which == "":
		which = "mail " + strconv.Itoa(c.Release[both])
	}
	return &CommandError{Msg: which + " cannot be both released and deleted"}
}

// split returns the first word of a line and the rest, in lower case and without the signs people put around commands.
func split(line string) (verb, rest string) {
	line = strings.ToLower(strings.Trim(line, " .!,;:*\"'`•“”"))
	line = strings.TrimLeft(strings.TrimPrefix(line, "- "), " ")
	verb, rest, _ = strings.Cut(line, " ")
	return strings.TrimRight(verb, ",:"), strings.TrimSpace(rest)
}

// readNumbers reads "1 3", "1,3", "1-3" and "1 and 3". The list is in order, each number once.
func readNumbers(text string) ([]int, error) {
	var in [MaxLines + 1]bool
	text = strings.NewReplacer("–", "-", "—", "-", ",", " ", ";", " ", "#", " ", "&", " ").Replace(text)
	text = strings.ReplaceAll(strings.Join(strings.Fields(text), " "), " - ", "-")
	for word := range strings.FieldsSeq(text) {
		if word == "and" {
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
			return nil, fmt.Errorf("%s goes backwards", word)
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
		return nil, errors.New("say which: all, or numbers")
	}
	return all, nil
}

func readNumber(text string) (int, error) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("%q is no number", clean(text, 20))
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxLines {
		return 0, fmt.Errorf("there is no mail %s", clean(text, 20))
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
	switch {
	case strings.HasPrefix(line, ">"), line == "--", strings.Contains(line, Mark),
		strings.HasPrefix(line, "-----"), strings.HasPrefix(line, "_____"), slices.ContainsFunc(froms, is),
		strings.HasSuffix(line, " wrote:"), strings.HasSuffix(line, " schrieb:"):
		return true
	}
	// The line "On Monday Ann wrote:" may be broken.
	return strings.HasPrefix(line, "on ") && slices.ContainsFunc(lines[1:min(len(lines), 4)], func(next string) bool {
		return strings.HasSuffix(" "+strings.ToLower(next), " wrote:")
	})
}

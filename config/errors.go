package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"weir"
	"weir/internal/yamltree"
)

// An Error is one mistake in a configuration, with its position.
type Error struct {
	File   string // as it was named to Load or Parse
	Line   int    // from 1; 0 when the mistake is about the file as a whole
	Column int    // from 1, in characters
	Msg    string // what is wrong
	Hint   string // what to write instead, where that is known

	source string // the line that it stands on
	cause  error
	final  bool // reading on is useless
}

// Error returns it on one line, as in: weir.yaml:12:7: unknown key "lmit" (did you mean "limit"?)
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": " + e.Msg)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Unwrap returns what the system said, for a file that could not be read.
func (e *Error) Unwrap() error { return e.cause }

// Explain returns it for people: the message, the source line below it and a caret under the column.
func (e *Error) Explain() string {
	if e.Line == 0 {
		return e.Error() + "\n"
	}
	line, column := excerpt(e.source, e.Column)
	margin := fmt.Sprintf("%6d", e.Line)
	return fmt.Sprintf("%s\n%s | %s\n%*s | %s^\n", e.Error(), margin, line, len(margin), "",
		strings.Repeat(" ", column-1))
}

// excerpt cuts a long line down to what stands around a column and makes every character one column wide.
func excerpt(line string, column int) (string, int) {
	const width, before = 120, 60
	runes := []rune(line)
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = ' '
		}
	}
	column = min(column, len(runes)+1)
	if len(runes) > width && column > before {
		cut := column - before
		runes, column = runes[cut:], column-cut
	}
	if len(runes) > width {
		runes = runes[:width]
	}
	return string(runes), column
}

// Errors are all the mistakes in a configuration, in the order of the file.
type Errors []*Error

// Error returns one mistake per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Explain returns every mistake with its source line and a caret under the column.
func (e Errors) Explain() string {
	var b strings.Builder
	for _, one := range e {
		b.WriteString(one.Explain())
	}
	return b.String()
}

// Unwrap returns the mistakes for errors.Is and errors.As.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}

// MaxErrors is how many mistakes are reported; the rest is only counted.
const MaxErrors = 200

// tidy sorts the mistakes by position, drops repetitions and bounds their number.
func (e Errors) tidy() Errors {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Msg, b.Msg))
	})
	e = slices.CompactFunc(e, func(a, b *Error) bool {
		return a.Line == b.Line && a.Column == b.Column && a.Msg == b.Msg
	})
	if more := len(e) - MaxErrors; more > 0 {
		last := *e[MaxErrors]
		last.Msg, last.Hint = fmt.Sprintf("%d more errors from here on", more), ""
		e = append(e[:MaxErrors:MaxErrors], &last)
	}
	return e
}

// At puts mistakes that were found after a file was loaded at their lines. The file is read again; if it cannot be,
// they have no lines.
func At(path string, all []*weir.FieldError) (errs Errors) {
	data, err := readFile(path)
	text := strings.TrimPrefix(string(data), "\uFEFF")
	var root *yamltree.Node
	if err == nil && len(data) <= MaxFile && yamltree.Readable(text) == nil {
		root, _, _ = sections(text)
	}
	if root == nil {
		for _, fe := range all {
			errs = append(errs, &Error{File: path, Msg: fe.Error()})
		}
		return errs
	}
	for _, fe := range all {
		p := locate(root, fe.Path)
		if fe.Path == "" || len(p.nodes) == 1 { // it is about no line
			errs = append(errs, &Error{File: path, Msg: fe.Error()})
			continue
		}
		s := source{name: path, lines: strings.Split(text, "\n")}
		errs = append(errs, s.annotate(Errors{mistake(p.at, fe.Msg, fe.Hint)})...)
	}
	return errs
}

// A target is where a path leads to in the tree.
type target struct {
	at    yamltree.Position
	nodes []*yamltree.Node // from the root down
	exact bool             // the path leads to a value; else at is the nearest thing around it
}

// locate follows a path such as throttles.plans.quota.policies[2].limit as far as the tree goes. Keys may contain dots
// and brackets, so at each step the longest key that fits is taken.
func locate(root *yamltree.Node, path string) target {
	p := target{at: root.At, nodes: []*yamltree.Node{root}}
	for n := root; path != ""; {
		next, at, rest := step(n, path)
		if next == nil {
			return p
		}
		p.at = at
		if next.Kind == yamltree.Scalar {
			p.at = next.At
		}
		p.nodes = append(p.nodes, next)
		n, path = next, rest
	}
	p.exact = true
	return p
}

func step(n *yamltree.Node, path string) (next *yamltree.Node, at yamltree.Position, rest string) {
	switch n.Kind {
	case yamltree.Mapping:
		longest := -1
		for _, p := range n.Pairs {
			key := p.Key
			if p.As != "" {
				key = p.As
			}
			after, fits := strings.CutPrefix(path, key)
			// Of two equal keys the first counts, as in the decoder.
			if fits && len(key) > longest && (after == "" || after[0] == '.' || after[0] == '[') {
				longest, next, at, rest = len(key), p.Value, p.At, strings.TrimPrefix(after, ".")
			}
		}
	case yamltree.List:
		index, after, closed := strings.Cut(strings.TrimPrefix(path, "["), "]")
		i, err := strconv.Atoi(index)
		if closed && err == nil && i >= 0 && i < len(n.Items) {
			next, at, rest = n.Items[i], n.Items[i].At, strings.TrimPrefix(after, ".")
		}
	}
	return next, at, rest
}

// follows reports whether a mistake may be there only because of one that the decoder has reported: one mistake is
// told once.
func (d *decoder) follows(p target) bool {
	if slices.ContainsFunc(p.nodes, func(n *yamltree.Node) bool { return d.failed[n] }) {
		return true
	}
	// A key that nobody knows may have been meant for what is missing beside it. A value that could not be read is
	// missing for what is said about the whole.
	last := p.nodes[len(p.nodes)-1]
	return last.Kind == yamltree.Mapping && (d.strange[last] || p.exact && d.failedBelow(last))
}

// failedBelow reports whether the value of a key could not be read.
func (d *decoder) failedBelow(n *yamltree.Node) bool {
	return slices.ContainsFunc(n.Pairs, func(p yamltree.Pair) bool { return d.failed[p.Value] })
}

// unsureThrottles returns the paths at which a throttle is named about which the decoder has reported something. No
// list is to blame for a throttle that could not be read.
func (d *decoder) unsureThrottles(root *yamltree.Node, c *Config) map[string]bool {
	all := locate(root, "throttles")
	gone := !all.exact && d.strange[root] || all.exact && d.failed[all.nodes[1]]
	paths := map[string]bool{}
	note := func(path string, names []string) {
		for i, name := range names {
			_, known := c.Throttles[name]
			if !known && gone || known && d.follows(locate(root, "throttles."+name)) {
				paths[fmt.Sprintf("%s[%d]", path, i)] = true
			}
		}
	}
	for _, u := range c.uses() {
		note(u.path, u.Names)
	}
	if c.Bans.Auto != nil {
		note("bans.auto.throttles", c.Bans.Auto.Throttles)
	}
	return paths
}

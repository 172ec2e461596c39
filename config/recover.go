package config

import (
	"strings"

	"weir/internal/yamltree"
)

// maxBroken is how many broken sections are looked for; each costs another run of the parser.
const maxBroken = 5

// sections reads text as tree does. Where the syntax is broken it takes the section out that the mistake stands in, the
// lines from one key at the left margin to the next, and reads the others: so that a missing quote does not hide
// mistakes elsewhere.
func sections(text string) (root *yamltree.Node, size int, broken Errors) {
	root, size, err := tree(text)
	lines := strings.SplitAfter(text, "\n")
	for err != nil {
		broken = append(broken, err)
		if err.final || len(broken) == maxBroken || !takeOut(lines, err) {
			return nil, 0, broken
		}
		root, size, err = tree(strings.Join(lines, ""))
	}
	return root, size, broken
}

// takeOut empties the lines of the section that a mistake stands in. It reports whether there was anything to empty.
func takeOut(lines []string, err *Error) bool {
	at := min(max(err.Line, 1), len(lines)) - 1
	first := at
	for first > 0 && !startsSection(lines[first]) {
		first--
	}
	if first == at && err.Column == 1 && first > 0 {
		// The parser stumbles over the first word of a section when the one before it is not closed.
		for first--; first > 0 && !startsSection(lines[first]); first-- {
		}
	}
	end := at + 1
	for end < len(lines) && !startsSection(lines[end]) {
		end++
	}
	changed := false
	for i := first; i < end; i++ {
		if strings.TrimRight(lines[i], "\r\n") != "" {
			lines[i] = "\n"
			changed = true
		}
	}
	return changed
}

func startsSection(line string) bool {
	return line != "" && !strings.ContainsRune(" \t\r\n#-]}", rune(line[0]))
}

// tree reads YAML text, or returns its first mistake.
func tree(text string) (root *yamltree.Node, size int, err *Error) {
	root, size, errs := yamltree.Parse(text, yamltree.Options{MaxDepth: MaxDepth, MaxKeys: MaxKeys,
		Second: "a configuration is one document; leave the --- out"})
	if len(errs) > 0 {
		return nil, 0, fromTree(errs[0])
	}
	return root, size, nil
}

func fromTree(e *yamltree.Error) *Error {
	made := mistake(e.At, e.Msg, e.Hint)
	made.final = e.Final
	return made
}

// mistake returns an error at a position; the file and the source line are filled in later.
func mistake(p yamltree.Position, msg, hint string) *Error {
	return &Error{Line: p.Line, Column: p.Column, Msg: msg, Hint: hint}
}

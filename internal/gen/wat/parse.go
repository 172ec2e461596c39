package main

import (
	"fmt"
	"strings"
)

// A node is an atom, or a list in brackets.
type node struct {
	atom string // empty for a list
	list []node
	line int
}

// head is the first atom of a list.
func (n *node) head() string {
	if len(n.list) == 0 {
		return ""
	}
	return n.list[0].atom
}

// An at is an error at a line.
func (n *node) at(format string, args ...any) error {
	return fmt.Errorf("%d: %s", n.line, fmt.Sprintf(format, args...))
}

// maxDepth is how deep brackets may be nested.
const maxDepth = 200

// parse reads one list.
func parse(text string) (node, error) {
	p := &parser{text: text, line: 1}
	n, err := p.next(0)
	if err != nil {
		return n, err
	}
	if p.skip(); p.text != "" {
		return n, fmt.Errorf("%d: something follows the module", p.line)
	}
	return n, nil
}

type parser struct {
	text string
	line int
}

// skip passes white space and comments.
func (p *parser) skip() {
	for p.text != "" {
		switch {
		case strings.HasPrefix(p.text, ";;"):
			end := strings.IndexByte(p.text, '\n')
			if end < 0 {
				end = len(p.text)
			}
			p.text = p.text[end:]
		case p.text[0] == '\n':
			p.line++
			p.text = p.text[1:]
		case p.text[0] == ' ' || p.text[0] == '\t' || p.text[0] == '\r':
			p.text = p.text[1:]
		default:
			return
		}
	}
}

func (p *parser) next(depth int) (node, error) {
	p.skip()
	n := node{line: p.line}
	if p.text == "" || p.text[0] == ')' || depth > maxDepth {
		return n, n.at("a bracket is missing or too many, or they are nested too deep")
	}
	if p.text[0] != '(' {
		end := strings.IndexAny(p.text, " \t\r\n()")
		if end < 0 {
			end = len(p.text)
		}
		n.atom, p.text = p.text[:end], p.text[end:]
		return n, nil
	}
	p.text = p.text[1:]
	for {
		if p.skip(); strings.HasPrefix(p.text, ")") {
			p.text = p.text[1:]
			return n, nil
		}
		inner, err := p.next(depth + 1)
		if err != nil {
			return n, err
		}
		n.list = append(n.list, inner)
	}
}

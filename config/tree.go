package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds on a file. The parser calls itself once for each level and for each key of a mapping, and its work grows with
// the square of either, so both are bounded before it runs.
const (
	MaxFile  = 1 << 20 // bytes; the parser takes some hundred times as much
	MaxDepth = 50      // levels of lists and mappings
	MaxKeys  = 20_000  // keys in the whole file
	// maxUnfolded is how many values aliases may add to those that are written out.
	maxUnfolded = 100_000
)

type kind uint8

const (
	scalar kind = iota
	null        // nothing, ~ or null
	mapping
	list
)

func (k kind) String() string {
	return [...]string{"a single value", "nothing", "a mapping", "a list"}[k]
}

// A node is a value in the file. A node that has aliases is shared, so that nodes are a graph without cycles.
type node struct {
	kind  kind
	at    position
	text  string // of a scalar, as written: 0644 and yes are text until a field says otherwise
	pairs []pair // of a mapping
	items []*node
}

type pair struct {
	key   string
	at    position // of the key
	value *node
	as    string // the key that was meant, where the one written is not known
}

type position struct{ line, column int }

// tree reads YAML text. Of mistakes in the syntax it can tell one only, since what follows cannot be understood.
func tree(text string) (root *node, size int, err *Error) {
	tokens := lexer.Tokenize(text)
	if e := bounded(tokens); e != nil {
		e.final = true
		return nil, 0, e
	}
	file, parseErr := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if parseErr != nil {
		return nil, 0, syntaxError(parseErr)
	}
	b := builder{anchors: map[string]*node{}}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if root != nil {
			e := mistake(at(doc.Body), "a second document starts here",
				"a configuration is one document; leave the --- out")
			return nil, 0, e
		}
		root = b.node(doc.Body)
	}
	if b.err != nil {
		return nil, 0, b.err
	}
	return root, b.size, nil
}

// mistake returns an error at a position; the file and the source line are filled in later.
func mistake(p position, msg, hint string) *Error {
	return &Error{Line: p.line, Column: p.column, Msg: msg, Hint: hint}
}

// bounded looks at depth and keys before the parser runs.
func bounded(tokens token.Tokens) *Error {
	var columns []int // of the block structures that are open
	flow, keys := 0, 0
	for i, tk := range tokens {
		start := tk
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow = max(flow-1, 0)
			continue
		case token.MappingValueType:
			if keys++; keys > MaxKeys {
				return mistake(tokenAt(tk), fmt.Sprintf("the file has more than %d keys", MaxKeys), "")
			}
			if i > 0 && tokens[i-1].Position.Line == tk.Position.Line {
				start = tokens[i-1]
			}
		case token.SequenceEntryType, token.MappingKeyType:
		default:
			continue
		}
		if flow == 0 {
			column := start.Position.Column
			for len(columns) > 0 && columns[len(columns)-1] > column {
				columns = columns[:len(columns)-1]
			}
			if len(columns) == 0 || columns[len(columns)-1] < column {
				columns = append(columns, column)
			}
		}
		if flow+len(columns) > MaxDepth {
			return mistake(tokenAt(tk), fmt.Sprintf("lists and mappings are nested deeper than %d levels", MaxDepth),
				"")
		}
	}
	return nil
}

func tokenAt(tk *token.Token) position {
	if tk == nil || tk.Position == nil {
		return position{1, 1}
	}
	return position{tk.Position.Line, tk.Position.Column}
}

// at returns where a node starts. The parser places a mapping at its first colon; people look for its first key.
func at(n ast.Node) position {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return at(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return at(n.Key)
	}
	return tokenAt(n.GetToken())
}

// syntaxHints say in other words what the parser says. The first that the message contains counts.
var syntaxHints = []struct{ part, msg, hint string }{
	{"'\t'", "a tab stands where YAML wants spaces", "indent with spaces"},
	{"tab character", "a tab stands where YAML wants spaces", "indent with spaces"},
	{"could not find end character of", "a quote is opened here and never closed", ""},
	{"mapping value is not allowed", "a second key stands on the line of another",
		"begin a new line, or put the value in quotes"},
	{"non-map value is specified", "there is no colon after this key", "write key: value"},
	{"must be specified", "a list or mapping in brackets is not closed before this",
		"is a comma or a closing bracket missing?"},
	{"could not find flow m", "a brace is opened here and never closed", "write }"},
	{"could not find flow s", "a bracket is opened here and never closed", "write ]"},
	{"sequence end token", "a bracket is opened here and never closed", "write ]"},
	{"character corresponding to", "a bracket is closed that was never opened", ""},
	{"reserved character", "", "put the value in quotes"},
	{"unexpected directive", "a value cannot start with %", "put the value in quotes"},
	{"value is not allowed in this context", "this does not belong here", "check the indentation"},
	{"invalid key", "a list or mapping cannot be a key", ""},
	{"escape character", "", `write \\ for a backslash, or use 'single quotes'`},
}

func syntaxError(err error) *Error {
	var detail interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &detail) {
		return mistake(position{1, 1}, "this is not YAML", "")
	}
	e := mistake(tokenAt(detail.GetToken()), detail.GetMessage(), "")
	for _, h := range syntaxHints {
		if strings.Contains(e.Msg, h.part) {
			e.Hint = h.hint
			if h.msg != "" {
				e.Msg = h.msg
			}
			break
		}
	}
	return e
}

// builder turns the parser's tree into ours.
type builder struct {
	anchors map[string]*node
	size    int
	err     *Error // the first
}

func (b *builder) fail(n ast.Node, msg, hint string) *node {
	if b.err == nil {
		b.err = mistake(at(n), msg, hint)
	}
	return &node{kind: null, at: at(n)}
}

func (b *builder) node(n ast.Node) *node {
	b.size++
	switch n := n.(type) {
	case nil:
		return &node{kind: null, at: position{1, 1}}
	case *ast.NullNode:
		return &node{kind: null, at: at(n)}
	case *ast.LiteralNode:
		return &node{at: at(n), text: n.Value.Value}
	case *ast.MappingNode:
		m := &node{kind: mapping, at: at(n)}
		for _, v := range n.Values {
			m.pairs = append(m.pairs, b.pair(v))
		}
		return m
	case *ast.MappingValueNode:
		return &node{kind: mapping, at: at(n), pairs: []pair{b.pair(n)}}
	case *ast.SequenceNode:
		l := &node{kind: list, at: at(n)}
		for _, v := range n.Values {
			l.items = append(l.items, b.node(v))
		}
		return l
	case *ast.AnchorNode:
		value := b.node(n.Value)
		// Registered after its value is read: an alias inside it cannot mean itself, and the graph has no cycle.
		if n.Name != nil {
			b.anchors[n.Name.GetToken().Value] = value
		}
		return value
	case *ast.AliasNode:
		name := ""
		if n.Value != nil {
			name = n.Value.GetToken().Value
		}
		if target, known := b.anchors[name]; known {
			return target
		}
		return b.fail(n, fmt.Sprintf("there is no anchor %q before this", name), "quote a value that starts with *")
	case *ast.TagNode:
		return b.fail(n, "tags are not read here", "leave it out, or quote a value that starts with !")
	case ast.ScalarNode:
		return &node{at: at(n), text: n.GetToken().Value}
	default:
		return b.fail(n, "this cannot be read here", "")
	}
}

func (b *builder) pair(v *ast.MappingValueNode) pair {
	var key ast.Node = v.Key
	if explicit, ok := key.(*ast.MappingKeyNode); ok && explicit.Value != nil {
		key = explicit.Value // written as "? key"
	}
	p := pair{at: at(key)}
	switch k := key.(type) {
	case *ast.MergeKeyNode:
		b.fail(key, "<< is not read here", "write the keys out, or use an alias for the whole value")
	case *ast.LiteralNode, *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		b.fail(key, "a key is a plain word", "")
	case ast.ScalarNode:
		p.key = k.GetToken().Value
	default:
		b.fail(key, "a list or mapping cannot be a key", "")
	}
	p.value = b.node(v.Value)
	return p
}

// readable finds text that no editor wrote: bytes that are not UTF-8, and control characters.
func readable(text string) *Error {
	line, column := 1, 0
	for i, r := range text {
		column++
		switch {
		case r == '\n':
			line, column = line+1, 0
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			return mistake(position{line, column}, "this is not UTF-8 text", "is it the right file?")
		case r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			return mistake(position{line, column}, fmt.Sprintf("a control character (%U) stands here", r),
				"is it the right file?")
		}
	}
	return nil
}

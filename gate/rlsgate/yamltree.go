package rlsgate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"weir"
)

// The parser calls itself for each list and mapping within another, and for each key of a mapping, and its work grows
// with the square of the latter: both are bounded before it runs.
const (
	maxDepth = 2*maxLevels + 10
	maxKeys  = 1000 // of one mapping; the format has nine
)

type kind uint8

const (
	scalar kind = iota
	null
	mapping
	list
)

// A node is a value in the file. Aliases share nodes, which have no cycles.
type node struct {
	kind         kind
	line, column int
	text         string // of a scalar, as written
	plain        bool   // … without quotes
	keys         []pair
	items        []*node
}

type pair struct {
	key, value *node
	merged     bool // it came by <<, so that one that is written out goes before it
}

// A reader reads one file and collects its mistakes.
type reader struct {
	file    string
	anchors map[string]*node
	merged  int // keys that came by <<
	errs    []error
}

func (r *reader) failAt(line, column int, msg, hint string) {
	r.errs = append(r.errs, &FileError{File: r.file, Line: line, Column: column, Msg: msg, Hint: hint})
}

// fail notes a mistake at a node; nil stands for the file.
func (r *reader) fail(n *node, msg, hint string) {
	if n == nil {
		n = &node{}
	}
	r.failAt(n.line, n.column, msg, hint)
}

// parse makes a tree of the text, or notes why it cannot.
func (r *reader) parse(text string) (root *node) {
	defer func() {
		if failure := recover(); failure != nil { // of the parser, on text that nobody writes
			root = nil
			r.failAt(0, 0, "this is not YAML", "")
		}
	}()
	if !utf8.ValidString(text) {
		r.failAt(0, 0, "this is not UTF-8 text", "is it the right file?")
		return nil
	}
	tokens := lexer.Tokenize(text)
	if !r.shallow(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return nil
	}
	r.anchors = map[string]*node{}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if root != nil {
			line, column := position(doc.Body)
			r.failAt(line, column, "a second document starts here", "the original would not read it; leave the --- out")
			return nil
		}
		root = r.node(doc.Body)
	}
	if len(r.errs) > 0 {
		return nil
	}
	if root == nil {
		r.failAt(0, 0, "the file is empty", "write domain: and descriptors:")
	}
	return root
}

// shallow looks at depth and keys before the parser runs.
func (r *reader) shallow(tokens token.Tokens) bool {
	type block struct{ column, keys int }
	var open []block
	flow := 0
	for i, tk := range tokens {
		start, key := tk, 0
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow = max(flow-1, 0)
			continue
		case token.MappingValueType:
			if key = 1; i > 0 && tokens[i-1].Position.Line == tk.Position.Line {
				start = tokens[i-1]
			}
		case token.SequenceEntryType, token.MappingKeyType:
		default:
			continue
		}
		if flow == 0 {
			column := start.Position.Column
			for len(open) > 0 && open[len(open)-1].column > column {
				open = open[:len(open)-1]
			}
			if len(open) == 0 || open[len(open)-1].column < column {
				open = append(open, block{column: column})
			}
			top := &open[len(open)-1]
			if top.keys += key; top.keys > maxKeys {
				r.failAt(tk.Position.Line, tk.Position.Column, fmt.Sprintf("a mapping has more than %d keys", maxKeys),
					"")
				return false
			}
		}
		if flow+len(open) > maxDepth {
			r.failAt(tk.Position.Line, tk.Position.Column,
				fmt.Sprintf("lists and mappings are nested deeper than %d levels", maxDepth), "")
			return false
		}
	}
	return true
}

func (r *reader) syntax(err error) {
	var detail interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &detail) {
		r.failAt(0, 0, "this is not YAML", "")
		return
	}
	msg, hint := detail.GetMessage(), ""
	if strings.Contains(msg, "'\t'") || strings.Contains(msg, "tab character") {
		msg, hint = "a tab stands where YAML wants spaces", "indent with spaces"
	}
	line, column := tokenPosition(detail.GetToken())
	r.failAt(line, column, msg, hint)
}

func tokenPosition(tk *token.Token) (line, column int) {
	if tk == nil || tk.Position == nil {
		return 1, 1
	}
	return tk.Position.Line, tk.Position.Column
}

// position is where a node starts. The parser places a mapping at its first colon; people look for its first key.
func position(n ast.Node) (line, column int) {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return position(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return position(n.Key)
	}
	return tokenPosition(n.GetToken())
}

// node turns the parser's tree into ours.
func (r *reader) node(n ast.Node) *node {
	if n == nil {
		return &node{kind: null, line: 1, column: 1}
	}
	made := &node{}
	made.line, made.column = position(n)
	switch n := n.(type) {
	case *ast.NullNode:
		made.kind = null
	case *ast.LiteralNode:
		made.text = n.Value.Value
	case *ast.MappingNode:
		made.kind = mapping
		for _, v := range n.Values {
			r.pair(made, v)
		}
	case *ast.MappingValueNode:
		made.kind = mapping
		r.pair(made, n)
	case *ast.SequenceNode:
		made.kind = list
		for _, v := range n.Values {
			made.items = append(made.items, r.node(v))
		}
	case *ast.AnchorNode:
		value := r.node(n.Value)
		// Known after its value is read: an alias inside it cannot mean itself.
		r.anchors[n.Name.GetToken().Value] = value
		return value
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		if target, known := r.anchors[name]; known {
			return target
		}
		r.fail(made, fmt.Sprintf("there is no anchor %q before this", name), "quote a value that starts with *")
	case *ast.TagNode:
		r.fail(made, "tags are not read here", "leave it out, or quote a value that starts with !")
	case ast.ScalarNode:
		made.text = n.GetToken().Value
		made.plain = n.Type() != ast.StringType || n.GetToken().Type == token.StringType
	default:
		r.fail(made, "this cannot be read here", "")
	}
	return made
}

// pair adds a key with its value to a mapping; << adds those of another mapping that are not written out.
func (r *reader) pair(into *node, v *ast.MappingValueNode) {
	if _, merge := v.Key.(*ast.MergeKeyNode); !merge {
		into.keys = append(into.keys, pair{key: r.node(v.Key), value: r.node(v.Value)})
		return
	}
	value := r.node(v.Value)
	from := []*node{value}
	if value.kind == list {
		from = value.items
	}
	for _, m := range from {
		if m.kind != mapping {
			r.fail(m, "<< takes a mapping", "write <<: *name of one")
			continue
		}
		if r.merged += len(m.keys); r.merged > maxMerged {
			r.fail(m, fmt.Sprintf("more than %d keys come by <<", maxMerged), "")
			return
		}
		for _, p := range m.keys {
			into.keys = append(into.keys, pair{p.key, p.value, true})
		}
	}
}

// maxMerged is how many keys may come by <<: few lines could else stand for any number.
const maxMerged = 100_000

// mapping returns the fields of a mapping by their keys. What it does not know is a mistake.
func (r *reader) mapping(n *node, what string, known []string) map[string]*node {
	fields := map[string]*node{}
	if n == nil || n.kind != mapping {
		r.fail(n, what+" is a mapping", "write key: value")
		return fields
	}
	written := map[string]bool{}
	for _, p := range n.keys {
		key := p.key.text
		switch {
		case p.key.kind != scalar || !slices.Contains(known, key):
			r.fail(p.key, fmt.Sprintf("unknown key %q in %s", key, what), keyHint(key, known))
		case p.merged:
			if fields[key] == nil {
				fields[key] = p.value
			}
		case written[key]:
			r.fail(p.key, fmt.Sprintf("the key %q comes twice", key), "leave one out")
		default:
			written[key] = true
			fields[key] = p.value
		}
	}
	return fields
}

// keyHint says what was meant, or where a key of the format belongs.
func keyHint(key string, known []string) string {
	for _, place := range []struct {
		name string
		keys []string
	}{{"in rate_limit", limitKeys}, {"in a descriptor", descriptorKeys}, {"at the top of the file", rootKeys}} {
		if slices.Contains(place.keys, key) {
			return "it belongs " + place.name
		}
	}
	if near := weir.Nearest(key, known...); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "there are " + strings.Join(known, ", ")
}

// list returns the items of a list. Nothing is an empty one.
func (r *reader) list(n *node) []*node {
	switch {
	case n == nil || n.kind == null:
		return nil
	case n.kind != list:
		r.fail(n, "a list is wanted here", "begin each item with a dash")
		return nil
	}
	return n.items
}

// text returns a single value as it is written. Nothing is none.
func (r *reader) text(n *node) (s string, given bool) {
	switch {
	case n == nil || n.kind == null:
		return "", false
	case n.kind != scalar:
		r.fail(n, "a single value is wanted here", "")
		return "", false
	}
	return n.text, true
}

// bool reads yes or no. Nothing is no.
func (r *reader) bool(n *node) bool {
	s, given := r.text(n)
	if !given {
		return false
	}
	if n.plain {
		switch strings.ToLower(s) { // as YAML 1.1 has them
		case "true", "yes", "on", "y":
			return true
		case "false", "no", "off", "n":
			return false
		}
	}
	r.fail(n, fmt.Sprintf("%q is neither true nor false", s), "write true or false, without quotes")
	return false
}

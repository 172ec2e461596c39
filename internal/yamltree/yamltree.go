package yamltree

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

// Options bound what is read. The parser calls itself for each level and for each key of a mapping, and its work grows
// with the square of both. So levels and keys are counted before it runs.
type Options struct {
	MaxDepth  int    // levels of lists and mappings
	MaxKeys   int    // in the whole file; 0 for any number
	MaxOwn    int    // keys of one mapping; 0 for any number
	MaxMerged int    // keys that mappings get by <<; with 0, << is a mistake
	Second    string // hint for a second document
}

type Kind uint8

const (
	Scalar Kind = iota
	Null        // nothing, ~ or null
	Mapping
	List
)

// A Node is a value in the file. A node that has aliases is shared, so that nodes are a graph without cycles.
type Node struct {
	Kind  Kind
	At    Position
	Text  string // of a scalar, as written: 0644 and yes are text until a field says otherwise
	Plain bool   // the scalar is written without quotes
	Pairs []Pair // of a mapping
	Items []*Node
}

type Pair struct {
	Key    string
	At     Position // of the key
	Value  *Node
	Merged bool   // it came by <<: the same key, written out, overrides it
	As     string // set by the caller: the key that was meant, if the one written is unknown
}

// A Position is zero for the file as a whole.
type Position struct{ Line, Column int }

// An Error is a mistake in the text.
type Error struct {
	At        Position
	Msg, Hint string
	Final     bool // the file was not parsed at all
}

// Parse reads YAML text. size is the number of nodes in the text. There is one syntax error at most, since the text
// after it cannot be understood.
func Parse(text string, o Options) (root *Node, size int, errs []*Error) {
	defer func() {
		if recover() != nil { // the parser panics on some garbage
			root, size, errs = nil, 0, []*Error{{Msg: "this is not YAML", Final: true}}
		}
	}()
	tokens := lexer.Tokenize(text)
	if e := o.bounded(tokens); e != nil {
		return nil, 0, []*Error{e}
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, 0, []*Error{syntaxError(err)}
	}
	b := builder{anchors: map[string]*Node{}, left: o.MaxMerged, max: o.MaxMerged}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if root != nil {
			return nil, 0, []*Error{{At: at(doc.Body), Msg: "a second document starts here", Hint: o.Second}}
		}
		root = b.node(doc.Body)
	}
	if b.errs != nil {
		return nil, 0, b.errs
	}
	return root, b.size, nil
}

// bounded checks depth and keys before the parser runs. The depth is that of brackets and braces (flow), and of blocks:
// lists and mappings by indentation, each with the column of its keys or dashes.
func (o Options) bounded(tokens token.Tokens) *Error {
	type block struct{ column, keys int }
	var open []block
	flow, keys := 0, 0
	for i, tk := range tokens {
		fail := func(format string, most int) *Error {
			return &Error{At: tokenAt(tk), Msg: fmt.Sprintf(format, most), Final: true}
		}
		start, own := tk, 0 // the first token of a key or an entry, and how many keys it is
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow = max(flow-1, 0)
			continue
		case token.MappingValueType:
			own = 1
			if keys++; o.MaxKeys > 0 && keys > o.MaxKeys {
				return fail("the file has more than %d keys", o.MaxKeys)
			}
			if i > 0 && tokens[i-1].Position.Line == tk.Position.Line {
				start = tokens[i-1] // tk is the colon behind it
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
			if top.keys += own; o.MaxOwn > 0 && top.keys > o.MaxOwn {
				return fail("a mapping has more than %d keys", o.MaxOwn)
			}
		}
		if flow+len(open) > o.MaxDepth {
			return fail("lists and mappings are nested deeper than %d levels", o.MaxDepth)
		}
	}
	return nil
}

func tokenAt(tk *token.Token) Position {
	if tk == nil || tk.Position == nil {
		return Position{1, 1}
	}
	return Position{tk.Position.Line, tk.Position.Column}
}

// at returns where a node starts. To the parser, a mapping is at its first colon; people look for its first key.
func at(n ast.Node) Position {
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

// syntaxHints are clearer words for messages of the parser. The first one counts whose part is in the message.
var syntaxHints = []struct{ part, msg, hint string }{
	{"'\t'", "YAML does not allow a tab here", "indent with spaces"},
	{"tab character", "YAML does not allow a tab here", "indent with spaces"},
	{"could not find end character of", "a quote is opened here and never closed", ""},
	{"mapping value is not allowed", "two keys on one line",
		"begin a new line, or put the value in quotes"},
	{"non-map value is specified", "there is no colon after this key", "write key: value"},
	{"must be specified", "a bracket is not closed before this",
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
		return &Error{Msg: "this is not YAML"}
	}
	e := &Error{At: tokenAt(detail.GetToken()), Msg: detail.GetMessage()}
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
	anchors   map[string]*Node
	size      int
	left, max int // of the keys that may come by <<
	errs      []*Error
}

func (b *builder) fail(at Position, msg, hint string) {
	b.errs = append(b.errs, &Error{At: at, Msg: msg, Hint: hint})
}

func (b *builder) node(n ast.Node) *Node {
	b.size++
	if n == nil {
		return &Node{Kind: Null, At: Position{1, 1}}
	}
	made := &Node{At: at(n)}
	switch n := n.(type) {
	case *ast.NullNode:
		made.Kind = Null
	case *ast.LiteralNode:
		made.Text = n.Value.Value
	case *ast.MappingNode:
		made.Kind = Mapping
		for _, v := range n.Values {
			b.pair(made, v)
		}
	case *ast.MappingValueNode:
		made.Kind = Mapping
		b.pair(made, n)
	case *ast.SequenceNode:
		made.Kind = List
		for _, v := range n.Values {
			if whole := plainWithColon(v); n.IsFlowStyle && whole != nil {
				b.size++
				made.Items = append(made.Items, whole)
				continue
			}
			made.Items = append(made.Items, b.node(v))
		}
	case *ast.AnchorNode:
		value := b.node(n.Value)
		// It is registered after its value is read. So an alias inside it cannot name it, and the graph has no cycle.
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
		b.fail(made.At, fmt.Sprintf("there is no anchor %q before this", name), "quote a value that starts with *")
	case *ast.TagNode:
		b.fail(made.At, "YAML tags are not supported", "leave it out, or quote a value that starts with !")
	case ast.ScalarNode:
		made.Text = n.GetToken().Value
		made.Plain = n.Type() != ast.StringType || n.GetToken().Type == token.StringType
	default:
		b.fail(made.At, "this cannot be read here", "")
	}
	return made
}

// plainWithColon returns the text of an entry of a list in brackets that the parser takes for a key and a value, or
// nil. A colon without a space behind it belongs to the text (YAML 1.2, 7.3.3). Inside of braces the parser does not
// know that, and everybody writes {servers: [http://127.0.0.1:3000]}.
func plainWithColon(n ast.Node) *Node {
	pair, ok := n.(*ast.MappingValueNode)
	if m, is := n.(*ast.MappingNode); is && !m.IsFlowStyle && len(m.Values) == 1 {
		pair, ok = m.Values[0], true
	}
	if !ok || !isPlain(pair.Key) || !isPlain(pair.Value) {
		return nil
	}
	key, value := pair.Key.GetToken(), pair.Value.GetToken()
	if key.Position.Line != value.Position.Line ||
		value.Position.Column != key.Position.Column+utf8.RuneCountInString(key.Value)+1 {
		return nil
	}
	return &Node{At: tokenAt(key), Text: key.Value + ":" + value.Value, Plain: true}
}

// isPlain reports whether a node is a text, a number or the like without quotes.
func isPlain(n ast.Node) bool {
	scalar, ok := n.(ast.ScalarNode)
	if !ok || n.GetToken() == nil || n.GetToken().Position == nil {
		return false
	}
	switch n.(type) {
	case *ast.NullNode, *ast.LiteralNode, *ast.MergeKeyNode, *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return false
	}
	return scalar.Type() != ast.StringType || n.GetToken().Type == token.StringType
}

// pair adds a key with its value to a mapping.
func (b *builder) pair(into *Node, v *ast.MappingValueNode) {
	var key ast.Node = v.Key
	if explicit, ok := key.(*ast.MappingKeyNode); ok && explicit.Value != nil {
		key = explicit.Value // written as "? key"
	}
	p := Pair{At: at(key)}
	switch k := key.(type) {
	case *ast.MergeKeyNode:
		if b.max > 0 {
			b.merge(into, b.node(v.Value))
			return
		}
		b.fail(p.At, "merge keys (<<) are not supported", "write the keys out, or use an alias for the whole value")
	case *ast.LiteralNode, *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		b.fail(p.At, "a key is a plain word", "")
	case ast.ScalarNode:
		p.Key = k.GetToken().Value
	default:
		b.fail(p.At, "a list or mapping cannot be a key", "")
	}
	p.Value = b.node(v.Value)
	into.Pairs = append(into.Pairs, p)
}

// merge adds the keys of another mapping, or of a list of them.
func (b *builder) merge(into, value *Node) {
	from := []*Node{value}
	if value.Kind == List {
		from = value.Items
	}
	for _, m := range from {
		if m.Kind != Mapping {
			b.fail(m.At, "<< takes a mapping", "write <<: *name of one")
			continue
		}
		if b.left -= len(m.Pairs); b.left < 0 {
			b.fail(m.At, fmt.Sprintf("more than %d keys come by <<", b.max), "")
			return
		}
		for _, p := range m.Pairs {
			p.Merged = true
			into.Pairs = append(into.Pairs, p)
		}
	}
}

// Readable returns an error for text with bytes that are not UTF-8, or with control characters.
func Readable(text string) *Error {
	line, column := 1, 0
	for i, r := range text {
		column++
		switch {
		case r == '\n':
			line, column = line+1, 0
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			return &Error{At: Position{line, column}, Msg: "this is not UTF-8 text", Hint: "is it the right file?"}
		case r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			return &Error{At: Position{line, column}, Msg: fmt.Sprintf("control character (%U)", r),
				Hint: "is it the right file?"}
		}
	}
	return nil
}

package rlsgate

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"weir"
	"weir/internal/yamltree"
)

// Bounds on what is parsed.
const (
	maxDepth  = 2*maxLevels + 10
	maxKeys   = 1000    // of one mapping; the format has nine
	maxMerged = 100_000 // keys that may come by <<, by which a few lines could stand for any number
)

// A reader reads one file and collects its errors.
type reader struct {
	file string
	errs []error
}

func (r *reader) failAt(at yamltree.Position, msg, hint string) {
	path := r.file
	if at.Line > 0 {
		path = fmt.Sprintf("%s:%d:%d", r.file, at.Line, at.Column)
	}
	r.errs = append(r.errs, &weir.FieldError{Path: path, Msg: msg, Hint: hint})
}

// fail notes an error at a node; nil stands for the file.
func (r *reader) fail(n *yamltree.Node, msg, hint string) {
	if n == nil {
		n = &yamltree.Node{}
	}
	r.failAt(n.At, msg, hint)
}

// parse makes a tree of the text. It returns nil after an error.
func (r *reader) parse(text string) *yamltree.Node {
	if !utf8.ValidString(text) {
		r.fail(nil, "this is not UTF-8 text", "is it the right file?")
		return nil
	}
	root, _, errs := yamltree.Parse(text, yamltree.Options{MaxDepth: maxDepth, MaxOwn: maxKeys, MaxMerged: maxMerged,
		Second: "the original would not read it; leave the --- out"})
	for _, e := range errs {
		r.failAt(e.At, e.Msg, e.Hint)
	}
	if root == nil && len(errs) == 0 {
		r.fail(nil, "the file is empty", "write domain: and descriptors:")
	}
	return root
}

// mapping returns the fields of a mapping by their keys. An unknown key is an error.
func (r *reader) mapping(n *yamltree.Node, what string, known []string) map[string]*yamltree.Node {
	fields := map[string]*yamltree.Node{}
	if n == nil || n.Kind != yamltree.Mapping {
		r.fail(n, what+" is a mapping", "write key: value")
		return fields
	}
	written := map[string]bool{}
	for _, p := range n.Pairs {
		key := p.Key
		switch {
		case !slices.Contains(known, key):
			r.failAt(p.At, fmt.Sprintf("unknown key %q in %s", key, what), keyHint(key, known))
		case p.Merged:
			if fields[key] == nil {
				fields[key] = p.Value
			}
		case written[key]:
			r.failAt(p.At, fmt.Sprintf("the key %q comes twice", key), "leave one out")
		default:
			written[key] = true
			fields[key] = p.Value
		}
	}
	return fields
}

// keyHint says where a key of the format belongs, or which key was probably meant.
func keyHint(key string, known []string) string {
	for _, part := range []struct {
		name string
		keys []string
	}{{"in rate_limit", limitKeys}, {"in a descriptor", descriptorKeys}, {"at the top of the file", rootKeys}} {
		if slices.Contains(part.keys, key) {
			return "it belongs " + part.name
		}
	}
	if near := weir.Nearest(key, known...); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "there are " + strings.Join(known, ", ")
}

// list returns the items of a list. A missing list is empty.
func (r *reader) list(n *yamltree.Node) []*yamltree.Node {
	switch {
	case n == nil || n.Kind == yamltree.Null:
		return nil
	case n.Kind != yamltree.List:
		r.fail(n, "expected a list", "begin each item with a dash")
		return nil
	}
	return n.Items
}

// text returns a single value as it is written, and whether there is one.
func (r *reader) text(n *yamltree.Node) (s string, given bool) {
	switch {
	case n == nil || n.Kind == yamltree.Null:
		return "", false
	case n.Kind != yamltree.Scalar:
		r.fail(n, "expected a single value", "")
		return "", false
	}
	return n.Text, true
}

// bool reads true or false. The default is false.
func (r *reader) bool(n *yamltree.Node) bool {
	s, given := r.text(n)
	if !given {
		return false
	}
	if n.Plain {
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

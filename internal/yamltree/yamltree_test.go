package yamltree

import (
	"fmt"
	"strings"
	"testing"
)

// bounds are small enough to be reached in a few lines.
var bounds = Options{MaxDepth: 4, MaxKeys: 8, MaxOwn: 6, MaxMerged: 3, Second: "keep one"}

// show writes a tree with the positions of all nodes and keys.
func show(n *Node) string {
	at := fmt.Sprintf("@%d:%d", n.At.Line, n.At.Column)
	var parts []string
	switch n.Kind {
	case Null:
		return "null" + at
	case Scalar:
		if n.Plain {
			return n.Text + at
		}
		return fmt.Sprintf("%q", n.Text) + at
	case List:
		for _, item := range n.Items {
			parts = append(parts, show(item))
		}
		return "[" + strings.Join(parts, " ") + "]" + at
	}
	for _, p := range n.Pairs {
		merged := ""
		if p.Merged {
			merged = "<"
		}
		parts = append(parts, fmt.Sprintf("%s%s@%d:%d=%s", merged, p.Key, p.At.Line, p.At.Column, show(p.Value)))
	}
	return "{" + strings.Join(parts, " ") + "}" + at
}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text, want string
		size       int
	}{
		"a mapping starts at its first key": {"\n  a: 1\n  b: two\n", "{a@2:3=1@2:6 b@3:3=two@3:6}@2:3", 3},
		"one key":                           {"a: 1", "{a@1:1=1@1:4}@1:1", 2},
		"text stays as written": {"a: 0644\nb: yes\nc: 1_000",
			"{a@1:1=0644@1:4 b@2:1=yes@2:4 c@3:1=1_000@3:4}@1:1", 4},
		"quotes":                        {`a: "1"` + "\nb: 'x'", `{a@1:1="1"@1:4 b@2:1="x"@2:4}@1:1`, 3},
		"a block of text":               {"a: |\n  x\n  y\n", `{a@1:1="x\ny\n"@1:4}@1:1`, 2},
		"nothing":                       {"a:\nb: ~\nc: null", "{a@1:1=null@1:3 b@2:1=null@2:4 c@3:1=null@3:4}@1:1", 4},
		"lists":                         {"- 1\n- [x, y]\n", "[1@1:3 [x@2:4 y@2:7]@2:3]@1:1", 5},
		"in braces":                     {"a: {b: 1}", "{a@1:1={b@1:5=1@1:8}@1:4}@1:1", 3},
		"a key twice is for the caller": {"a: 1\na: 2", "{a@1:1=1@1:4 a@2:1=2@2:4}@1:1", 3},
		"a key with a question mark":    {"? a\n: 1", "{a@1:3=1@2:3}@1:1", 2},
		"an alias is what it names":     {"a: &x [1]\nb: *x", "{a@1:1=[1@1:8]@1:7 b@2:1=[1@1:8]@1:7}@1:1", 5},
		"a colon within a text": {"{a: [x:1, http://h:80, 'q':1, y: 2, 12:30, w:v:u], b: http://h:80}",
			`{a@1:2=[x:1@1:6 http://h:80@1:11 {q@1:24=1@1:28}@1:24 {y@1:31=2@1:34}@1:31 12:30@1:37 w:v:u@1:44]@1:5 ` +
				`b@1:52=http://h:80@1:55}@1:1`, 11},
		"merged keys": {"a: &x {b: 1}\nc:\n  <<: *x\n  d: 2",
			"{a@1:1={b@1:8=1@1:11}@1:7 c@2:1={<b@1:8=1@1:11 d@4:3=2@4:6}@3:3}@1:1", 7},
		"a merged list": {"a: &x {b: 1}\nc: {<<: [*x, *x]}",
			"{a@1:1={b@1:8=1@1:11}@1:7 c@2:1={<b@1:8=1@1:11 <b@1:8=1@1:11}@2:4}@1:1", 8},
		"an empty document beside it": {"---\na: 1\n---\n", "{a@2:1=1@2:4}@2:1", 2},
	} {
		root, size, errs := Parse(test.text, bounds)
		if errs != nil || root == nil {
			t.Errorf("%s: %v, %+v", name, root, errs)
			continue
		}
		if got := show(root); got != test.want || size != test.size {
			t.Errorf("%s:\n%s of %d nodes, want\n%s of %d", name, got, size, test.want, test.size)
		}
	}
	if root, size, errs := Parse("# nothing but this\n", bounds); root != nil || size != 0 || errs != nil {
		t.Errorf("an empty file: %v, %d, %v", root, size, errs)
	}
}

// An alias is the node itself and not a copy, so that aliases of aliases take no more memory than they are written in.
func TestAliasIsShared(t *testing.T) {
	t.Parallel()
	root, _, errs := Parse("a: &x {b: 1}\nc: *x", bounds)
	if errs != nil || root.Pairs[0].Value != root.Pairs[1].Value {
		t.Error("the alias is a copy", errs)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	keys := func(n int) (text string) {
		for i := range n {
			text += fmt.Sprintf("k%d: 1\n", i)
		}
		return text
	}
	for name, test := range map[string]struct {
		text, want string // line:column: text
		final      bool
	}{
		"a tag":                      {"a: !!str 1", "1:4: YAML tags are not supported", false},
		"a tag on a key":             {"!x a: 1", "1:1: a key is a plain word", false},
		"an anchor on a key":         {"&x a: 1", "1:1: a key is a plain word", false},
		"an unknown alias":           {"a: *x", `1:4: there is no anchor "x" before this`, false},
		"an alias of what is around": {"a: &x [*x]", `1:8: there is no anchor "x" before this`, false},
		"a list as a key":            {"[a]: 1", "1:4: a list or mapping cannot be a key", false},
		"<< of a text":               {"a:\n  <<: b", "2:7: << takes a mapping", false},
		"a second document":          {"a: 1\n---\nb: 2", "3:1: a second document starts here", false},
		"a tab":                      {"a:\n\tb: 1", "2:1: YAML does not allow a tab here", false},
		"an open quote":              {`a: "x`, "1:4: a quote is opened here and never closed", false},
		"an open bracket":            {"a: [1", "1:4: a bracket is opened here and never closed", false},
		"keys of a file": {keys(5) + "a:\n  b: 1\n  c: 1\n  d: 1", "9:4: the file has more than 8 keys",
			true},
		"keys of a mapping":      {keys(7), "7:3: a mapping has more than 6 keys", true},
		"depth":                  {"[[[[[1]]]]]", "1:5: lists and mappings are nested deeper than 4 levels", true},
		"depth without brackets": {"- - - - - 1", "1:9: lists and mappings are nested deeper than 4 levels", true},
		"merged keys": {"a: &x {b: 1, c: 2}\nd: {<<: [*x, *x]}",
			"1:7: more than 3 keys come by <<", false},
	} {
		root, _, errs := Parse(test.text, bounds)
		if root != nil || len(errs) != 1 {
			t.Errorf("%s: %v, %d mistakes", name, root, len(errs))
			continue
		}
		e := errs[0]
		if got := fmt.Sprintf("%d:%d: %s", e.At.Line, e.At.Column, e.Msg); got != test.want || e.Final != test.final {
			t.Errorf("%s: %s (final %t), want %s", name, got, e.Final, test.want)
		}
	}
	if _, _, errs := Parse("a: *x\nb: !y 1", bounds); len(errs) != 2 {
		t.Errorf("%d mistakes of two are reported", len(errs))
	}
	if _, _, errs := Parse("a: &x {b: 1}\n<<: *x", Options{MaxDepth: 4}); len(errs) != 1 ||
		errs[0].Msg != "merge keys (<<) are not supported" || errs[0].At != (Position{2, 1}) {
		t.Errorf("without a bound for it << is read: %+v", errs)
	}
}

// The bounds hold for what is exactly at them.
func TestAtTheBounds(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"[[[[1]]]]", "- - - - 1", "a: 1\nb: 1\nc: 1\nd: 1\ne: 1\nf: 1",
		"a: 1\nb: 1\nc: 1\nd: 1\ne:\n  f: 1\n  g: 1\n  h: 1", "a: &x {b: 1, c: 2, d: 3}\ne: {<<: *x}"} {
		if _, _, errs := Parse(text, bounds); errs != nil {
			t.Errorf("%q: %s", text, errs[0].Msg)
		}
	}
}

func TestReadable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: ä\tb\r\n\uFFFD": "",
		"a\nb\xff":          "2:2: this is not UTF-8 text",
		"ä\x00":             "1:2: control character (U+0000)",
		"\n\n\x7f":          "3:1: control character (U+007F)",
	} {
		got := ""
		if e := Readable(text); e != nil {
			got = fmt.Sprintf("%d:%d: %s", e.At.Line, e.At.Column, e.Msg)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

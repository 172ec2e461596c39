package main

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// The sections and kinds of the binary format (WebAssembly Core Specification 1.0, 5.5).
const (
	sectionType     = 1
	sectionFunction = 3
	sectionMemory   = 5
	sectionExport   = 7
	sectionCode     = 10

	kindFunction = 0
	kindMemory   = 2

	typeFunction = 0x60
	typeNothing  = 0x40
)

var types = map[string]byte{"i32": 0x7f, "i64": 0x7e}

// plain are the instructions without immediates, and how many operands they have.
var plain = map[string]struct {
	opcode   byte
	operands int
}{
	"return": {0x0f, 0}, "drop": {0x1a, 1}, "select": {0x1b, 3},
	"i32.eqz": {0x45, 1}, "i32.eq": {0x46, 2}, "i32.ne": {0x47, 2}, "i32.lt_u": {0x49, 2}, "i32.gt_u": {0x4b, 2},
	"i32.le_u": {0x4d, 2}, "i32.ge_u": {0x4f, 2},
	"i64.eqz": {0x50, 1}, "i64.eq": {0x51, 2}, "i64.ne": {0x52, 2}, "i64.lt_u": {0x54, 2}, "i64.gt_u": {0x56, 2},
	"i32.add": {0x6a, 2}, "i32.sub": {0x6b, 2}, "i32.mul": {0x6c, 2}, "i32.and": {0x71, 2}, "i32.or": {0x72, 2},
	"i32.xor": {0x73, 2}, "i32.shl": {0x74, 2}, "i32.shr_u": {0x76, 2}, "i32.rotl": {0x77, 2},
	"i64.add": {0x7c, 2}, "i64.sub": {0x7d, 2}, "i64.mul": {0x7e, 2}, "i64.and": {0x83, 2}, "i64.or": {0x84, 2},
	"i64.xor": {0x85, 2}, "i64.shl": {0x86, 2}, "i64.shr_u": {0x88, 2}, "i64.rotl": {0x89, 2},
	"i32.wrap_i64": {0xa7, 1}, "i64.extend_i32_u": {0xad, 1},
}

// memory are the instructions that load and store: with their alignment as a power of two.
var memory = map[string]struct {
	opcode   byte
	align    byte
	operands int
}{
	"i32.load": {0x28, 2, 1}, "i64.load": {0x29, 3, 1}, "i32.load16_u": {0x2f, 1, 1}, "i64.load32_u": {0x35, 2, 1},
	"i32.store": {0x36, 2, 2}, "i64.store": {0x37, 3, 2}, "i32.store16": {0x3b, 1, 2},
}

// A function is one that is being assembled.
type function struct {
	index  int
	typ    int
	names  map[string]int // of parameters and locals
	locals []byte         // their types
	labels []string       // the innermost last
	body   []node
	node   *node
}

// A module is what is being assembled.
type module struct {
	types     [][]byte
	functions []*function
	names     map[string]*function
	pages     []byte
	exports   [][]byte
}

// assemble makes a module of its text.
func assemble(text string) ([]byte, error) {
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	if root.head() != "module" {
		return nil, root.at("not a module")
	}
	m := &module{names: map[string]*function{}}
	for i := range root.list[1:] {
		n := &root.list[1+i]
		switch n.head() {
		case "memory":
			err = m.memory(n)
		case "func":
			err = m.declare(n)
		default:
			err = n.at("%q is not known", n.head())
		}
		if err != nil {
			return nil, err
		}
	}
	var code [][]byte
	for _, f := range m.functions {
		body, err := m.code(f)
		if err != nil {
			return nil, err
		}
		code = append(code, append(number(uint64(len(body))), body...))
	}
	var declared [][]byte
	for _, f := range m.functions {
		declared = append(declared, number(uint64(f.typ)))
	}
	out := append([]byte("\x00asm"), 1, 0, 0, 0)
	for _, s := range []struct {
		id    byte
		parts [][]byte
	}{{sectionType, m.types}, {sectionFunction, declared}, {sectionMemory, [][]byte{m.pages}},
		{sectionExport, m.exports}, {sectionCode, code}} {
		if len(s.parts) == 0 || s.parts[0] == nil {
			continue
		}
		content := number(uint64(len(s.parts)))
		for _, p := range s.parts {
			content = append(content, p...)
		}
		out = append(append(append(out, s.id), number(uint64(len(content)))...), content...)
	}
	return out, nil
}

// export notes a name for others, if the node is one: (export "name").
func (m *module) export(n *node, kind byte, index int) bool {
	if n.head() != "export" || len(n.list) != 2 {
		return false
	}
	name := strings.Trim(n.list[1].atom, `"`)
	e := append(number(uint64(len(name))), name...)
	m.exports = append(m.exports, append(append(e, kind), number(uint64(index))...))
	return true
}

// memory reads (memory (export "name") least most), in pages.
func (m *module) memory(n *node) error {
	if len(n.list) != 4 || m.pages != nil || !m.export(&n.list[1], kindMemory, 0) {
		return n.at("write one (memory (export \"name\") least most)")
	}
	m.pages = []byte{1}
	for _, p := range n.list[2:] {
		pages, err := strconv.ParseUint(p.atom, 10, 16)
		if err != nil {
			return n.at("%q is not a number of pages", p.atom)
		}
		m.pages = append(m.pages, number(pages)...)
	}
	return nil
}

// declare reads the head of (func $name (export "name") (param $a i32) (result i32) (local $b i64) body).
func (m *module) declare(n *node) error {
	f := &function{index: len(m.functions), names: map[string]int{}, node: n}
	if len(n.list) < 2 || !strings.HasPrefix(n.list[1].atom, "$") || m.names[n.list[1].atom] != nil {
		return n.at("a function needs a name of its own")
	}
	m.names[n.list[1].atom] = f
	m.functions = append(m.functions, f)
	var params, results []byte
	rest := n.list[2:]
	for ; len(rest) > 0; rest = rest[1:] {
		part := &rest[0]
		if m.export(part, kindFunction, f.index) {
			continue
		}
		head := part.head()
		if head != "param" && head != "local" && head != "result" {
			break
		}
		t := types[part.list[len(part.list)-1].atom]
		if t == 0 || len(part.list) != map[string]int{"param": 3, "local": 3, "result": 2}[head] {
			return part.at("write (%s $name i32), one at a time; a result has no name", head)
		}
		if head == "result" {
			results = append(results, t)
			continue
		}
		if _, known := f.names[part.list[1].atom]; known {
			return part.at("%s is there already", part.list[1].atom)
		}
		f.names[part.list[1].atom] = len(f.names)
		if head == "param" {
			params = append(params, t)
		} else {
			f.locals = append(f.locals, t)
		}
	}
	f.body = rest
	typ := append([]byte{typeFunction}, number(uint64(len(params)))...)
	typ = append(append(typ, params...), number(uint64(len(results)))...)
	typ = append(typ, results...)
	f.typ = slices.IndexFunc(m.types, func(t []byte) bool { return string(t) == string(typ) })
	if f.typ < 0 {
		f.typ = len(m.types)
		m.types = append(m.types, typ)
	}
	return nil
}

// code is the body of a function, its locals first.
func (m *module) code(f *function) ([]byte, error) {
	var runs [][]byte // of locals of one type
	for i := 0; i < len(f.locals); {
		n := 1
		for i+n < len(f.locals) && f.locals[i+n] == f.locals[i] {
			n++
		}
		runs = append(runs, append(number(uint64(n)), f.locals[i]))
		i += n
	}
	out := number(uint64(len(runs)))
	for _, r := range runs {
		out = append(out, r...)
	}
	out, err := m.all(out, f, f.body)
	return append(out, 0x0b), err
}

// all assembles instructions one after the other.
func (m *module) all(out []byte, f *function, nodes []node) (_ []byte, err error) {
	for i := range nodes {
		if out, err = m.instruction(out, f, &nodes[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// operands assembles exactly so many operands and then what uses them.
func (m *module) operands(out []byte, f *function, n *node, skip, want int, then ...byte) ([]byte, error) {
	if len(n.list)-skip != want {
		return nil, n.at("%s takes %d operands", n.head(), want)
	}
	out, err := m.all(out, f, n.list[skip:])
	return append(out, then...), err
}

func (m *module) instruction(out []byte, f *function, n *node) ([]byte, error) {
	name := n.head()
	if p, ok := plain[name]; ok {
		return m.operands(out, f, n, 1, p.operands, p.opcode)
	}
	if p, ok := memory[name]; ok {
		offset, skip := uint64(0), 1
		if len(n.list) > 1 {
			if text, ok := strings.CutPrefix(n.list[1].atom, "offset="); ok {
				var err error
				if offset, err = strconv.ParseUint(text, 10, 32); err != nil {
					return nil, n.at("%q is not an offset", text)
				}
				skip = 2
			}
		}
		return m.operands(out, f, n, skip, p.operands, append([]byte{p.opcode, p.align}, number(offset)...)...)
	}
	if len(n.list) < 2 {
		return nil, n.at("%q is not an instruction", name)
	}
	to := n.list[1].atom
	switch name {
	case "i32.const", "i64.const":
		v, err := strconv.ParseInt(to, 0, map[string]int{"i32.const": 32, "i64.const": 64}[name])
		if err != nil {
			return nil, n.at("%q is not a number for %s", to, name)
		}
		return append(append(out, map[string]byte{"i32.const": 0x41, "i64.const": 0x42}[name]), signed(v)...), nil
	case "local.get", "local.set", "local.tee":
		local, ok := f.names[to]
		if !ok {
			return nil, n.at("no local %s", to)
		}
		want := map[string]int{"local.set": 1, "local.tee": 1}[name]
		code := map[string]byte{"local.get": 0x20, "local.set": 0x21, "local.tee": 0x22}[name]
		return m.operands(out, f, n, 2, want, append([]byte{code}, number(uint64(local))...)...)
	case "call":
		g := m.names[to]
		if g == nil {
			return nil, n.at("no function %s", to)
		}
		return m.operands(out, f, n, 2, len(g.names)-len(g.locals), append([]byte{0x10}, number(uint64(g.index))...)...)
	case "br", "br_if":
		depth := slices.Index(reversed(f.labels), to)
		if depth < 0 {
			return nil, n.at("no label %s", to)
		}
		want := map[string]int{"br_if": 1}[name]
		code := map[string]byte{"br": 0x0c, "br_if": 0x0d}[name]
		return m.operands(out, f, n, 2, want, append([]byte{code}, number(uint64(depth))...)...)
	case "block", "loop":
		if !strings.HasPrefix(to, "$") {
			return nil, n.at("a %s needs a label", name)
		}
		return m.nested(append(out, map[string]byte{"block": 0x02, "loop": 0x03}[name], typeNothing), f, to, n.list[2:])
	case "if":
		out, err := m.instruction(out, f, &n.list[1])
		if err != nil {
			return nil, err
		}
		if len(n.list) != 3 || n.list[2].head() != "then" {
			return nil, n.at("write (if condition (then …))")
		}
		return m.nested(append(out, 0x04, typeNothing), f, "", n.list[2].list[1:])
	}
	return nil, n.at("%q is not an instruction", name)
}

// nested assembles instructions inside a label, and the end of it.
func (m *module) nested(out []byte, f *function, label string, nodes []node) ([]byte, error) {
	f.labels = append(f.labels, label)
	out, err := m.all(out, f, nodes)
	f.labels = f.labels[:len(f.labels)-1]
	return append(out, 0x0b), err
}

func reversed(labels []string) []string {
	labels = slices.Clone(labels)
	slices.Reverse(labels)
	return labels
}

// number is LEB128 without a sign.
func number(n uint64) []byte { return binary.AppendUvarint(nil, n) }

// signed is LEB128 with a sign.
func signed(n int64) (out []byte) {
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 && b&0x40 == 0 || n == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

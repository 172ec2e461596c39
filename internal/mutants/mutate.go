package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// A mutant is a file with one small mistake.
type mutant struct {
	file, function string
	kind           string // of the mistake
	line           int
	before, after  string // the line without and with the mistake
	source         []byte // the whole file with it
	order          uint64 // a random number that stays the same while the line does
}

// id names a mutant wherever its line stands.
func (m *mutant) id() string {
	return fmt.Sprintf("%s %s: %s → %s", m.file, m.function, m.before, m.after)
}

// swaps are the operators that stand in for others.
var swaps = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR, token.EQL: token.NEQ,
	token.NEQ:  token.EQL,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO,
	token.QUO: token.MUL,
	token.REM: token.MUL, token.AND: token.OR, token.OR: token.AND, token.SHL: token.SHR, token.SHR: token.SHL,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN, token.OR_ASSIGN: token.AND_ASSIGN,
	token.INC: token.DEC, token.DEC: token.INC,
}

// spared are calls that are not left out. Only the race detector notices a missing lock, the tests hang until the
// timeout without an unlock, and log lines are not tested one by one.
var spared = map[string]bool{
	"Lock": true, "Unlock": true, "RLock": true, "RUnlock": true, "Done": true, "Wait": true, "panic": true,
	"Debug": true, "Info": true, "Warn": true, "Error": true, "Log": true, "LogAttrs": true,
}

type breeder struct {
	path     string
	source   []byte
	set      *token.FileSet
	function string
	all      []*mutant
}

// breed returns all mutants of a file. Text in the tags of fields, names and words is left as it is.
func breed(path string, source []byte, seed uint64) ([]*mutant, error) {
	b := &breeder{path: path, source: source, set: token.NewFileSet()}
	file, err := parser.ParseFile(b.set, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			b.function = f.Name.Name
		} else {
			b.function = "-"
		}
		ast.Inspect(d, func(n ast.Node) bool { b.visit(n); return true })
	}
	seen := map[string]int{}
	for _, m := range b.all {
		h := fnv.New64a()
		fmt.Fprintf(h, "%d %s %d", seed, m.id(), seen[m.id()])
		seen[m.id()]++
		m.order = mix(h.Sum64())
	}
	return b.all, nil
}

// mix spreads a hash of FNV: the last bytes of a text hardly change its high bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (b *breeder) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if to, ok := swaps[n.Op]; ok {
			b.replace("operator", n.OpPos, len(n.Op.String()), to.String())
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			b.replace("negation", n.OpPos, 1, "")
		}
	case *ast.IfStmt:
		b.wrap("condition", n.Cond, "!(", ")")
		if leaves(n.Body) && n.Else == nil {
			b.wrap("guard", n.Cond, "false && (", ")")
		}
	case *ast.ExprStmt:
		b.leaveOut(n, n.X)
	case *ast.DeferStmt:
		b.leaveOut(n, n.Call)
	case *ast.AssignStmt:
		if to, ok := swaps[n.Tok]; ok {
			b.replace("operator", n.TokPos, len(n.Tok.String()), to.String())
		}
		if n.Tok != token.DEFINE && !slices.ContainsFunc(n.Lhs, plain) {
			b.wrap("assignment", n, "if false { ", " }")
		}
	case *ast.IncDecStmt:
		b.replace("operator", n.TokPos, 2, swaps[n.Tok].String())
	case *ast.BasicLit:
		if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil && n.Kind == token.INT {
			b.replace("number", n.Pos(), len(n.Value), strconv.FormatInt(v+1, 10))
		}
	case *ast.ReturnStmt:
		if len(n.Results) > 0 {
			if id, ok := n.Results[len(n.Results)-1].(*ast.Ident); ok && id.Name == "err" {
				b.replace("error", id.Pos(), 3, "nil")
			}
		}
	case *ast.Ident:
		if other, ok := map[string]string{"true": "false", "false": "true"}[n.Name]; ok {
			b.replace("truth", n.Pos(), len(n.Name), other)
		}
	}
}

// leaves reports whether a block ends with a return, break, continue or goto.
func leaves(body *ast.BlockStmt) bool {
	if len(body.List) == 0 {
		return false
	}
	switch body.List[len(body.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	}
	return false
}

// plain reports whether an expression is a variable. Leaving out its assignment mostly breaks everything.
func plain(e ast.Expr) bool { _, ok := e.(*ast.Ident); return ok }

func (b *breeder) leaveOut(n ast.Node, e ast.Expr) {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return
	}
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		ok = !spared[f.Sel.Name]
	case *ast.Ident:
		ok = !spared[f.Name]
	}
	if ok {
		b.wrap("call", n, "if false { ", " }")
	}
}

// wrap puts text before and after a piece of code that stands on one line.
func (b *breeder) wrap(kind string, n ast.Node, before, after string) {
	from, to := b.set.Position(n.Pos()), b.set.Position(n.End())
	if from.Line == to.Line {
		b.replace(kind, n.Pos(), to.Offset-from.Offset, before+string(b.source[from.Offset:to.Offset])+after)
	}
}

func (b *breeder) replace(kind string, pos token.Pos, length int, by string) {
	at := b.set.Position(pos)
	source := slices.Concat(b.source[:at.Offset], []byte(by), b.source[at.Offset+length:])
	line := func(text []byte) string { return strings.TrimSpace(string(bytes.Split(text, []byte("\n"))[at.Line-1])) }
	b.all = append(b.all, &mutant{file: b.path, function: b.function, kind: kind, line: at.Line,
		before: line(b.source), after: line(source), source: source})
}

// choose takes so many mutants, of all kinds in turn.
func choose(all []*mutant, n int) (chosen []*mutant) {
	kinds := map[string][]*mutant{}
	for _, m := range all {
		kinds[m.kind] = append(kinds[m.kind], m)
	}
	for _, k := range kinds {
		slices.SortFunc(k, func(a, b *mutant) int { return cmp.Compare(a.order, b.order) })
	}
	for round := 0; len(chosen) < min(n, len(all)); round++ {
		var row []*mutant
		for _, k := range kinds {
			if round < len(k) {
				row = append(row, k[round])
			}
		}
		slices.SortFunc(row, func(a, b *mutant) int { return cmp.Compare(a.order, b.order) })
		chosen = append(chosen, row[:min(len(row), n-len(chosen))]...)
	}
	return chosen
}

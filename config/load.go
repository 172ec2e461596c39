package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"weir"
	"weir/internal/readfile"
	"weir/internal/yamltree"
	"weir/store"
)

// Bounds on a file.
const (
	MaxFile  = 1 << 20 // bytes; the parser takes some hundred times as much
	MaxDepth = 50      // levels of lists and mappings
	MaxKeys  = 20_000  // keys in the whole file
	// maxUnfolded is how many values aliases may add to those that are written out.
	maxUnfolded = 100_000
)

// Load reads a configuration from a file. The error, unless nil, is of type Errors and holds every mistake. What was
// left out of the file is left out of the Config too; see WithDefaults. Files that are named in it and are not there
// are among the warnings.
func Load(path string) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, Errors{err}
	}
	return parse(path, data, forHere)
}

// LoadStudy is Load for a configuration that is examined and not run: it needs no gate, and the files that it names
// need not exist.
func LoadStudy(path string) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, Errors{err}
	}
	return parse(path, data, forStudy)
}

// A purpose is what a configuration is read for.
type purpose uint8

const (
	forAnywhere purpose = iota // it may be one of another machine
	forHere                    // it is one of this machine, whose files are looked for
	forStudy                   // nothing of it listens
)

func readFile(path string) ([]byte, *Error) {
	data, err := readfile.Read(path, MaxFile)
	switch {
	case errors.Is(err, readfile.ErrLarge):
		return nil, tooLarge(path)
	case err != nil:
		return nil, &Error{File: path, Msg: "cannot be read: " + reason(err), cause: err}
	}
	return data, nil
}

func tooLarge(path string) *Error {
	return &Error{File: path, Msg: fmt.Sprintf("the file is larger than %s", weir.Size(MaxFile))}
}

// Parse reads a configuration from YAML text. name is what mistakes call the file; files that the text refers to are
// looked for beside it. The error, unless nil, is of type Errors and holds every mistake.
func Parse(name string, data []byte) (*Config, error) { return parse(name, data, forAnywhere) }

func parse(name string, data []byte, why purpose) (*Config, error) {
	s := source{name: name}
	if len(data) > MaxFile {
		return nil, Errors{tooLarge(name)}
	}
	text := strings.TrimPrefix(string(data), "\uFEFF") // some editors put a byte order mark first
	s.lines = strings.Split(text, "\n")
	c, errs, warnings := read(name, text, why)
	if len(errs) > 0 {
		return nil, s.annotate(errs)
	}
	c.Warnings = s.annotate(warnings)
	return c, nil
}

func read(name, text string, why purpose) (c *Config, errs, warnings Errors) {
	if err := yamltree.Readable(text); err != nil {
		return nil, Errors{fromTree(err)}, nil
	}
	root, size, broken := sections(text)
	if root == nil || root.Kind == yamltree.Null {
		if broken == nil {
			broken = Errors{mistake(yamltree.Position{Line: 1, Column: 1}, "the file is empty",
				"the folder examples has configurations to start from")}
		}
		return nil, broken, nil
	}
	c = new(Config)
	d := newDecoder(filepath.Dir(name), size)
	d.value(root, reflect.ValueOf(c).Elem())
	data := c.Data
	beside(d.secrets.folder, reflect.ValueOf(&c.Data).Elem())
	errs = append(broken, d.errs...)
	if len(broken) > 0 || d.failed[root] || d.left < 0 {
		return nil, errs, nil // what is not there cannot be checked
	}
	unsure := d.unsureThrottles(root, c)
	mistakes := slices.DeleteFunc(weir.FieldErrors(c.validate(why != forStudy)),
		func(fe *weir.FieldError) bool { return unsure[fe.Path] })
	errs = append(errs, d.found(root, mistakes)...)
	warn := c.warnings()
	if why == forHere {
		errs = append(errs, d.found(root, c.brokenFiles())...)
		errs = append(errs, d.found(root, c.dataElsewhere(data))...)
		warn = append(warn, c.missingFiles()...)
		warn = append(warn, c.proxiesInFiles()...)
	}
	return c, errs, d.found(root, warn)
}

// found puts what a check found at its line, except where the decoder has said already what is wrong.
func (d *decoder) found(root *yamltree.Node, all []*weir.FieldError) Errors {
	var errs Errors
	for _, fe := range all {
		p := locate(root, fe.Path)
		if d.follows(p) {
			continue
		}
		e := mistake(p.at, fe.Msg, fe.Hint)
		if fe.Other != "" {
			other := locate(root, fe.Other)
			if d.follows(other) {
				continue
			}
			e.Msg += fmt.Sprintf(", on line %d", other.at.Line)
		}
		d.secrets.hide(e, slices.ContainsFunc(p.nodes, func(n *yamltree.Node) bool { return d.secret[n] }))
		errs = append(errs, e)
	}
	return errs
}

// source is the text that mistakes point into.
type source struct {
	name  string
	lines []string
}

// annotate sorts mistakes and gives them the file's name and their line. A yamltree.Position always lies inside the
// file.
func (s *source) annotate(errs Errors) Errors {
	for _, e := range errs {
		e.File = s.name
		e.Line = min(max(e.Line, 1), len(s.lines))
		e.source = withoutPasswords(strings.TrimSuffix(s.lines[e.Line-1], "\r"))
		e.Column = min(max(e.Column, 1), utf8.RuneCountInString(e.source)+1)
	}
	return errs.tidy()
}

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

// beside makes a relative path, or each of several, start from the folder of the configuration, wherever weir is
// started.
func beside(folder string, path reflect.Value) {
	if path.Kind() == reflect.Slice {
		for i := range path.Len() {
			beside(folder, path.Index(i))
		}
		return
	}
	if p := path.String(); p != "" && folder != "." && !filepath.IsAbs(p) {
		path.SetString(filepath.Join(folder, p))
	}
}

// dataElsewhere finds data that is where a relative path leads from the folder in which weir is started, and not beside
// the configuration. weir would begin with nothing.
func (c *Config) dataElsewhere(written string) []*weir.FieldError {
	if c.Data == written || hasStore(c.Data) || !hasStore(written) {
		return nil
	}
	at, err := filepath.Abs(written)
	if err != nil {
		at = written
	}
	var warn warnings
	warn.add("data",
		fmt.Sprintf("a relative path starts from the folder of this file; %s has no data, but %s has", c.Data, at),
		fmt.Sprintf("write data: %s, or move that folder", at))
	return warn
}

// hasStore reports whether a folder has what weir keeps.
func hasStore(folder string) bool {
	_, err := readfile.Stat(filepath.Join(folder, store.File))
	return err == nil
}
